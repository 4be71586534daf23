#include "config/option_table.h"

#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace archipelago::config {
namespace {

namespace po = boost::program_options;

constexpr std::string_view kVariablePrefix = "ARCHIPELAGO_";
constexpr unsigned kHelpWidth = 100;
constexpr std::size_t kLargestIniFile = 16 << 20;

std::string variable_name(const std::string& option_name) {
  std::string name(kVariablePrefix);
  for (const char c : option_name) {
    name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::string section_of(const std::string& name) {
  // A learner's own options, learner.N.section.name, stand below [learner.N].
  constexpr std::string_view kLearner = "learner.";
  const auto dot = name.find('.', name.starts_with(kLearner) ? kLearner.size() : 0);
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

const Option* find(std::span<const Option> options, const std::string& name) {
  const auto found = std::ranges::find(options, name, &Option::name);
  return found == options.end() ? nullptr : &*found;
}

// Levenshtein's distance, a row at a time.
std::size_t edit_distance(std::string_view word, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < word.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (word[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string nearest_hint(const std::string& word, std::span<const Option> options,
                         std::string (*shown)(const std::string&)) {
  std::vector<std::string> names;
  for (const Option& option : options) names.push_back(shown(option.name));
  const std::string best = nearest(word, names);
  return best.empty() ? std::string() : "; the nearest is " + best;
}

std::string as_option(const std::string& name) { return "--" + name; }
std::string as_key(const std::string& name) { return name; }

// An option whose name alone means true; a value, if any, follows an equal sign.
class FlagValue : public po::typed_value<std::string> {
 public:
  FlagValue() : typed_value(nullptr) { implicit_value("true", ""); }
  std::string name() const override { return {}; }
};

void add_to(po::options_description& group, const Option& option) {
  if (option.argument.empty()) {
    group.add_options()(option.name.c_str(), new FlagValue, option.help.c_str());
    return;
  }
  const std::string shown_default =
      option.default_value.empty() ? std::string() : " [" + option.default_value + "]";
  group.add_options()(option.name.c_str(), po::value<std::string>()->value_name(option.argument),
                      (option.help + shown_default).c_str());
}

po::options_description describe(std::span<const Option> options, ConfigFiles config_files) {
  po::options_description all(kHelpWidth, kHelpWidth / 2);
  po::options_description* group = &all;
  std::string section;
  std::vector<std::unique_ptr<po::options_description>> groups;
  for (const Option& option : options) {
    if (section_of(option.name) != section) {
      section = section_of(option.name);
      groups.push_back(
          std::make_unique<po::options_description>(section, kHelpWidth, kHelpWidth / 2));
      group = groups.back().get();
    }
    add_to(*group, option);
  }
  if (config_files == ConfigFiles::allowed) {
    all.add_options()("config", po::value<std::string>()->value_name("FILE"),
                      "INI file with options; may be repeated, later files win");
  }
  for (const auto& one : groups) all.add(*one);
  return all;
}

// Parses with Boost and turns what it finds wrong into one line.
po::parsed_options parse_tokens(const po::options_description& description,
                                std::span<const Option> options,
                                std::span<const std::string> arguments) {
  using namespace po::command_line_style;
  try {
    return po::command_line_parser({arguments.begin(), arguments.end()})
        .options(description)
        .style(allow_long | long_allow_adjacent | long_allow_next)
        .run();
  } catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    throw Error(ExitCode::usage, "unknown option " + name + nearest_hint(name, options, as_option));
  } catch (const po::error_with_option_name& error) {
    // Boost's own message would never be done where the word holds one of its placeholders.
    const std::string name = error.get_option_name();
    throw Error(ExitCode::usage, "option " + (name.empty() ? "--" : name) + " needs a value");
  } catch (const po::error& error) {
    throw Error(ExitCode::usage, error.what());
  }
}

struct IniEntry {
  std::string name;
  std::string value;
};

bool is_blank(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  return first == std::string::npos || line[first] == '#';
}

bool is_section(const std::string& line) { return line[line.find_first_not_of(" \t\r")] == '['; }

// Parses one line of an INI file under the section header that holds there. Boost reads whole files
// without telling lines apart; a line at a time it lets an error name its line.
std::vector<IniEntry> parse_ini_line(const std::string& section_line, const std::string& line) {
  std::istringstream stream(section_line + '\n' + line + '\n');
  const auto parsed = po::parse_config_file(stream, po::options_description(), true);
  std::vector<IniEntry> entries;
  for (const auto& option : parsed.options) {
    entries.push_back({option.string_key, option.value.empty() ? "" : option.value.front()});
  }
  return entries;
}

class IniReader {
 public:
  IniReader(std::span<const Option> options, const std::filesystem::path& file)
      : options_(options), file_(file) {}

  void read(const std::string& line) {
    ++number_;
    if (is_blank(line)) return;
    try {
      const auto entries = parse_ini_line(section_line_, line);
      if (is_section(line)) section_line_ = line;
      for (const IniEntry& entry : entries) set(entry);
    } catch (const po::error&) {
      fail("is neither a [section] nor a line 'name = value'");
    }
  }

 private:
  void set(const IniEntry& entry) {
    const Option* const option = find(options_, entry.name);
    if (option == nullptr) {
      fail("unknown key " + entry.name + nearest_hint(entry.name, options_, as_key));
    }
    const auto [first, is_new] = line_of_.emplace(entry.name, number_);
    if (!is_new) fail(entry.name + " is already set in line " + std::to_string(first->second));
    try {
      option->set(entry.value);
    } catch (const std::invalid_argument& error) {
      fail(entry.name + " = " + entry.value + ": " + error.what());
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::configuration,
                file_.string() + ", line " + std::to_string(number_) + ": " + what);
  }

  std::span<const Option> options_;
  const std::filesystem::path& file_;
  int number_ = 0;
  std::string section_line_;
  std::map<std::string, int> line_of_;
};

// What the command line says, checked for shape but not yet for values.
struct Tokens {
  CommandLine rest;
  std::vector<std::pair<const Option*, std::string>> settings;
};

Tokens read_tokens(std::span<const Option> options, std::span<const std::string> arguments,
                   ConfigFiles config_files) {
  Tokens tokens;
  for (const auto& token :
       parse_tokens(describe(options, config_files), options, arguments).options) {
    const Option* const option = find(options, token.string_key);
    // Only a flag may stand without a value.
    std::string value = token.value.empty() ? "true" : token.value.front();
    // Boost gives a flag the argument after it, which is none of its own.
    const bool took_next =
        option != nullptr && option->argument.empty() && token.original_tokens.size() > 1;
    if (took_next) tokens.rest.positional.push_back(std::exchange(value, "true"));
    if (token.string_key.empty()) {
      tokens.rest.positional.push_back(value);
    } else if (option == nullptr) {
      tokens.rest.config_files.emplace_back(value);
    } else if (std::ranges::count(tokens.settings, option,
                                  [](const auto& setting) { return setting.first; }) > 0) {
      throw Error(ExitCode::usage, "option --" + option->name + " is given twice");
    } else {
      tokens.settings.emplace_back(option, value);
    }
  }
  return tokens;
}

void apply(const Tokens& tokens) {
  for (const auto& [option, value] : tokens.settings) {
    try {
      option->set(value);
    } catch (const std::invalid_argument& error) {
      throw Error(ExitCode::usage, "option --" + option->name + ' ' + value + ": " + error.what());
    }
  }
}

}  // namespace

CommandLine read_command_line(std::span<const Option> options,
                              std::span<const std::string> arguments, ConfigFiles config_files) {
  const Tokens tokens = read_tokens(options, arguments, config_files);
  apply(tokens);
  return tokens.rest;
}

void read_environment(std::span<const Option> options) {
  std::map<std::string, const Option*> by_variable;
  po::options_description description;
  for (const Option& option : options) {
    by_variable.emplace(variable_name(option.name), &option);
    description.add_options()(option.name.c_str(), po::value<std::string>());
  }
  const auto option_name = [&](const std::string& variable) -> std::string {
    if (!variable.starts_with(kVariablePrefix)) return {};
    const auto found = by_variable.find(variable);
    if (found != by_variable.end()) return found->second->name;
    throw Error(ExitCode::configuration, "environment variable " + variable + " names no option" +
                                             nearest_hint(variable, options, variable_name));
  };
  for (const auto& setting :
       po::parse_environment(description, boost::function1<std::string, std::string>(option_name))
           .options) {
    const std::string value = setting.value.empty() ? std::string() : setting.value.front();
    try {
      find(options, setting.string_key)->set(value);
    } catch (const std::invalid_argument& error) {
      throw Error(ExitCode::configuration, "environment variable " +
                                               variable_name(setting.string_key) + '=' + value +
                                               ": " + error.what());
    }
  }
}

void clear_environment() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view setting(*variable);
    if (setting.starts_with(kVariablePrefix))
      names.emplace_back(setting.substr(0, setting.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

IniFile load_ini_file(const std::filesystem::path& path) {
  static std::map<std::filesystem::path, IniFile> pipes;
  if (const auto known = pipes.find(path); known != pipes.end()) return known->second;
  IniFile file{path, {}};
  try {
    file.text = read_file(path, kLargestIniFile);
  } catch (const std::system_error& error) {
    throw Error(ExitCode::configuration, error.what());
  }
  // Some editors begin a UTF-8 file with a byte order mark.
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (file.text.starts_with(kByteOrderMark)) file.text.erase(0, kByteOrderMark.size());
  if (!std::filesystem::is_regular_file(path)) pipes.emplace(path, file);
  return file;
}

void read_ini_file(std::span<const Option> options, const IniFile& file) {
  IniReader reader(options, file.path);
  std::istringstream lines(file.text);
  for (std::string line; std::getline(lines, line);) reader.read(line);
}

void read_ini_file(std::span<const Option> options, const std::filesystem::path& path) {
  read_ini_file(options, load_ini_file(path));
}

std::string write_ini(std::span<const Option> options) {
  std::string content;
  std::string section;
  for (const Option& option : options) {
    if (const std::string own = section_of(option.name); own != section) {
      section = own;
      content += "\n[" + section + "]\n";
    }
    const auto start = section.empty() ? 0 : section.size() + 1;
    content += option.name.substr(start) + " = " + option.get() + '\n';
  }
  return content;
}

std::map<std::string, std::string> to_map(std::span<const Option> options) {
  std::map<std::string, std::string> values;
  for (const Option& option : options) values.emplace(option.name, option.get());
  return values;
}

void from_map(std::span<const Option> options, const std::map<std::string, std::string>& values,
              const std::string& source) {
  for (const Option& option : options) {
    const auto found = values.find(option.name);
    if (found == values.end()) continue;
    try {
      option.set(found->second);
    } catch (const std::invalid_argument& error) {
      throw Error(ExitCode::bad_data,
                  source + ": " + option.name + " = " + found->second + ": " + error.what());
    }
  }
}

std::string help_text(std::span<const Option> options, ConfigFiles config_files) {
  std::ostringstream stream;
  stream << describe(options, config_files);
  return stream.str();
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t common = std::min(word.size(), candidate.size());
    const std::size_t longer = std::max(word.size(), candidate.size());
    if (longer - common >= least) continue;  // each letter too many is a change
    const std::size_t changes = edit_distance(word, candidate);
    if (changes >= least) continue;
    least = changes;
    best = candidate;
  }
  return best;
}

}  // namespace archipelago::config
