#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace archipelago::cli {

// The signs by which `launch` knows that a job is over though mpirun may not.

// Which file a name stands for now, and as of when: another one once the file has been replaced or
// changed. Nothing where there is none.
using FileIdentity = std::optional<std::pair<ino_t, std::int64_t>>;
FileIdentity identity_of(const std::filesystem::path& path);

// When to look at a job again, and how long ago the look before was: at most `longest` seconds, as
// time in which the launcher itself stood still, as in a job that Slurm suspends, is nobody's
// fault.
class Looks {
 public:
  explicit Looks(double longest) : longest_(longest) {}

  // At `now` in seconds of any clock: seconds since the look before, 0 at the first; nothing where
  // it is too early for another.
  std::optional<double> next(double now);

 private:
  double longest_;
  std::optional<double> before_;
};

// The run's summary.json, told apart from one that an earlier start left.
class Summary {
 public:
  explicit Summary(const std::filesystem::path& folder);

  bool is_new() const;
  std::optional<nlohmann::json> read() const;

 private:
  std::filesystem::path path_;
  FileIdentity before_;
};

// Whether this start's syncer is known to be dead, with none that took over: mpirun may then wait
// for ever. Known only of a syncer on this host.
class SyncerWatch {
 public:
  explicit SyncerWatch(const std::filesystem::path& folder) : path_(folder / "status.json") {}

  bool is_dead() const;

 private:
  std::filesystem::path path_;
  std::filesystem::file_time_type started_ = std::filesystem::file_time_type::clock::now();
};

// How long a run that trains has stood still: a living syncer rewrites status.json every second.
class StandstillWatch {
 public:
  explicit StandstillWatch(const std::filesystem::path& folder);

  // To be called again and again, at `now` in seconds of any clock. Warns once of each standstill.
  void look(double now);

  double seconds() const { return silent_; }
  // The syncer by its last status: "the syncer (pid 7 on host a)".
  const std::string& syncer() const { return syncer_; }

 private:
  void read_status();
  void tell_if_silent();

  std::filesystem::path path_;
  FileIdentity seen_;
  Looks looks_{2};
  bool told_ = false;
  bool trains_ = false;  // as of this start
  std::string syncer_;
  double silent_ = 0;
};

// Whether mpirun's ranks, which are its children where all run on this host, are all dead: it may
// then wait for ever.
class RanksWatch {
 public:
  explicit RanksWatch(pid_t mpirun) : mpirun_(mpirun) {}

  // To be asked again and again: true when none was seen several times. False as long as none has
  // been seen alive.
  bool are_gone();

 private:
  pid_t mpirun_;
  bool seen_ = false;
  int polls_without_ = 0;
};

}  // namespace archipelago::cli
