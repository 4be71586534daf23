#include "runtime/run_record.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "core/log.h"

namespace archipelago::runtime {
namespace {

// Lines that a full disk does not take are kept up to this size, then dropped.
constexpr std::size_t kLargestBacklog = 8 << 20;

}  // namespace

RunRecord::RunRecord(const RunFolder& folder) : folder_(folder) {}

RunRecord::~RunRecord() { flush(); }

void RunRecord::add_metrics(const nlohmann::json& row) { metrics_lines_ += row.dump() + '\n'; }

void RunRecord::add_event(std::string line) { events_lines_ += std::move(line) + '\n'; }

void RunRecord::add_event(const nlohmann::json& row) { add_event(row.dump()); }

void RunRecord::flush() {
  append(metrics_file_, folder_.metrics(), metrics_lines_);
  append(events_file_, folder_.events(), events_lines_);
}

void RunRecord::append(std::unique_ptr<AppendFile>& file, const std::filesystem::path& path,
                       std::string& lines) {
  if (lines.empty()) return;
  try {
    // Opening again after a failure ends the line that was cut off.
    if (!file) file = std::make_unique<AppendFile>(path);
    file->append(lines);
    lines.clear();
  } catch (const std::system_error& error) {
    file.reset();
    if (lines.size() > kLargestBacklog) lines.clear();
    complain(error.what());
  }
}

void RunRecord::write_status(const nlohmann::json& status) {
  try {
    write_file(folder_.status(), status.dump() + '\n', Durability::unflushed);
  } catch (const std::system_error& error) {
    complain(error.what());
  }
}

void RunRecord::write_summary(const nlohmann::json& summary) {
  try {
    write_file(folder_.summary(), summary.dump(2) + '\n', Durability::flushed);
  } catch (const std::system_error& error) {
    complain(error.what());
  }
}

void RunRecord::complain(const std::string& what) {
  if (!complained_) log_warning("the run's records have gaps, training goes on: " + what);
  complained_ = true;
}

}  // namespace archipelago::runtime
