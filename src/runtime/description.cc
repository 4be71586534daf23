#include "runtime/description.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/checksum.h"
#include "core/error.h"
#include "core/program.h"
#include "runtime/machine_settings.h"

namespace archipelago::runtime {
namespace {

std::string value_in(const Description& description, const std::string& name) {
  const auto found = description.find(name);
  if (found == description.end()) return "unknown";
  return found->second.empty() ? "not set" : found->second;
}

}  // namespace

Description describe(const Setup& setup, const data::Dataset& dataset) {
  Description description = config_map(setup);
  description.erase("resume");  // of the start alone
  description["build"] = build_id();
  description["digest of " + setup.config.data.path] = to_hex(dataset.digest());
  return description;
}

// CBOR takes a path's bytes as they are, where JSON would want UTF-8.
std::string to_text(const Description& description) {
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(description);
  return {bytes.begin(), bytes.end()};
}

Description description_from(const std::string& text) try {
  return nlohmann::json::from_cbor(text).get<Description>();
} catch (const nlohmann::json::exception&) {
  throw Error(ExitCode::bad_data, "the syncer's options came in damaged");
}

std::optional<std::string> difference(const Description& here, const Description& at_syncer) {
  std::vector<std::string> names;
  for (const auto& [name, value] : here) {
    if (value_in(at_syncer, name) != value_in(here, name)) names.push_back(name);
  }
  for (const auto& [name, value] : at_syncer) {
    if (!here.contains(name)) names.push_back(name);
  }
  if (names.empty()) return std::nullopt;
  std::string text = names.front() + " is " + value_in(here, names.front()) + " here and " +
                     value_in(at_syncer, names.front()) + " at the syncer";
  if (names.size() > 1) text += ", and " + std::to_string(names.size() - 1) + " more differ";
  return text;
}

}  // namespace archipelago::runtime
