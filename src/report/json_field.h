#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/readable.h"

namespace archipelago::report {

// What is no JSON, or nested deeper than anything in a run's folder, is discarded.
inline nlohmann::json parse(std::string_view text) {
  return nlohmann::json::parse(is_nested_too_deeply(text) ? "" : text, nullptr, false);
}

// Whether a number lies within the range of an integer type.
template <std::integral Value>
bool fits(double number) {
  return number >= static_cast<double>(std::numeric_limits<Value>::min()) &&
         number < std::ldexp(1.0, std::numeric_limits<Value>::digits);
}

// A member of what should be an object; `otherwise` where it is none, lacks the member, or holds
// something else there, or a number out of range: other versions of the program, or a damaged file,
// may.
template <typename Value>
Value field(const nlohmann::json& object, const char* key, Value otherwise) {
  if (!object.is_object()) return otherwise;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  if constexpr (std::integral<Value>) {
    if (!found->is_number() || !fits<Value>(found->get<double>())) return otherwise;
  }
  try {
    return found->get<Value>();
  } catch (const nlohmann::json::type_error&) {
    return otherwise;
  }
}

// A number; nothing where there is none.
inline std::optional<double> measured(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// A list; an empty one where there is none.
inline nlohmann::json list_field(const nlohmann::json& object, const char* key) {
  auto list = field(object, key, nlohmann::json::array());
  return list.is_array() ? list : nlohmann::json::array();
}

}  // namespace archipelago::report
