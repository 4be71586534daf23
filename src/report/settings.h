#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace archipelago::report {

// Values of options by "section.name", those of no section by their name alone.
using Settings = std::map<std::string, std::string>;

// What a run's config.ini holds, whatever version of the program wrote it; nothing where there is
// none.
Settings read_settings(const std::filesystem::path& folder);

// Of these settings; "" where there is none.
std::string setting(const Settings& settings, const std::string& name);

// Whether the run's method has a syncer; so it is where the settings name none.
bool has_syncer(const Settings& settings);

}  // namespace archipelago::report
