#include "baseline/records.h"

#include <unistd.h>

#include <algorithm>
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
      loss_limit_(runtime::loss_limit(setup.config.model)),
      started_(runtime::now_seconds()),
      record_(folder),
      statistics_(setup.batch_tokens(), static_cast<int>(islands.size())),
      reports_(islands.size()),
      progress_time_(started_) {
  for (auto& island : islands) places_.push_back({std::move(island)});
  write_status("starting");
}

void Records::add(const std::vector<RollEntry>& entries) {
  std::int64_t up = 0;
  std::int64_t down = 0;
  for (const RollEntry& entry : entries) {
    up += entry.bytes_sent;
    down += entry.bytes_received;
  }
  set_bytes(up, down);
  const std::size_t ranks = entries.size() / places_.size();
  for (std::size_t learner = 0; learner < places_.size(); ++learner) {
    add_step(report_of(std::span(entries).subspan(learner * ranks, ranks),
                       static_cast<int>(learner), 0));
  }
  update();
}

void Records::add_step(const link::Report& report) {
  const double now = runtime::now_seconds();
  link::Report& last = reports_.at(static_cast<std::size_t>(report.learner));
  const double blocked_before = last.incarnation == report.incarnation ? last.blocked_seconds : 0;
  const std::int64_t step_before = std::exchange(last, report).step;
  if (report.step == step_before) return;
  Place& place = places_[static_cast<std::size_t>(report.learner)];
  if (std::exchange(place.joining, false)) next_status_ = 0;
  statistics_.add_step(report, now);
  record_.add_metrics(runtime::step_row(now - started_, report,
                                        report.blocked_seconds - blocked_before,
                                        std::numeric_limits<double>::quiet_NaN()));
}

void Records::set_bytes(std::int64_t up, std::int64_t down) {
  bytes_up_ = up;
  bytes_down_ = down;
}

void Records::update() {
  const double now = runtime::now_seconds();
  if (now >= next_status_) {
    next_status_ = now + kStatusSeconds;
    write_status(statistics_.started() ? "training" : "starting");
  }
  if (now >= next_progress_ && statistics_.started()) {
    next_progress_ = now + kProgressSeconds;
    log_progress();
  }
}

void Records::lose(int learner) {
  Place& place = places_.at(static_cast<std::size_t>(learner));
  ++losses_;
  statistics_.end_life(reports_.at(static_cast<std::size_t>(learner)));
  place.members.clear();
  next_status_ = 0;
}

void Records::begin_life(int learner, std::vector<island::Member> island, int incarnation) {
  places_.at(static_cast<std::size_t>(learner)) = {std::move(island), incarnation};
  // What counts for the statistics begins anew; where it is stays.
  link::Report& report = reports_.at(static_cast<std::size_t>(learner));
  link::Report next;
  next.learner = learner;
  next.incarnation = incarnation;
  next.step = report.step;
  next.tokens = report.tokens;
  report = next;
  next_status_ = 0;
}

void Records::rejoin(int learner, double seconds) {
  const Place& place = places_.at(static_cast<std::size_t>(learner));
  rejoin_seconds_.push_back(seconds);
  log_info("learner " + std::to_string(learner) + " counts again after " + std::to_string(seconds) +
           " s (life " + std::to_string(place.incarnation) + ")");
  add_event(runtime::rejoin_line(0, {learner, place.incarnation, seconds}));
}

void Records::set_spares(std::vector<std::vector<island::Member>> spares) {
  spares_ = std::move(spares);
  next_status_ = 0;
}

void Records::add_event(nlohmann::json event) {
  event["t"] = static_cast<std::int64_t>(1e9 * seconds());
  record_.add_event(event);
}

double Records::seconds() const { return runtime::now_seconds() - started_; }

double Records::seconds_of_training() const { return statistics_.seconds(runtime::now_seconds()); }

void Records::add(const RoundRow& row) {
  nlohmann::json contributors = nlohmann::json::array();
  for (std::size_t learner = 0; learner < places_.size(); ++learner)
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
    reason = "the loss or its gradients are not finite any more";
  }
  if (!ending.saved) {
    log_error(runtime::kUnsaved);
    exit_code = static_cast<int>(ExitCode::configuration);
    state = outcome = "failed";
    reason = runtime::kUnsaved;
  }
  write_status(state);
  const auto living = living_reports();
  nlohmann::json summary = {{"tokens", tokens()},
                            {"wall_s", statistics_.seconds(ended_)},
                            {"goodput", statistics_.goodput(tokens(), ended_, living)},
                            {"losses", losses_},
                            {"rejoins", rejoin_seconds_.size()},
                            {"rejoin_s", rejoin_seconds_},
                            {"rounds", rounds_},
                            {"final_train_loss", runtime::mean_loss(living, loss_limit_)},
                            {"blocked_fraction", statistics_.blocked_fraction(living)},
                            {"energy_j", "not available"},
                            {"energy_per_token_j", "not available"},
                            {"bytes_up", bytes_up_},
                            {"bytes_down", bytes_down_},
                            {"syncer_max_gap_s", nullptr},
                            {"merged_share", 1},
                            {"contributors", mean_learners()},
                            {"dropped", nlohmann::json::object()},
                            {"refused", 0},
                            {"largest_memory_ratio", statistics_.largest_memory_ratio()},
                            {"largest_resident_bytes", statistics_.largest_resident_bytes()},
                            {"checkpoint_failures", ending.saved ? 0 : 1},
                            {"outcome", outcome},
                            {"reason", reason},
                            {"exit_code", exit_code}};
  runtime::add_score(summary, "final_val", ending.validation);
  record_.write_summary(summary);
  return exit_code;
}

