#include "report/settings.h"

#include <string_view>

#include "core/readable.h"

namespace archipelago::report {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

Settings read_settings(const std::filesystem::path& folder) {
  Settings settings;
  auto lines = open_to_read(folder / "config.ini");
  std::string section;
  for (std::string line; lines && std::getline(*lines, line);) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') continue;
    if (text.front() == '[') {
      section = std::string(text.substr(1, text.find(']') - 1)) + ".";
      continue;
    }
    const std::size_t equals = text.find('=');
    if (equals == text.npos) continue;
    settings[section + std::string(trimmed(text.substr(0, equals)))] =
        std::string(trimmed(text.substr(equals + 1)));
  }
  return settings;
}

std::string setting(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "" : found->second;
}

bool has_syncer(const Settings& settings) {
  const std::string method = setting(settings, "method");
  return method.empty() || method == "decoupled";
}

}  // namespace archipelago::report
