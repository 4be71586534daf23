#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/file.h"
#include "runtime/run_folder.h"

namespace archipelago::runtime {

// What a run writes about itself. A disk that is full or gone is logged once and costs these lines
// only, never the run.
class RunRecord {
 public:
  explicit RunRecord(const RunFolder& folder);
  ~RunRecord();

  void add_metrics(const nlohmann::json& row);
  void add_event(std::string line);  // of the event tape, without its end of line
  void add_event(const nlohmann::json& row);
  void flush();

  void write_status(const nlohmann::json& status);
  void write_summary(const nlohmann::json& summary);

 private:
  void append(std::unique_ptr<AppendFile>& file, const std::filesystem::path& path,
              std::string& lines);
  void complain(const std::string& what);

  const RunFolder& folder_;
  std::unique_ptr<AppendFile> metrics_file_;
  std::unique_ptr<AppendFile> events_file_;
  std::string metrics_lines_;
  std::string events_lines_;
  bool complained_ = false;
};

}  // namespace archipelago::runtime