// A step's, over the run.
double Records::mean_learners() const {
  const auto steps = std::ranges::max(reports_, {}, &link::Report::step).step;
  if (steps == 0) return static_cast<double>(places_.size());
  return static_cast<double>(tokens()) / static_cast<double>(steps * setup_.batch_tokens());
}

std::vector<link::Report> Records::living_reports() const {
  std::vector<link::Report> living;
  for (std::size_t learner = 0; learner < places_.size(); ++learner) {
    if (!places_[learner].members.empty()) living.push_back(reports_[learner]);
  }
  return living;
}

std::int64_t Records::tokens() const {
  if (tokens_) return *tokens_;
  std::int64_t sum = 0;
  for (const auto& report : reports_) sum += report.tokens;
  return sum;
}

nlohmann::json Records::learners_of_status(bool over) const {
  const auto add_island = [over](nlohmann::json& entry, const std::vector<island::Member>& island) {
    entry["host"] = nullptr;
    entry["pids"] = nlohmann::json::array();
    if (island.empty()) return;
    entry["host"] = island.front().host;
    if (over) return;
    for (const auto& member : island) entry["pids"].push_back(member.pid);
  };
  nlohmann::json learners = nlohmann::json::array();
  for (std::size_t learner = 0; learner < places_.size(); ++learner) {
    const Place& place = places_[learner];
    const std::string state = place.members.empty() ? "lost"
                              : over                ? "ended"
                              : place.joining       ? "joining"
                                                    : "active";
    nlohmann::json entry = {{"id", learner},
                            {"incarnation", place.incarnation},
                            {"step", reports_[learner].step},
                            {"tokens", reports_[learner].tokens},
                            {"state", state}};
    add_island(entry, place.members);
    learners.push_back(std::move(entry));
  }
  for (const auto& spare : spares_) {
    nlohmann::json entry = runtime::spare_entry();
    add_island(entry, spare);
    learners.push_back(std::move(entry));
  }
  return learners;
}

void Records::write_status(const std::string& state) {
  const bool over = state == "done" || state == "stopped" || state == "failed";
  record_.write_status({{"state", state},
                        {"round", rounds_},
                        {"syncer", {{"host", host_name()}, {"pid", ::getpid()}, {"term", 0}}},
                        {"learners", learners_of_status(over)},
                        {"tokens", tokens()},
                        {"token_budget", setup_.token_budget()},
                        {"losses", losses_},
                        {"rejoins", rejoin_seconds_.size()}});
}

void Records::log_progress() {
  const double now = runtime::now_seconds();
  const double rate = static_cast<double>(tokens() - progress_tokens_) / (now - progress_time_);
  progress_tokens_ = tokens();
  progress_time_ = now;
  char line[160];
  std::snprintf(line, sizeof line, "%5.1f %% of tokens, %.0f tokens/s, loss %s, round %lld",
                100.0 * static_cast<double>(tokens()) / static_cast<double>(setup_.token_budget()),
                rate, runtime::mean_loss_text(living_reports(), loss_limit_).c_str(),
                static_cast<long long>(rounds_));
  std::string lost;
  if (losses_ > 0) {
    lost = ", lost " + std::to_string(losses_) + ", rejoined " +
           std::to_string(rejoin_seconds_.size());
  }
  log_info(line + lost);
}

link::Report report_of(std::span<const RollEntry> entries, int learner, int incarnation) {
  const RollEntry& leader = entries.front();
  link::Report report;
  report.learner = learner;
  report.incarnation = incarnation;
  report.step = leader.steps;
  report.tokens = leader.tokens;
  report.step_seconds = leader.step_seconds;
  report.life_steps = leader.life_steps;
  report.blocked_seconds = leader.blocked_seconds;
  report.busy_seconds = leader.busy_seconds;
  report.accuracy = leader.accuracy;
  report.learning_rate = leader.learning_rate;
  report.gradient_norm = leader.gradient_norm;
  report.memory_ratio = leader.memory_ratio;
  report.resident_bytes = leader.resident_bytes;
  for (const RollEntry& entry : entries) {
    report.loss += entry.loss / static_cast<double>(entries.size());
  }
  return report;
}

}  // namespace archipelago::baseline
