#include "runtime/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace archipelago::runtime {

RunFolder::RunFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

void RunFolder::open_for_writing(bool resume) {
  require_no_emulation();
  if (!resume && holds_run()) {
    refuse("already holds a run; go on with it by --resume, or name another folder");
  }
  take();
}

void RunFolder::open_for_one_start() {
  require_no_emulation();
  if (holds_run()) refuse("already holds a run; name another folder");
  take();
}

void RunFolder::take() {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) refuse("cannot make the folder: " + error.message());
  lock_ = FileDescriptor(::open(lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock_.valid()) refuse(std::string("cannot write there: ") + std::strerror(errno));
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) refuse_used();
  std::filesystem::create_directories(checkpoints(), error);
  if (error) refuse("cannot make the folder checkpoints: " + error.message());
  require_room();
}

void RunFolder::require_unused() const {
  const FileDescriptor file(::open(lock().c_str(), O_RDONLY | O_CLOEXEC));
  if (file.valid() && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0) refuse_used();
}

bool RunFolder::holds_emulation() const {
  std::error_code error;
  return std::filesystem::exists(conditions(), error);
}

void RunFolder::require_no_emulation() const {
  if (holds_emulation())
    refuse("holds an emulated run, which nothing can go on with; name another folder");
}

void RunFolder::refuse(const std::string& why) const {
  throw Error(ExitCode::configuration, "--out " + folder_.string() + ": " + why);
}

void RunFolder::refuse_used() const {
  refuse("another run uses it now (" + read_file(lock()) + "); wait for it, or stop it by `touch " +
         stop().string() + "`");
}

bool RunFolder::holds_run() const {
  std::error_code error;  // there may be no folder, or no checkpoints
  return std::filesystem::exists(metrics(), error) ||
         std::filesystem::directory_iterator(checkpoints(), error) !=
             std::filesystem::directory_iterator();
}

void RunFolder::inherit() {
  lock_ = FileDescriptor(::open(lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (lock_.valid() && ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    log_warning("the syncer before this one still holds the run's lock");
  }
}

std::optional<std::string> RunFolder::take_stop() const {
  std::error_code error;
  // Looking first: a removal may wait for the disk.
  if (!std::filesystem::exists(stop(), error)) return std::nullopt;
  std::string line;
  std::getline(std::ifstream(stop()), line);
  if (!std::filesystem::remove(stop(), error)) return std::nullopt;
  return line == kStopOfLauncher ? kStopOfLauncher : kStopOfUser;
}

void RunFolder::mark_as_failed() const noexcept try {
  auto now = nlohmann::json::parse(read_file(status()), nullptr, false);
  if (!now.is_object()) return;
  const auto state = now["state"];
  if (state == "done" || state == "stopped" || state == "failed") return;
  now["state"] = "failed";
  write_file(status(), now.dump() + '\n', Durability::unflushed);
} catch (const std::exception&) {
  // A full disk, most likely; the summary tells the same.
}

void RunFolder::require_room() const {
  constexpr std::size_t kProbeBytes = 1 << 16;
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  const std::string owner = "pid " + std::to_string(::getpid()) + " on " + host;
  try {
    for (const auto& folder : {checkpoints(), folder_}) {
      write_file(folder / ".probe", std::string(kProbeBytes, '\n'), Durability::flushed);
      std::filesystem::remove(folder / ".probe");
    }
    if (::ftruncate(lock_.get(), 0) != 0 || ::pwrite(lock_.get(), owner.data(), owner.size(), 0) !=
                                                static_cast<ssize_t>(owner.size())) {
      throw std::system_error(errno, std::generic_category(), "cannot write " + lock().string());
    }
  } catch (const std::system_error& error) {
    throw Error(ExitCode::configuration, "--out " + folder_.string() +
                                             ": cannot write there: " + error.what() +
                                             "; free some space or name another folder");
  }
}

}  // namespace archipelago::runtime
