#include "emulate/run.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/log.h"
#include "core/units.h"
#include "runtime/machine_settings.h"
#include "runtime/record_lines.h"
#include "runtime/run_statistics.h"
#include "simulate/distributions.h"

namespace archipelago::emulate {
namespace {

constexpr std::int64_t kWholeFragment = 1LL << 62;  // elements read at a time
constexpr double kLooksAStep = 8;                   // for faults that are due
constexpr double kPatience = 100;                   // times the time without faults
constexpr double kLongestSeconds = 100 * 365.0 * 86'400;
constexpr std::int64_t kProgressPercent = 10;

}  // namespace

Run::Run(const runtime::Setup& setup, const data::Dataset& dataset, const Conditions& conditions,
         const runtime::RunFolder& folder, runtime::RunRecord& record)
    : setup_(setup),
      conditions_(conditions),
      folder_(folder),
      link_(timeline_, {.syncer = [this](int peer) { listen(peer); },
                        .left = [this] { sender_.pump(machine_.total_tokens()); },
                        .island =
                            [this](int peer, link::DownMessage message) {
                              at(peer).island->take(std::move(message));
                            },
                        .room = [this](int peer) { at(peer).island->take_room(); },
                        .lost = [this](int peer) { lose(peer); }}),
      surroundings_{
          setup,     dataset, conditions, kernels::make_cpu_kernels(setup.config.train.threads),
          timeline_, link_,   moments_},
      record_(record),
      outside_(folder, record),
      state_(setup),
      sender_(link_, state_, setup.fragment_count()),
      arrivals_(setup, link_, state_),
      machine_(runtime::machine_settings(setup)),
      chaos_(runtime::parse_chaos(setup.config.chaos)),
      random_(mix_bits(setup.config.train.seed ^ 0x4E7D52)) {
  record_.add_event(chain_.seal(sync::encode_start({runtime::machine_settings(setup), {}})));
  const auto& config = setup.config;
  if (config.record == "fragments") {
    runtime::begin_contributions(record_, 0, 0, config.sync);
  }
  for (int site = 0; site < config.sync.learners + config.sync.spares; ++site) add_island(site);
  if (!config.chaos.empty()) look_for_faults();
}

void Run::add_island(int site) {
  const int number = static_cast<int>(books_.size());
  link_.add_peer(site_of(conditions_, site));
  sender_.add_peer();
  Book book;
  book.island = std::make_unique<Island>(surroundings_, site, number);
  books_.push_back(std::move(book));
  at(number).island->start();
}

Outcome Run::play() {
  const auto now = [this] { return status(first_step_ ? "training" : "starting", Islands::there); };
  const double least =
      static_cast<double>(setup_.token_budget()) / failure_free_rate(setup_.config, conditions_);
  const double longest = std::min(kPatience * least, kLongestSeconds);
  while (!machine_.finished()) {
    const auto wakeup = machine_.next_wakeup();
    if (wakeup && (timeline_.empty() || *wakeup < timeline_.next_time())) {
      timeline_.advance_to(*wakeup);
      tell(sync::Tick{});
    } else if (timeline_.empty()) {
      throw Error(ExitCode::internal, "an emulated run has come to a standstill");
    } else {
      timeline_.run_next();
    }
    if (timeline_.seconds() >= longest) {
      stop_early("it has taken 100 times as long as without faults");
    }
    if (const auto who = outside_.turn(now)) stop_early(*who);
  }
  return outcome();
}

void Run::stop_early(const std::string& reason) {
  if (machine_.finished() || std::exchange(stop_asked_, true)) return;
  log_info("ends early: " + reason);
  tell(sync::StopRequested{reason});
}

// ---- What comes in -----------------------------------------------------------------------------

void Run::listen(int peer) {
  if (at(peer).lost) return;
  if (const auto report = link_.read_report(peer)) on_report(peer, *report);
  while (const auto fragment = link_.read_fragment(peer)) arrivals_.take(peer, *fragment);
  for (const auto& taken : arrivals_.read(kWholeFragment)) tell(taken.delivery());
}

void Run::on_report(int peer, const link::Report& report) {
  Book& book = at(peer);
  book.report = report;
  note_lease(book, report);
  if (report.orders != book.orders) return;  // from before the last order
  if (report.phase == link::Phase::ready) {
    if (book.ready_told) return;
    book.ready_told = true;
    tell(sync::IslandReady{peer});
    return;
  }
  if (book.learner < 0) return;
  add_step_row(book, report);
  tell(sync::Report{report.learner, report.incarnation, report.step, report.tokens,
                    report.step_seconds, link::sound_loss(report), report.held});
  state_.drop_unheld(machine_.learners());
  note_rejoins();
}

void Run::note_rejoins() {
  for (const auto& rejoin : rejoins_.take(machine_.learners(), timeline_.seconds())) {
    record_.add_event(runtime::rejoin_line(timeline_.now(), rejoin));
  }
}

void Run::note_lease(Book& book, const link::Report& report) {
  if (report.learner != book.leased_to || report.incarnation != book.incarnation ||
      report.lease <= book.lease_told) {
    return;
  }
  book.lease_told = report.lease;
  tell(sync::LeaseFollowed{report.learner, report.incarnation, report.lease, report.lease_tokens});
}

void Run::add_step_row(Book& book, const link::Report& report) {
  if (report.step_seconds <= 0 || report.step == book.row_step) return;
  book.row_step = report.step;
  if (!first_step_) first_step_ = timeline_.now() - to_nanoseconds(report.step_seconds);
  record_.add_metrics(
      runtime::step_row(timeline_.seconds(), report, 0, std::numeric_limits<double>::quiet_NaN()));
  const std::int64_t share = 100 * machine_.total_tokens() / setup_.token_budget();
  if (share < told_share_ + kProgressPercent) return;
  told_share_ = share - share % kProgressPercent;
  log_info(std::to_string(told_share_) + " % of tokens, loss " + loss_text(report.loss) +
           ", round " + std::to_string(machine_.rounds()) + ", virtual second " +
           std::to_string(static_cast<std::int64_t>(timeline_.seconds())));
}

void Run::lose(int peer) {
  at(peer).lost = true;
  end_life(peer);
  tell(sync::IslandLost{peer, "its leader died"});
  if (std::ranges::all_of(books_, &Book::lost)) watch_for_nobody();
}

// As a real run waits for spares that are spawned.
void Run::watch_for_nobody() {
  timeline_.at(timeline_.in(setup_.config.sync.expel), [this, islands = books_.size()] {
    if (books_.size() > islands || machine_.finished()) return;
    log_error(runtime::kNobodyLeft);
    tell(sync::NobodyLeft{runtime::kNobodyLeft});
  });
}

void Run::tell(const sync::Event& event) {
  actions_.clear();
  machine_.handle(timeline_.now(), event, actions_);
  if (setup_.config.record == "fragments") {
    runtime::keep_contributions(record_, actions_, arrivals_);
  }
  record_.add_event(chain_.seal(sync::encode_entry(timeline_.now(), event, actions_)));
  // Nothing that an action does tells the machine anything at once.
  for (const auto& action : actions_) std::visit([this](const auto& a) { act(a); }, action);
  sender_.pump(machine_.total_tokens());
}

// ---- Faults ------------------------------------------------------------------------------------

void Run::look_for_faults() {
  if (first_step_) {
    const double seconds = static_cast<double>(timeline_.now() - *first_step_) * 1e-9;
    for (const auto& fault : chaos_.due(seconds, machine_.learners())) inflict(fault);
  }
  const double pause = std::ranges::min(conditions_.step_seconds) / kLooksAStep;
  timeline_.at(timeline_.in(pause), [this] { look_for_faults(); });
}

void Run::inflict(const runtime::Fault& fault) {
  const auto& view = machine_.learners()[static_cast<std::size_t>(fault.learner)];
  const auto peer = peer_of(fault.learner, view.incarnation);
  if (!peer) return;
  record_.add_event(runtime::fault_line(timeline_.now(), fault, view));
  Island& island = *at(*peer).island;
  if (fault.kind == runtime::FaultKind::stop) {
    island.stop(fault.seconds);
  } else if (fault.kind == runtime::FaultKind::slow) {
    island.slow(fault.factor, fault.seconds);
  } else {
    island.kill();
    double seconds = conditions_.return_seconds;
    if (seconds > 0) seconds = simulate::Duration(seconds, 1, 1).sample(random_);
    timeline_.at(timeline_.in(seconds), [this, site = island.site()] { add_island(site); });
  }
}

// ---- What is told ------------------------------------------------------------------------------

nlohmann::json Run::status(const std::string& state, Islands islands) const {
  nlohmann::json learners = nlohmann::json::array();
  for (std::size_t id = 0; id < machine_.learners().size(); ++id) {
    const auto& view = machine_.learners()[id];
    learners.push_back(runtime::learner_entry(static_cast<int>(id), view));
    const bool plays = view.island >= 0 && view.state != sync::LearnerState::lost;
    if (plays && islands == Islands::gone) learners.back()["state"] = "ended";
  }
  for (const Book& book : books_) {
    if (!book.lost && book.learner < 0) learners.push_back(runtime::spare_entry());
  }
  nlohmann::json status = emulated_status(state, timeline_.seconds(), machine_.total_tokens(),
                                          setup_.token_budget(), std::move(learners));
  status["round"] = machine_.rounds();
  status["losses"] = machine_.losses();
  status["rejoins"] = machine_.rejoins();
  return status;
}

Outcome Run::outcome() {
  std::vector<link::Report> living;
  for (const auto& book : books_) {
    if (book.learner >= 0) living.push_back(book.report);
  }
  Outcome result;
  result.seconds = first_step_ ? static_cast<double>(timeline_.now() - *first_step_) * 1e-9 : 0;
  result.tokens = machine_.total_tokens();
  result.trained_tokens = surroundings_.trained_tokens;
  result.merged_tokens = machine_.merged_tokens();
  const double possible = failure_free_rate(setup_.config, conditions_) * result.seconds;
  result.goodput = possible > 0 ? static_cast<double>(result.tokens) / possible : 0;
  result.rounds = machine_.rounds();
  result.merges = merge_statistics_.merges();
  result.contributors = merge_statistics_.contributors();
  result.dropped = merge_statistics_.dropped();
  result.losses = machine_.losses();
  result.rejoins = machine_.rejoins();
  result.train_loss = runtime::mean_loss(living, runtime::loss_limit(setup_.config.model));
  result.bytes_up = link_.bytes_up();
  result.bytes_down = link_.bytes_down();
  result.end = finish_->outcome;
  result.reason = finish_->reason;
  result.unsaved = unsaved_;
  result.rejoin_s = rejoins_.seconds();
  result.status = status("", Islands::gone);
  result.parameters = state_.flat_parameters();
  return result;
}

}  // namespace archipelago::emulate
