#include "runtime/run_record.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/log.h"
#include "sync/tape.h"

namespace archipelago::runtime {
namespace {

// A path may be no UTF-8, which alone is no reason to fail.
std::string text_of(const nlohmann::json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Lines that a full disk does not take are kept up to this size, then dropped.
constexpr std::size_t kLargestBacklog = 8 << 20;
// Contributions wait for the disk up to this size, then they are dropped.
constexpr std::size_t kLargestContributionBacklog = 1 << 30;
constexpr std::chrono::milliseconds kPause{20};  // lines of that time are written together

}  // namespace

nlohmann::json or_not_available(double number) {
  return std::isnan(number) ? nlohmann::json("not available") : nlohmann::json(number);
}

RunRecord::RunRecord(const RunFolder& folder) : folder_(folder), thread_([this] { run(); }) {}

RunRecord::~RunRecord() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RunRecord::add_metrics(const nlohmann::json& row) {
  const std::string line = text_of(row) + '\n';
  const std::lock_guard lock(mutex_);
  pending_.metrics += line;
}

void RunRecord::add_event(std::string line) {
  line += '\n';
  const std::lock_guard lock(mutex_);
  pending_.events += line;
}

void RunRecord::add_event(const nlohmann::json& row) {
  add_event(sync::TapeChain().seal(text_of(row)));
}

void RunRecord::begin_contributions(int life) {
  const std::lock_guard lock(mutex_);
  contributions_.emplace(folder_.contributions(), life);
}

void RunRecord::add_contribution(const fragment::ContributionKey& key,
                                 std::span<const float> values) {
  const std::lock_guard lock(mutex_);
  if (pending_.contribution_bytes + values.size_bytes() > kLargestContributionBacklog) {
    if (!dropped_) {
      log_warning("the disk is too slow for the run's fragments: replay will not find them all");
    }
    dropped_ = true;
    return;
  }
  pending_.contributions.push_back({key, {values.begin(), values.end()}});
  pending_.contribution_bytes += values.size_bytes();
}

void RunRecord::write_status(const nlohmann::json& status) {
  std::string text = text_of(status) + '\n';
  const std::lock_guard lock(mutex_);
  pending_.status = std::move(text);
}

void RunRecord::write_summary(const nlohmann::json& summary) {
  flush();
  try {
    write_file(folder_.summary(), text_of(summary, 2) + '\n', Durability::flushed);
  } catch (const std::system_error& error) {
    log_warning(std::string("the run's summary could not be written: ") + error.what());
  }
}

void RunRecord::flush() {
  std::unique_lock lock(mutex_);
  const std::int64_t last = begun_ + (pending_.empty() ? 0 : 1);
  changed_.wait(lock, [&] { return written_ >= last || broken_; });
}

void RunRecord::run() try {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, kPause, [this] { return stopping_; });
    if (pending_.empty()) {
      if (stopping_) return;
      continue;
    }
    Pending pending = std::exchange(pending_, {});
    ++begun_;
    lock.unlock();
    write(pending);
    lock.lock();
    ++written_;
    changed_.notify_all();
  }
} catch (const std::exception& error) {
  log_warning(std::string("the run's records end here: ") + error.what());
  const std::lock_guard lock(mutex_);
  broken_ = true;
  changed_.notify_all();
}

void RunRecord::write(Pending& pending) {
  write_contributions(pending.contributions);
  unwritten_.metrics += pending.metrics;
  unwritten_.events += pending.events;
  append(metrics_file_, folder_.metrics(), unwritten_.metrics);
  append(events_file_, folder_.events(), unwritten_.events);
  if (!pending.status) return;
  try {
    look_for_folder();
    write_file(folder_.status(), *pending.status, Durability::unflushed);
  } catch (const std::system_error& error) {
    if (!folder_gone_) complain(error.what());
  }
}

void RunRecord::write_contributions(const std::vector<Contribution>& contributions) {
  for (const Contribution& contribution : contributions) {
    try {
      contributions_->add(contribution.key, contribution.values);
    } catch (const std::system_error& error) {
      complain(error.what());
    }
  }
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

// Whoever removes the folder, or moves it away, gets no error; the files that are open here go on.
void RunRecord::look_for_folder() {
  const AppendFile* const file = events_file_ ? events_file_.get() : metrics_file_.get();
  if (file == nullptr) return;
  const auto now = file->whereabouts();
  const bool gone = now != file->path();
  if (gone && !folder_gone_) {
    log_error(folder_.path().string() +
              " is not this run's folder any more: " + file->path().filename().string() +
              (now ? " was moved to " + now->string() + " and goes on there" : " was removed") +
              "; checkpoints go on in a new folder in its place; to end the run, send SIGTERM to "
              "pid " +
              std::to_string(::getpid()) + " on " + host_name());
  } else if (folder_gone_ && !gone) {
    log_info(folder_.path().string() + " is this run's folder again");
  }
  folder_gone_ = gone;
}

void RunRecord::complain(const std::string& what) {
  if (!complained_) log_warning("the run's records have gaps, training goes on: " + what);
  complained_ = true;
}

}  // namespace archipelago::runtime
