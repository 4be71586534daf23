#include "runtime/scaling.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/file.h"
#include "core/log.h"

namespace archipelago::runtime {
namespace {

std::optional<int> number_in(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool rest = text.find_first_not_of(" \n", static_cast<std::size_t>(end - text.data())) !=
                    std::string::npos;
  if (error != std::errc{} || rest) return std::nullopt;
  return number;
}

}  // namespace

std::optional<int> Scaling::take(const std::filesystem::path& file) try {
  // Looking first: a removal may wait for the disk. An empty one is still being written.
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error || size == 0) return std::nullopt;
  const std::string text = read_file(file);
  if (!std::filesystem::remove(file, error)) return std::nullopt;
  ++requests_;
  refusal_.reset();
  const auto number = number_in(text);
  learners_ = number.value_or(0);
  if (!number) refuse("the file scale holds no number");
  return number;
} catch (const std::system_error&) {  // it went away again
  return std::nullopt;
}

void Scaling::refuse(const std::string& why) {
  refusal_ = why;
  log_warning("scaling refused: " + why);
}

nlohmann::json Scaling::status() const {
  return {{"requests", requests_},
          {"learners", learners_},
          {"refused", refusal_ ? nlohmann::json(*refusal_) : nlohmann::json()}};
}

}  // namespace archipelago::runtime
