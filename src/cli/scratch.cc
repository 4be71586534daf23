#include "cli/scratch.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>

#include "core/file.h"

namespace archipelago::cli {

namespace fs = std::filesystem;

void remove_left_behind(const fs::path& own) {
  std::error_code error;  // another user's
  for (const auto& entry : fs::directory_iterator(own.parent_path(), error)) {
    if (entry.path().stem() != own.stem()) continue;
    const int pid = std::atoi(entry.path().extension().c_str() + 1);
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), error);
  }
}

Scratch::Scratch() : path_(name()) {
  remove_left_behind(path_);
  fs::create_directories(path_);
  fs::permissions(path_, fs::perms::owner_all);
}

Scratch::~Scratch() {
  std::error_code error;  // nobody is left to tell
  fs::remove_all(path_, error);
}

fs::path Scratch::name() {
  const fs::path shared_memory = "/dev/shm";
  const bool usable = ::access(shared_memory.c_str(), W_OK | X_OK) == 0;
  return (usable ? shared_memory : fs::temp_directory_path()) /
         ("archipelago." + host_name() + '.' + std::to_string(::getpid()));
}

}  // namespace archipelago::cli
