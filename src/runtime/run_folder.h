#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/file.h"

namespace archipelago::runtime {

// What the file `stop` holds where the launcher wrote it, and the reason that the run then gives. A
// file with anything else in it, or nothing, is a user's.
inline constexpr char kStopOfLauncher[] = "a signal to the launcher";
inline constexpr char kStopOfUser[] = "the file stop";
// The reason where nobody has heard of the launcher for a while.
inline constexpr char kLauncherGone[] = "the launcher is gone";

// The files of one run (docs/design.md, "A run's folder"): the one place that names them.
class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path folder);

  // The right to write here: makes the folder, takes its lock, and refuses one that holds an
  // emulated run, or any run unless `resume`. Throws Error(configuration): not writable, no room,
  // already in use (by which process), already used.
  void open_for_writing(bool resume);

  // The same for a run that --resume cannot go on with later.
  void open_for_one_start();

  // Whether a run has been here: there are metrics or checkpoints.
  bool holds_run() const;

  // Throws Error(configuration) where another run uses the folder now, and names its process.
  void require_unused() const;

  // Whether an emulated run has been here (docs/emulation.md).
  bool holds_emulation() const;

  // Throws Error(configuration) where one has: its tape and checkpoints are in virtual time.
  void require_no_emulation() const;

  // A standby syncer's right to go on writing after the syncer: takes the lock where it can be had
  // (a syncer that hangs keeps it).
  void inherit();

  // Takes the file `stop` away and returns whose it was, kStopOfLauncher or kStopOfUser; nothing
  // where there is none.
  std::optional<std::string> take_stop() const;

  // Lets status.json say that the run has failed, where it says neither that nor another end: for a
  // run that broke off. Where that cannot be written it stays as it is.
  void mark_as_failed() const noexcept;

  std::filesystem::path path() const { return folder_; }
  std::filesystem::path config() const { return folder_ / "config.ini"; }
  // What an emulated run met.
  std::filesystem::path conditions() const { return folder_ / "conditions.ini"; }
  std::filesystem::path metrics() const { return folder_ / "metrics.jsonl"; }
  std::filesystem::path events() const { return folder_ / "events.jsonl"; }
  std::filesystem::path contributions() const { return folder_ / "tape"; }
  std::filesystem::path status() const { return folder_ / "status.json"; }
  std::filesystem::path summary() const { return folder_ / "summary.json"; }
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  std::filesystem::path stop() const { return folder_ / "stop"; }
  std::filesystem::path scale() const { return folder_ / "scale"; }
  // By which islands that are jobs of their own find the syncer; for its owner alone.
  std::filesystem::path invitation() const { return folder_ / "join.json"; }
  std::filesystem::path lock() const { return folder_ / ".lock"; }

 private:
  [[noreturn]] void refuse(const std::string& why) const;
  [[noreturn]] void refuse_used() const;
  void take();
  void require_room() const;

  std::filesystem::path folder_;
  FileDescriptor lock_;
};

}  // namespace archipelago::runtime
