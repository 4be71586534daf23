#include "config/options.h"

#include <cstdlib>
#include <sstream>

#include "core/error.h"
#include "memory_file.h"

// The input as an INI file, and its lines as words of a command line. What is accepted can be
// written and read back to the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace archipelago;
  const std::string_view text = as_text(data, size);
  const auto attempt = [](const std::vector<std::string>& words) {
    try {
      const config::RunConfig config = config::parse_run_config(words);
      const MemoryFile again(config::write_ini(config));
      const auto back =
          config::parse_run_config(std::vector<std::string>{"--config", again.path().string()});
      if (config::write_ini(back) != config::write_ini(config)) std::abort();
    } catch (const Error&) {
    }
  };
  {
    const MemoryFile file(text);
    config::RunConfig config;
    try {
      config::read_ini_file(config::run_options(config), file.path());
    } catch (const Error&) {
    }
  }
  std::vector<std::string> words;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("--config")) words.push_back(line);  // reads whatever file it names
  }
  attempt(words);
  return 0;
}
