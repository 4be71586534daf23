#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "runtime/clock.h"
#include "runtime/record_lines.h"
#include "runtime/syncer_process.h"

namespace archipelago::runtime {
namespace {

constexpr double kDismissSeconds = 5;
constexpr double kFewMerged = 0.75;  // of the learners' work: worth a warning
constexpr double kDismissPollSeconds = 0.001;

}  // namespace

SyncerProcess::Verdict SyncerProcess::verdict(bool saved, const evaluate::Score& validation) const {
  const std::string& reason = finish_->reason;
  switch (finish_->outcome) {
    case sync::Outcome::complete:
      // Another start at once would find the same full disk, so it isn't to be tried again by
      // itself; what was trained is nowhere else.
      if (!saved) return {"failed", "failed", kUnsaved, ExitCode::configuration};
      if (!std::isfinite(validation.loss)) {
        return {"diverged", "failed", "the model's validation loss is not finite",
                ExitCode::diverged};
      }
      return {"complete", "done", reason, ExitCode::done};
    case sync::Outcome::diverged:
      return {"diverged", "failed", reason, ExitCode::diverged};
    case sync::Outcome::stopped:
      if (!failed()) return {"stopped", "stopped", reason, ExitCode::try_again};
      break;
    case sync::Outcome::no_learners:
      if (!failed()) return {"no_learners", "stopped", reason, ExitCode::try_again};
      break;
  }
  return {"failed", "failed", reason, ExitCode::try_again};
}

// Of the tokens trained since the start, those whose work has been merged.
double SyncerProcess::merged_share() const {
  const std::int64_t trained = machine_.total_tokens() - tokens_at_start_;
  if (trained <= 0) return 0;
  const auto merged = static_cast<double>(machine_.merged_tokens() - merged_at_start_);
  return std::clamp(merged / static_cast<double>(trained), 0.0, 1.0);
}

int SyncerProcess::conclude(const evaluate::Score& validation) {
  const bool saved = writer_.finish();
  note_saved();
  if (finish_->outcome == sync::Outcome::complete) {
    // The end has lasted as long as the finished model's validation, which is as much work.
    note_validation(now_seconds() - ended_);
    if (validator_.busy()) log_info("a global checkpoint's validation was not done in time");
  }
  if (!saved) log_error(kUnsaved);
  const bool has_trained = machine_.total_tokens() > tokens_at_start_;
  if (has_trained && finish_->outcome == sync::Outcome::complete && merged_share() < kFewMerged) {
    log_warning("only " + std::to_string(std::lround(100 * merged_share())) +
                " % of the learners' work was merged, the rest came too late or was refused (see "
                "\"dropped\" in summary.json); a larger sync.overlap, sync.grace or sync.quorum "
                "lets more of it in");
  }
  const Verdict verdict = this->verdict(saved, validation);
  const Tally others = others_ == nullptr ? Tally{} : others_->tally();
  const int exit_code = static_cast<int>(verdict.code);

  std::vector<link::Report> living;
  for (const auto& book : islands_) {
    if (book.learner >= 0) living.push_back(book.report);
  }
  const std::int64_t tokens = machine_.total_tokens();
  const double joules = statistics_.joules(living);
  const auto trained = static_cast<double>(tokens - tokens_at_start_);
  nlohmann::json summary = {
      {"tokens", tokens},
      {"wall_s", statistics_.seconds(ended_)},
      {"goodput", statistics_.goodput(tokens - tokens_at_start_, ended_, living)},
      {"losses", machine_.losses()},
      {"rejoins", machine_.rejoins()},
      {"rejoin_s", rejoins_.seconds()},
      {"rounds", machine_.rounds()},
      {"final_train_loss", mean_loss(living, loss_limit(setup_.config.model))},
      {"blocked_fraction", statistics_.blocked_fraction(living)},
      {"energy_j", or_not_available(joules)},
      {"energy_per_token_j", or_not_available(joules / trained)},
      {"bytes_up", link_.bytes_up() + others.bytes_up},
      {"bytes_down", link_.bytes_down() + others.bytes_down},
      {"syncer_max_gap_s", std::max(largest_gap_, others.largest_gap)},
      {"merged_share", merged_share()},
      {"contributors", merge_statistics_.contributors()},
      {"dropped", merge_statistics_.dropped()},
      {"refused", arrivals_.refused() + link_.damaged() + others.refused},
      {"largest_memory_ratio", statistics_.largest_memory_ratio()},
      {"largest_resident_bytes", statistics_.largest_resident_bytes()},
      {"checkpoint_failures", writer_.failures()},
      {"outcome", verdict.outcome},
      {"reason", verdict.reason},
      {"exit_code", exit_code}};
  add_score(summary, "final_val", validation);
  write_status(verdict.state, Processes::gone);
  record_.write_summary(summary);
  dismiss_islands();
  return exit_code;
}

void SyncerProcess::dismiss_islands() {
  link::DownHeader header;
  header.kind = link::DownKind::leave;
  for (std::size_t peer = 0; peer < islands_.size(); ++peer) {
    link_.send(static_cast<int>(peer), header);
  }
  if (standby_ != nullptr) {
    link::ReplicaHeader finish;
    finish.kind = link::ReplicaKind::finish;
    finish.orderly = orderly() ? 1 : 0;
    standby_->send_text(finish, "");
  }
  if (others_ != nullptr) others_->conclude(orderly());
  const auto drained = [this] {
    return link_.drained() && (standby_ == nullptr || standby_->drained()) &&
           (others_ == nullptr || others_->drained());
  };
  const double deadline = now_seconds() + kDismissSeconds;
  std::vector<int> lost;
  while (!drained() && now_seconds() < deadline) {
    link_.poll(lost);
    if (standby_ != nullptr) standby_->poll();
    if (others_ != nullptr) others_->poll();
    sleep_seconds(kDismissPollSeconds);
  }
}

std::string SyncerProcess::state_name() const {
  if (finish_) return finish_->outcome == sync::Outcome::complete ? "done" : "stopping";
  return statistics_.started() ? "training" : "starting";
}

void SyncerProcess::write_status(const std::string& state, Processes processes) {
  const auto pids_of = [processes](const IslandBook& book) {
    auto pids = nlohmann::json::array();
    if (processes == Processes::gone) return pids;
    for (const auto& member : book.members) pids.push_back(member.pid);
    return pids;
  };
  nlohmann::json learners = nlohmann::json::array();
  const auto& views = machine_.learners();
  for (std::size_t id = 0; id < views.size(); ++id) {
    const auto& view = views[id];
    if (view.state == sync::LearnerState::retired) continue;  // its island is a spare below
    nlohmann::json entry = learner_entry(static_cast<int>(id), view);
    const bool has_island = view.island >= 0 && view.state != sync::LearnerState::lost;
    if (has_island) {
      const IslandBook& book = islands_.at(static_cast<std::size_t>(view.island));
      entry["host"] = book.members.front().host;
      entry["pids"] = pids_of(book);
      if (processes == Processes::gone) entry["state"] = "ended";
      if (book.report.accuracy >= 0) entry["accuracy"] = book.report.accuracy;
    }
    learners.push_back(std::move(entry));
  }
  for (const auto& book : islands_) {
    if (book.lost || book.learner >= 0) continue;
    learners.push_back(spare_entry());
    learners.back()["host"] = book.members.front().host;
    learners.back()["pids"] = pids_of(book);
  }
  nlohmann::json status = {
      {"state", state},
      {"round", machine_.rounds()},
      {"syncer", {{"host", host_name()}, {"pid", ::getpid()}, {"term", term_}}},
      {"learners", std::move(learners)},
      {"learners_wanted", machine_.wanted()},
      {"scale", scaling_.status()},
      {"tokens", machine_.total_tokens()},
      {"token_budget", setup_.token_budget()},
      {"losses", machine_.losses()},
      {"rejoins", machine_.rejoins()}};
  if (machine_.guest_places() > 0) status["guest_places"] = machine_.guest_places();
  if (launcher_gone_) status["launcher"] = "gone";
  if (others_ != nullptr) status["other_syncers"] = others_->status();
  record_.write_status(status);
}

void SyncerProcess::log_progress() {
  if (!statistics_.started()) return;
  const double now = now_seconds();
  const auto tokens = machine_.total_tokens();
  // What died with a learner is no longer counted, so the count can go down.
  const auto trained = std::max<std::int64_t>(tokens - progress_tokens_, 0);
  const double rate = static_cast<double>(trained) / (now - progress_time_);
  progress_tokens_ = tokens;
  progress_time_ = now;
  std::vector<link::Report> active;
  for (const auto& view : machine_.learners()) {
    if (view.state != sync::LearnerState::active) continue;
    active.push_back(islands_.at(static_cast<std::size_t>(view.island)).report);
  }
  const std::string loss = mean_loss_text(active, loss_limit(setup_.config.model));
  const auto budget = setup_.token_budget();
  char line[256];
  std::snprintf(
      line, sizeof line,
      "%5.1f %% of tokens, %.0f tokens/s, loss %s, learners %zu of %d, round %lld, "
      "lost %d, rejoined %d",
      100.0 * static_cast<double>(tokens) / static_cast<double>(std::max<std::int64_t>(budget, 1)),
      rate, loss.c_str(), active.size(), machine_.wanted(),
      static_cast<long long>(machine_.rounds()), machine_.losses(), machine_.rejoins());
  log_info(line);
}

}  // namespace archipelago::runtime
