#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>

#include "core/file.h"
#include "runtime/run_folder.h"

namespace archipelago::runtime {

// What a run writes about itself, on a thread of its own: a disk may hold up a write for seconds. A
// disk that is full or gone is logged once and costs these lines only, never the run.
class RunRecord {
 public:
  explicit RunRecord(const RunFolder& folder);
  ~RunRecord();  // writes what is left
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  void add_metrics(const nlohmann::json& row);
  void add_event(std::string line);  // of the event tape, without its end of line
  void add_event(const nlohmann::json& row);

  // The newest status replaces one that was not written yet.
  void write_status(const nlohmann::json& status);

  // Waits until everything told so far is written, then writes the summary.
  void write_summary(const nlohmann::json& summary);

 private:
  struct Pending {
    std::string metrics;
    std::string events;
    std::optional<std::string> status;

    bool empty() const { return metrics.empty() && events.empty() && !status; }
  };

  void run();
  void finish();
  void write(Pending& pending);
  void append(std::unique_ptr<AppendFile>& file, const std::filesystem::path& path,
              std::string& lines);
  void complain(const std::string& what);

  const RunFolder& folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Pending pending_;
  bool writing_ = false;
  bool broken_ = false;  // the thread has ended early
  bool stopping_ = false;

  // Of the thread alone.
  std::unique_ptr<AppendFile> metrics_file_;
  std::unique_ptr<AppendFile> events_file_;
  Pending unwritten_;
  bool complained_ = false;

  std::thread thread_;
};

}  // namespace archipelago::runtime
