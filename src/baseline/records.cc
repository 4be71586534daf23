#include "baseline/records.h"

#include <unistd.h>

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "runtime/clock.h"
#include "runtime/record_lines.h"

namespace archipelago::baseline {
namespace {

constexpr double kStatusSeconds = 1;
constexpr double kProgressSeconds = 2;

}  // namespace

Records::Records(const runtime::Setup& setup, const runtime::RunFolder& folder,
                 std::vector<std::vector<island::Member>> islands)
    : setup_(setup),
      islands_(std::move(islands)),
      started_(runtime::now_seconds()),
      record_(folder),
      statistics_(setup.batch_tokens(), static_cast<int>(islands_.size())),
      reports_(islands_.size()),
      progress_time_(started_) {
  write_status("starting");
}

void Records::add(const std::vector<RollEntry>& entries) {
  bytes_up_ = 0;
  bytes_down_ = 0;
  for (const RollEntry& entry : entries) {
    bytes_up_ += entry.bytes_sent;
    bytes_down_ += entry.bytes_received;
  }
  const double now = runtime::now_seconds();
  for (std::size_t learner = 0; learner < reports_.size(); ++learner) {
    const link::Report report = report_of(entries, static_cast<int>(learner));
    const link::Report before = std::exchange(reports_[learner], report);
    if (report.step == before.step) continue;
    statistics_.add_step(report, now);
    record_.add_metrics(runtime::step_row(now - started_, report,
                                          report.blocked_seconds - before.blocked_seconds,
                                          std::numeric_limits<double>::quiet_NaN()));
  }
  if (now >= next_status_) {
    next_status_ = now + kStatusSeconds;
    write_status("training");
  }
  if (now >= next_progress_) {
    next_progress_ = now + kProgressSeconds;
    log_progress();
  }
}

void Records::add(const RoundRow& row) {
  nlohmann::json contributors = nlohmann::json::array();
  for (std::size_t learner = 0; learner < islands_.size(); ++learner)
    contributors.push_back(learner);
  rounds_ = row.round;
  record_.add_metrics({{"t", runtime::now_seconds() - started_},
                       {"round", row.round},
                       {"fragment", row.fragment},
                       {"version", row.version},
                       {"contributors", std::move(contributors)},
                       {"wait_s", row.wait_seconds},
                       {"merge_s", row.merge_seconds}});
}

void Records::end() { ended_ = runtime::now_seconds(); }

int Records::conclude(const Ending& ending) {
  auto exit_code = static_cast<int>(ending.complete ? ExitCode::done : ExitCode::try_again);
  std::string state = ending.complete ? "done" : "stopped";
  std::string outcome = ending.complete ? "complete" : "stopped";
  std::string reason = ending.complete ? "all tokens are trained" : "asked to stop";
  if (ending.diverged) {
    exit_code = static_cast<int>(ExitCode::diverged);
    state = "failed";
    outcome = "diverged";
    reason = "the loss is not finite any more";
  }
  if (!ending.saved) {
    log_error(runtime::kUnsaved);
    exit_code = static_cast<int>(ExitCode::configuration);
    state = outcome = "failed";
    reason = runtime::kUnsaved;
  }
  write_status(state);
  nlohmann::json summary = {{"tokens", tokens()},
                            {"wall_s", statistics_.seconds(ended_)},
                            {"goodput", statistics_.goodput(tokens(), ended_, reports_)},
                            {"losses", 0},
                            {"rejoins", 0},
                            {"rejoin_s", nlohmann::json::array()},
                            {"rounds", rounds_},
                            {"final_train_loss", runtime::mean_loss(reports_)},
                            {"final_val_loss", ending.validation.loss},
                            {"blocked_fraction", statistics_.blocked_fraction(reports_)},
                            {"energy_j", "not available"},
                            {"energy_per_token_j", "not available"},
                            {"bytes_up", bytes_up_},
                            {"bytes_down", bytes_down_},
                            {"syncer_max_gap_s", nullptr},
                            {"merged_share", 1},
                            {"contributors", islands_.size()},
                            {"dropped", nlohmann::json::object()},
                            {"refused", 0},
                            {"largest_memory_ratio", statistics_.largest_memory_ratio()},
                            {"largest_resident_bytes", statistics_.largest_resident_bytes()},
                            {"checkpoint_failures", ending.saved ? 0 : 1},
                            {"outcome", outcome},
                            {"reason", reason},
                            {"exit_code", exit_code}};
  if (ending.validation.accuracy) summary["final_val_accuracy"] = *ending.validation.accuracy;
  record_.write_summary(summary);
  return exit_code;
}

// The leader's own entry, with the mean loss of the island's ranks.
link::Report Records::report_of(const std::vector<RollEntry>& entries, int learner) const {
  const auto ranks = islands_[static_cast<std::size_t>(learner)].size();
  const std::size_t first = static_cast<std::size_t>(learner) * ranks;
  const RollEntry& leader = entries.at(first);
  link::Report report;
  report.learner = learner;
  report.incarnation = 0;
  report.step = leader.steps;
  report.tokens = leader.tokens;
  report.step_seconds = leader.step_seconds;
  report.life_steps = leader.steps;
  report.blocked_seconds = leader.blocked_seconds;
  report.busy_seconds = leader.busy_seconds;
  report.accuracy = leader.accuracy;
  report.memory_ratio = leader.memory_ratio;
  report.resident_bytes = leader.resident_bytes;
  for (std::size_t rank = first; rank < first + ranks; ++rank) {
    report.loss += entries.at(rank).loss / static_cast<double>(ranks);
  }
  return report;
}

std::int64_t Records::tokens() const {
  std::int64_t sum = 0;
  for (const auto& report : reports_) sum += report.tokens;
  return sum;
}

void Records::write_status(const std::string& state) {
  const bool over = state == "done" || state == "stopped" || state == "failed";
  nlohmann::json learners = nlohmann::json::array();
  for (std::size_t learner = 0; learner < islands_.size(); ++learner) {
    const auto& members = islands_[learner];
    nlohmann::json pids = nlohmann::json::array();
    if (!over) {
      for (const auto& member : members) pids.push_back(member.pid);
    }
    learners.push_back({{"id", learner},
                        {"incarnation", 0},
                        {"host", members.front().host},
                        {"pids", std::move(pids)},
                        {"step", reports_[learner].step},
                        {"tokens", reports_[learner].tokens},
                        {"state", over ? "ended" : "active"}});
  }
  record_.write_status({{"state", state},
                        {"round", rounds_},
                        {"syncer", {{"host", host_name()}, {"pid", ::getpid()}, {"term", 0}}},
                        {"learners", std::move(learners)},
                        {"tokens", tokens()},
                        {"token_budget", setup_.token_budget()},
                        {"losses", 0},
                        {"rejoins", 0}});
}

void Records::log_progress() {
  const double now = runtime::now_seconds();
  const double rate = static_cast<double>(tokens() - progress_tokens_) / (now - progress_time_);
  progress_tokens_ = tokens();
  progress_time_ = now;
  char line[160];
  std::snprintf(line, sizeof line, "%5.1f %% of tokens, %.0f tokens/s, loss %s, round %lld",
                100.0 * static_cast<double>(tokens()) / static_cast<double>(setup_.token_budget()),
                rate, runtime::mean_loss_text(reports_).c_str(), static_cast<long long>(rounds_));
  log_info(line);
}

}  // namespace archipelago::baseline
