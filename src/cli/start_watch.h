#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/job_signs.h"

namespace archipelago::cli {

// Watches a job's ranks until its start is through (runtime/roll_call.h): each has to come, and to
// stay alive, or the others wait for it for ever.
class StartWatch {
 public:
  // Lays out the files in `roll`, a folder that is made anew; where it cannot be made nothing is
  // ever found missing. `parts` says of each rank what it is, `status` is the run's status.json,
  // `limit` the seconds without a sign of life after which a rank is missing.
  StartWatch(std::filesystem::path roll, const std::vector<std::string>& parts,
             std::filesystem::path status, double limit);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  // To be called again and again, at `now` in seconds of any clock. Once the start is through, and
  // the files are gone, it does nothing more.
  void look(double now);

  // Whether every rank has come and the run has begun to train; true where that cannot be known.
  bool is_through() const { return over_ || status_says_so(); }

  // One line about the ranks that were missing when look() first found some; "" while it has not.
  const std::string& missing() const { return missing_; }

  // Whether any rank has come, by the end of the job; true where that cannot be known.
  bool anybody_came();

 private:
  struct Rank {
    std::string part;
    std::filesystem::path file;
    FileIdentity seen;
    std::string process;  // host and process id; "" until it has come
    double silent = 0;    // seconds
  };

  bool status_says_so() const;
  void look_at(Rank& rank, double passed);
  std::string describe_missing() const;
  void remove_roll() noexcept;

  std::filesystem::path roll_;
  bool makes_run_folder_;
  std::vector<Rank> ranks_;
  std::filesystem::path status_;
  FileIdentity status_before_;
  double limit_;
  Looks looks_{5};
  bool over_ = false;
  bool anybody_came_ = false;
  std::string missing_;
};

}  // namespace archipelago::cli
