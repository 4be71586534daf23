#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace archipelago::report {

// A member of what should be an object; `otherwise` where it is none, lacks the member, or holds
// something else there: other versions of the program, or a damaged file, may.
template <typename Value>
Value field(const nlohmann::json& object, const char* key, Value otherwise) {
  if (!object.is_object()) return otherwise;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  try {
    return found->get<Value>();
  } catch (const nlohmann::json::type_error&) {
    return otherwise;
  }
}

// A list; an empty one where there is none.
inline nlohmann::json list_field(const nlohmann::json& object, const char* key) {
  auto list = field(object, key, nlohmann::json::array());
  return list.is_array() ? list : nlohmann::json::array();
}

}  // namespace archipelago::report
