#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/file.h"
#include "fragment/contributions.h"
#include "runtime/run_folder.h"

namespace archipelago::runtime {

// Why a run has failed although all tokens are trained.
inline constexpr char kUnsaved[] = "the last global checkpoint could not be written";
// Why it ends where every island is lost.
inline constexpr char kNobodyLeft[] = "no learner is left, and no spare to take a place";

// The number, or "not available" where there is none (NaN), as metrics and summary say it.
nlohmann::json or_not_available(double number);

// What a run writes about itself, on a thread of its own: a disk may hold up a write for seconds. A
// disk that is full or gone is logged once and costs these lines only, never the run.
class RunRecord {
 public:
  explicit RunRecord(const RunFolder& folder);
  ~RunRecord();  // writes what is left
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  void add_metrics(const nlohmann::json& row);
  void add_event(std::string line);           // of the event tape, sealed, without its end of line
  void add_event(const nlohmann::json& row);  // a line that is no entry; seals it

  // Begins a life of contributions, which are kept before the lines that are told after them.
  void begin_contributions(int life);
  void add_contribution(const fragment::ContributionKey& key, std::span<const float> values);

  // The newest status replaces one that was not written yet.
  void write_status(const nlohmann::json& status);

  // Waits until what has been told so far is in the files (or the disk has refused it).
  void flush();

  // The same, then writes the summary.
  void write_summary(const nlohmann::json& summary);

 private:
  struct Contribution {
    fragment::ContributionKey key;
    std::vector<float> values;
  };
  struct Pending {
    std::vector<Contribution> contributions;
    std::size_t contribution_bytes = 0;
    std::string metrics;
    std::string events;
    std::optional<std::string> status;

    bool empty() const {
      return contributions.empty() && metrics.empty() && events.empty() && !status;
    }
  };

  void run();
  void write(Pending& pending);
  void write_contributions(const std::vector<Contribution>& contributions);
  void append(std::unique_ptr<AppendFile>& file, const std::filesystem::path& path,
              std::string& lines);
  void look_for_folder();
  void complain(const std::string& what);

  const RunFolder& folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Pending pending_;
  std::int64_t begun_ = 0;    // writes of what was pending
  std::int64_t written_ = 0;  // of these, those that have ended
  bool broken_ = false;       // the thread has ended early
  bool stopping_ = false;
  bool dropped_ = false;  // a contribution: the disk is too slow
  std::optional<fragment::ContributionWriter> contributions_;  // the thread's, once it was begun

  // Of the thread alone.
  std::unique_ptr<AppendFile> metrics_file_;
  std::unique_ptr<AppendFile> events_file_;
  Pending unwritten_;
  bool complained_ = false;
  bool folder_gone_ = false;

  std::thread thread_;
};

}  // namespace archipelago::runtime
