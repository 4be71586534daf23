#include "baseline/coordinator.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "baseline/conclude.h"
#include "core/error.h"
#include "core/log.h"
#include "mpi/check.h"
#include "runtime/clock.h"
#include "runtime/record_lines.h"
#include "runtime/signals.h"

namespace archipelago::baseline {
namespace {

constexpr double kPause = 0.0002;      // between two looks at what ranks answer
constexpr double kLookSeconds = 0.2;   // between two looks for the file `stop`
constexpr double kGoodbyeSeconds = 5;  // a rank that has not left by then is left alone
constexpr int kDivergedSteps = 10;     // of every learner, in a row

}  // namespace

Coordinator::Coordinator(runtime::Job& job, std::vector<std::vector<island::Member>> islands)
    : job_(job),
      islands_(std::move(islands)),
      members_(*job.layout, job.setup->config.sync.learners),
      links_(job.layout->world_size()),
      records_(*job.setup, job.folder,
               {islands_.begin(), islands_.begin() + job.setup->config.sync.learners}),
      chaos_(runtime::parse_chaos(job.setup->config.chaos)),
      dealt_learners_(job.setup->config.sync.learners) {
  records_.add_event({{"settings",
                       {{"method", job.setup->config.method},
                        {"learners", job.setup->config.sync.learners},
                        {"spares", job.setup->config.sync.spares}}}});
  for (const int learner : members_.living_learners()) begin_life(learner);
  tell_of_spares();
}

int Coordinator::run() {
  while (!all_have_finished()) {
    if (!poll()) runtime::sleep_seconds(kPause);
    if (regroup_is_due_) regroup();
    if (!in_epoch_ && all_have_answered()) begin_epoch();
    look_around();
  }
  records_.end();
  records_.set_tokens(run_tokens_);
  const auto digest = finished_.begin()->second.digest;
  for (const auto& [rank, answer] : finished_) {
    if (answer.digest == digest) continue;
    throw Error(ExitCode::internal,
                "rank " + std::to_string(rank) + " ends with other parameters than the others");
  }
  log_info("all " + std::to_string(finished_.size()) +
           " ranks that train hold the same parameters");
  const auto parameters = collect_parameters();
  const int code = conclude(
      job_, state_of(*job_.setup, parameters),
      {.complete = run_tokens_ >= job_.setup->token_budget(), .diverged = diverged_}, records_);
  if (stop_) std::filesystem::remove(job_.folder.stop());
  dismiss();
  return code;
}

// Nothing has been given up, so that MPI holds no message that nobody will take.
mpi::Ending Coordinator::ending() const {
  return epoch_ == 1 ? mpi::Ending::orderly : mpi::Ending::abrupt;
}

// ---- What ranks answer

bool Coordinator::poll() {
  std::vector<std::pair<int, Answer>> answers;
  std::vector<int> lost;
  const bool news = links_.poll(answers, lost);
  for (const auto& [rank, answer] : answers) take(rank, answer);
  for (const int rank : lost) lose(rank);
  return news;
}

void Coordinator::lose(int rank) {
  const int island = job_.layout->island_of(rank);
  const auto learner = members_.lose(rank);
  tell_of_spares();
  if (!learner) return;
  regroup_is_due_ = true;
  lost_since_[*learner] = runtime::now_seconds();
  records_.lose(*learner);
  records_.add_event({{"event",
                       {{"type", "island_lost"},
                        {"island", island},
                        {"reason", "its rank " + std::to_string(rank) + " died"}}}});
  log_warning("learner " + std::to_string(*learner) + " is lost: its rank " + std::to_string(rank) +
              " died");
}

void Coordinator::take(int rank, const Answer& answer) {
  // What a rank says of an earlier epoch is about steps all the same.
  if (answer.kind == AnswerKind::step) take_step(rank, answer);
  if (answer.epoch != epoch_) return;
  if (answer.kind == AnswerKind::here) answers_[rank] = answer;
  if (answer.kind == AnswerKind::finished) finished_[rank] = answer;
}

void Coordinator::take_step(int rank, const Answer& answer) {
  const int island = job_.layout->island_of(rank);
  const auto learner = members_.learner_of(island);
  entries_[rank] = answer.entry;
  if (!learner) return;
  steps_ = std::max(steps_, answer.steps);
  run_tokens_ = std::max(run_tokens_, answer.run_tokens);
  records_.set_tokens(run_tokens_);
  std::vector<RollEntry> entries;
  const int first = job_.layout->first_rank(island);
  for (int member = first; member < first + job_.layout->ranks_per_island; ++member) {
    entries.push_back(entries_[member]);
    if (entries.back().steps != answer.entry.steps) return;  // it has not told this step yet
  }
  const link::Report report = report_of(entries, *learner, members_.incarnation(*learner));
  records_.add_step(report);
  if (const auto lost = lost_since_.extract(*learner)) {
    records_.rejoin(*learner, runtime::now_seconds() - lost.mapped());
  }
  if (!tape_has_report_) {
    tape_has_report_ = true;
    records_.add_event(
        {{"event",
          {{"type", "report"}, {"learner", *learner}, {"step_seconds", report.step_seconds}}}});
  }
  std::int64_t up = 0;
  std::int64_t down = 0;
  for (const auto& [each, entry] : entries_) {
    up += entry.bytes_sent;
    down += entry.bytes_received;
  }
  records_.set_bytes(up, down);
  diverged_steps_ = std::isfinite(link::sound_loss(report)) ? 0 : diverged_steps_ + 1;
}

// ---- Epochs

void Coordinator::regroup() {
  regroup_is_due_ = false;
  in_epoch_ = false;
  ++epoch_;
  answers_.clear();
  finished_.clear();
  for (const int learner : members_.fill()) begin_life(learner);
  tell_of_spares();
  const auto ring = members_.ring();
  if (ring.empty()) give_up();
  for (const RingMember& member : ring) {
    links_.send(member.rank, {.kind = OrderKind::regroup, .epoch = epoch_});
  }
}

bool Coordinator::all_have_answered() const {
  return std::ranges::all_of(
      members_.ring(), [this](const RingMember& member) { return answers_.contains(member.rank); });
}

void Coordinator::begin_epoch() {
  auto ring = members_.ring();
  OrderHeader header = place_to_begin(ring);
  header.members = static_cast<std::int32_t>(ring.size());
  for (RingMember& member : ring) {
    member.receives = answers_.at(member.rank).steps != header.steps ? 1 : 0;
  }
  const auto learners = members_.living_learners();
  for (const RingMember& member : ring) {
    header.learner = member.learner;
    header.incarnation = members_.incarnation(member.learner);
    header.place =
        static_cast<std::int32_t>(std::ranges::find(learners, member.learner) - learners.begin());
    links_.send(member.rank, header, ring);
  }
  in_epoch_ = true;
}

// From where the furthest rank has got to. The data is dealt out anew where the learners have
// become fewer: what all have trained is the beginning of the one order of the data.
OrderHeader Coordinator::place_to_begin(const std::vector<RingMember>& ring) {
  const auto steps_of = [this](const RingMember& member) { return answers_.at(member.rank).steps; };
  const RingMember& source = *std::ranges::max_element(ring, {}, steps_of);
  if (steps_of(source) < 0) give_up();
  steps_ = steps_of(source);
  run_tokens_ = answers_.at(source.rank).run_tokens;
  const auto learners = static_cast<int>(members_.living_learners().size());
  if (learners != dealt_learners_ || steps_ < dealt_steps_) {
    dealt_learners_ = learners;
    dealt_steps_ = steps_;
    dealt_sequences_ = run_tokens_ / job_.setup->config.model.context;
  }
  return {.kind = OrderKind::train,
          .epoch = epoch_,
          .source = source.rank,
          .learners = learners,
          .steps = steps_,
          .run_tokens = run_tokens_,
          .dealt_steps = dealt_steps_,
          .dealt_sequences = dealt_sequences_,
          .stop = stop_ ? 1 : 0};
}

// ---- Beside them

void Coordinator::look_around() {
  inflict_chaos();
  records_.update();
  const auto living = static_cast<int>(members_.living_learners().size());
  if (diverged_steps_ >= kDivergedSteps * living) ask_to_stop("training has diverged", true);
  if (runtime::stop_signal() != 0) ask_to_stop("asked to stop by a signal", false);
  const double now = runtime::now_seconds();
  if (now < next_look_) return;
  next_look_ = now + kLookSeconds;
  std::error_code error;
  if (std::filesystem::exists(job_.folder.stop(), error)) ask_to_stop("asked to stop", false);
}

void Coordinator::ask_to_stop(const char* why, bool diverged) {
  if (stop_) return;
  log_info(why);
  stop_ = true;
  diverged_ = diverged;
  regroup_is_due_ = true;
}

void Coordinator::inflict_chaos() {
  const double seconds = records_.seconds_of_training();
  if (seconds <= 0 || stop_) return;
  const auto views = this->views();
  for (const runtime::Fault& fault : chaos_.due(seconds, views)) {
    const auto& view = views[index(fault.learner)];
    log_warning("chaos: " + runtime::to_string(fault.kind) + " learner " +
                std::to_string(fault.learner) + " at step " + std::to_string(view.step));
    records_.add_event(runtime::fault_line(0, fault, view));
    links_.send(job_.layout->first_rank(view.island) + fault.rank,
                {.kind = OrderKind::fault,
                 .epoch = epoch_,
                 .fault = static_cast<std::int32_t>(fault.kind),
                 .seconds = fault.seconds,
                 .factor = fault.factor});
  }
}

std::vector<sync::LearnerView> Coordinator::views() const {
  std::vector<sync::LearnerView> views(index(job_.setup->config.sync.learners));
  for (std::size_t i = 0; i < views.size(); ++i) {
    const int learner = static_cast<int>(i);
    const auto island = members_.island_of(learner);
    views[i].island = island.value_or(-1);
    views[i].incarnation = members_.incarnation(learner);
    views[i].step = steps_;
    views[i].state = !island                         ? sync::LearnerState::lost
                     : lost_since_.contains(learner) ? sync::LearnerState::joining
                                                     : sync::LearnerState::active;
  }
  return views;
}

void Coordinator::tell_of_spares() {
  std::vector<std::vector<island::Member>> spares;
  for (const int island : members_.spare_islands()) spares.push_back(islands_[index(island)]);
  records_.set_spares(std::move(spares));
}

void Coordinator::begin_life(int learner) {
  const int island = *members_.island_of(learner);
  const int incarnation = members_.incarnation(learner);
  records_.begin_life(learner, islands_[index(island)], incarnation);
  const nlohmann::json assign = {
      {"type", "assign"}, {"island", island}, {"learner", learner}, {"incarnation", incarnation}};
  records_.add_event({{"actions", nlohmann::json::array({assign})}});
}

// ---- The end

bool Coordinator::all_have_finished() const {
  if (!in_epoch_ || regroup_is_due_) return false;
  return std::ranges::all_of(members_.ring(), [this](const RingMember& member) {
    return finished_.contains(member.rank);
  });
}

// Every rank that trained holds them.
std::vector<float> Coordinator::collect_parameters() {
  std::vector<float> parameters(static_cast<std::size_t>(job_.setup->parameters));
  for (const auto& [rank, answer] : finished_) {
    links_.send(rank, {.kind = OrderKind::deliver, .epoch = epoch_});
    MPI_Request request = MPI_REQUEST_NULL;
    const char* const doing = "receiving the trained parameters";
    auto outcome =
        mpi::outcome_of(MPI_Irecv(parameters.data(), static_cast<int>(parameters.size()), MPI_FLOAT,
                                  rank, kParametersTag, MPI_COMM_WORLD, &request),
                        doing);
    if (outcome == mpi::Outcome::ok) outcome = mpi::wait(request, doing);
    if (outcome == mpi::Outcome::ok) return parameters;
  }
  give_up();
}

void Coordinator::dismiss() {
  const OrderHeader header = {.kind = OrderKind::leave,
                              .epoch = epoch_,
                              .orderly = ending() == mpi::Ending::orderly ? 1 : 0};
  for (const int rank : members_.living_ranks()) links_.send(rank, header);
  const double deadline = runtime::now_seconds() + kGoodbyeSeconds;
  std::vector<std::pair<int, Answer>> answers;
  std::vector<int> lost;
  while (links_.any() && runtime::now_seconds() < deadline) {
    if (!links_.poll(answers, lost)) runtime::sleep_seconds(kPause);
  }
}

void Coordinator::give_up() {
  records_.update();
  dismiss();
  throw Error(ExitCode::internal, "every learner has died, and no spare is left");
}

}  // namespace archipelago::baseline
