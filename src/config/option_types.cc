#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <stdexcept>
#include <utility>

#include "config/option_table.h"

namespace archipelago::config {
namespace {

template <class Number>
std::string number_text(Number value) {
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end);
}

// The whole of `text` as a number, or nothing.
template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last) return std::nullopt;
  return value;
}

bool parse_boolean(const std::string& text) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  throw std::invalid_argument("must be true or false");
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// `accepts` decides on finite numbers; `range` says in words what it accepts.
template <class Accepts>
Option checked_real(std::string name, double& value, std::string range, std::string help,
                    Accepts accepts) {
  return Option{std::move(name),
                "X",
                std::move(help) + " (" + range + ")",
                number_text(value),
                [&value, range, accepts](const std::string& given) {
                  const auto number = parse_number<double>(given);
                  if (!number || !std::isfinite(*number) || !accepts(*number)) {
                    throw std::invalid_argument("must be a number " + range);
                  }
                  value = *number;
                },
                [&value] { return number_text(value); }};
}

Option truth(std::string name, std::string argument, bool& value, std::string help) {
  return Option{std::move(name),
                std::move(argument),
                std::move(help),
                value ? "true" : "false",
                [&value](const std::string& given) { value = parse_boolean(given); },
                [&value]() -> std::string { return value ? "true" : "false"; }};
}

}  // namespace

template <class Integer>
Option integer(std::string name, Integer& value, std::int64_t low, std::int64_t high,
               std::string help) {
  const bool bounded = high != std::numeric_limits<std::int64_t>::max();
  const std::string range = bounded ? "from " + number_text(low) + " to " + number_text(high)
                                    : "from " + number_text(low) + " on";
  return Option{
      std::move(name),
      "N",
      std::move(help) + " (" + range + ")",
      number_text(value),
      [&value, low, high, range](const std::string& given) {
        const auto number = parse_number<std::int64_t>(given);
        if (!number || *number < low || *number > high || !std::in_range<Integer>(*number)) {
          throw std::invalid_argument("must be a whole number " + range);
        }
        value = static_cast<Integer>(*number);
      },
      [&value] { return number_text(value); }};
}

template Option integer(std::string, int&, std::int64_t, std::int64_t, std::string);
template Option integer(std::string, std::int64_t&, std::int64_t, std::int64_t, std::string);
template Option integer(std::string, std::uint64_t&, std::int64_t, std::int64_t, std::string);

Option real(std::string name, double& value, double low, double high, std::string help) {
  const std::string range = high == kNoLimit
                                ? "from " + number_text(low) + " on"
                                : "from " + number_text(low) + " to " + number_text(high);
  return checked_real(std::move(name), value, range, std::move(help),
                      [low, high](double number) { return number >= low && number <= high; });
}

Option positive(std::string name, double& value, double high, std::string help) {
  const std::string range = high == kNoLimit ? "above 0" : "above 0, up to " + number_text(high);
  return checked_real(std::move(name), value, range, std::move(help),
                      [high](double number) { return number > 0 && number <= high; });
}

Option choice(std::string name, std::string& value, std::initializer_list<std::string_view> choices,
              std::string help) {
  std::string words;
  for (const std::string_view word : choices)
    words += (words.empty() ? "" : ", ") + std::string(word);
  const std::vector<std::string> allowed(choices.begin(), choices.end());
  return Option{std::move(name),
                "WORD",
                std::move(help) + " (" + words + ")",
                value,
                [&value, allowed, words](const std::string& given) {
                  if (std::ranges::find(allowed, given) == allowed.end()) {
                    throw std::invalid_argument(
                        "must be " + std::string(allowed.size() > 1 ? "one of " : "") + words);
                  }
                  value = given;
                },
                [&value] { return value; }};
}

Option text(std::string name, std::string& value, std::string argument, std::string help) {
  return Option{std::move(name),
                std::move(argument),
                std::move(help),
                value,
                [&value](const std::string& given) {
                  if (given.find_first_of("#\n") != std::string::npos) {
                    throw std::invalid_argument("must be one line without '#'");
                  }
                  value = trimmed(given);
                },
                [&value] { return value; }};
}

Option verbatim_text(std::string name, std::string& value, std::string argument, std::string help) {
  return Option{std::move(name),
                std::move(argument),
                std::move(help),
                value,
                [&value](const std::string& given) { value = given; },
                [&value] { return value; }};
}

Option boolean(std::string name, bool& value, std::string help) {
  return truth(std::move(name), "BOOL", value, std::move(help));
}

Option flag(std::string name, bool& value, std::string help) {
  return truth(std::move(name), "", value, std::move(help));
}

}  // namespace archipelago::config
