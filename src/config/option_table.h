#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace archipelago::config {

// One option bound to the variable that holds its value. The same object serves the command line
// (--section.name VALUE), the environment (ARCHIPELAGO_SECTION_NAME) and the INI file ([section],
// name = VALUE). The variable must outlive the option; its value at the time the option is made is
// the default that --help shows.
struct Option {
  std::string name;      // "section.name", or "name" for one without a section
  std::string argument;  // how the value is shown in --help, e.g. "N"; empty for a flag
  std::string help;      // one line, with the range
  std::string default_value;
  std::function<void(const std::string&)>
      set;                           // throws std::invalid_argument: why the text is no value
  std::function<std::string()> get;  // text that `set` reads back to the same value
};

inline constexpr double kNoLimit = std::numeric_limits<double>::max();

// Whole numbers from `low` to `high`, both included. Integer: int, int64_t or uint64_t.
template <class Integer>
Option integer(std::string name, Integer& value, std::int64_t low, std::int64_t high,
               std::string help);

// Finite numbers from `low` to `high`, both included.
Option real(std::string name, double& value, double low, double high, std::string help);
// Finite numbers above 0, up to `high`.
Option positive(std::string name, double& value, double high, std::string help);

// One of the words in `choices`.
Option choice(std::string name, std::string& value, std::initializer_list<std::string_view> choices,
              std::string help);

// Any text of one line without '#', which starts a comment in an INI file; blanks around it are
// dropped, as the INI file does.
Option text(std::string name, std::string& value, std::string argument, std::string help);

// Any text, taken as it stands. Not for what write_ini() writes: an INI file may not hold it.
Option verbatim_text(std::string name, std::string& value, std::string argument, std::string help);

// true or false; needs a value.
Option boolean(std::string name, bool& value, std::string help);
// true or false; on the command line the name alone means true.
Option flag(std::string name, bool& value, std::string help);

// What the command line held besides options.
struct CommandLine {
  std::vector<std::string> positional;
  std::vector<std::filesystem::path> config_files;  // --config, in order; only where it was allowed
};

// Whether a command line may name INI files.
enum class ConfigFiles { allowed, not_allowed };

// Sets `options` from `arguments`. Throws Error(usage) for an unknown option (naming the nearest
// one), a repeated one, a missing value or one out of range.
CommandLine read_command_line(std::span<const Option> options,
                              std::span<const std::string> arguments,
                              ConfigFiles config_files = ConfigFiles::not_allowed);

// Sets `options` from the environment variables whose name starts with ARCHIPELAGO_. Throws
// Error(configuration) naming the variable, and the nearest right one if it is unknown.
void read_environment(std::span<const Option> options);

// Removes those variables from this process's environment, for children that get every option by
// other ways.
void clear_environment();

struct IniFile {
  std::filesystem::path path;
  std::string text;
};

// The whole file. A pipe is read once in a process; the next call has what it said then. Throws
// Error(configuration).
IniFile load_ini_file(const std::filesystem::path& path);

// Sets `options` from an INI file. Throws Error(configuration) naming the file, the line, and the
// nearest right key if one is unknown.
void read_ini_file(std::span<const Option> options, const IniFile& file);
void read_ini_file(std::span<const Option> options, const std::filesystem::path& path);

// INI text with every option and its value; read_ini_file reads it back to the same values.
std::string write_ini(std::span<const Option> options);

// Every option's name and value.
std::map<std::string, std::string> to_map(std::span<const Option> options);

// Sets the named options; `source` says where the values come from. Names that are no option are
// passed over, so that files of later versions can be read. Throws Error(bad_data) for a wrong
// value.
void from_map(std::span<const Option> options, const std::map<std::string, std::string>& values,
              const std::string& source);

// The options as --help shows them, grouped by section.
std::string help_text(std::span<const Option> options,
                      ConfigFiles config_files = ConfigFiles::not_allowed);

// The candidate with the smallest edit distance to `word`; empty when there is none.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace archipelago::config
