#include "simulate/calibrate.h"

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "simulate/decoupled.h"
#include "sync/machine.h"
#include "sync/tape.h"

namespace archipelago::simulate {
namespace {

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value / static_cast<double>(values.size());
  return sum;
}

// Follows a tape and notes what a simulation of the run needs to know.
class Observer {
 public:
  explicit Observer(const sync::TapeStart& start)
      : settings_(start.settings),
        machine_(start.settings, start.restored),
        rounds_before_(start.restored.round),
        tokens_before_(machine_.total_tokens()),
        learners_(start.settings.learners) {}

  void take(const sync::TapeEntry& entry) {
    const std::vector<sync::LearnerView> before = machine_.learners();
    const std::optional<Nanoseconds> wakeup = machine_.next_wakeup();
    if (wakeup && std::holds_alternative<sync::Tick>(entry.event)) {
      tick_delays_.push_back(std::max(seconds(entry.time - *wakeup), 0.0));
    }
    actions_.clear();
    machine_.handle(entry.time, entry.event, actions_);
    last_ = entry.time;
    if (const auto* report = std::get_if<sync::Report>(&entry.event)) note_report(*report);
    if (const auto* delivery = std::get_if<sync::Delivery>(&entry.event)) note_delivery(*delivery);
    if (const auto* merged = std::get_if<sync::Merged>(&entry.event)) {
      merge_seconds_.push_back(merged->seconds);
    }
    if (const auto* lost = std::get_if<sync::IslandLost>(&entry.event)) {
      for (std::size_t learner = 0; learner < before.size(); ++learner) {
        if (before[learner].island == lost->island) note_death(static_cast<int>(learner));
      }
    }
    for (const sync::Action& action : actions_) note_action(action);
  }

  ObservedRun result() const {
    if (!first_active_) throw Error(ExitCode::bad_data, "no learner ever trained in it");
    ObservedRun run;
    const double duration = std::max(seconds(last_ - *first_active_), 1e-3);
    fill_scenario(run.scenario, duration);
    for (const LearnerNotes& notes : learners_) run.sites.push_back(site_of(notes));
    fill_outcome(run.outcome, duration);
    return run;
  }

 private:
  struct LearnerNotes {
    std::optional<std::pair<Nanoseconds, std::int64_t>> last_report;  // time, step; of this life
    Nanoseconds last_tokens_time = 0;
    std::int64_t last_tokens = -1;
    std::vector<Stretch> stretches;
    double contributions = 0;
  };

  void note_report(const sync::Report& report) {
    if (report.learner >= static_cast<int>(learners_.size())) return;
    const sync::LearnerView& view = machine_.learners()[report.learner];
    if (view.incarnation != report.incarnation) return;
    if (!first_active_ && view.state == sync::LearnerState::active) first_active_ = last_;
    LearnerNotes& notes = learners_[report.learner];
    if (report.tokens != notes.last_tokens) {
      notes.last_tokens = report.tokens;
      notes.last_tokens_time = last_;
    }
    if (notes.last_report && report.step > notes.last_report->second) {
      const std::int64_t steps = report.step - notes.last_report->second;
      Stretch stretch;
      stretch.begin = notes.last_report->first;
      stretch.step = std::max<Nanoseconds>((last_ - stretch.begin) / steps, 1);
      stretch.end = stretch.begin + steps * stretch.step;
      stretch.step_tokens = settings_.batch_tokens;
      stretch.reported = report.step_seconds;
      notes.stretches.push_back(stretch);
    }
    if (!notes.last_report || report.step > notes.last_report->second) {
      notes.last_report = {last_, report.step};
    }
  }

  void note_delivery(const sync::Delivery& delivery) {
    if (delivery.learner >= static_cast<int>(learners_.size())) return;
    const LearnerNotes& notes = learners_[delivery.learner];
    if (delivery.at_tokens == notes.last_tokens) {
      delays_.push_back(seconds(last_ - notes.last_tokens_time));
    }
  }

  void note_death(int learner) {
    if (learner >= static_cast<int>(learners_.size())) return;
    LearnerNotes& notes = learners_[learner];
    notes.last_report.reset();
    if (!notes.stretches.empty()) notes.stretches.back().dies = true;
  }

  void note_action(const sync::Action& action) {
    if (const auto* merge = std::get_if<sync::Merge>(&action)) {
      ++merges_;
      for (const sync::Contribution& part : merge->contributions) {
        if (part.learner < static_cast<int>(learners_.size())) {
          learners_[part.learner].contributions += 1;
        }
        ++contributions_;
      }
    }
    if (const auto* expel = std::get_if<sync::Expel>(&action)) note_death(expel->learner);
  }

  // Times from the first active learner on.
  Site site_of(const LearnerNotes& notes) const {
    std::vector<Stretch> stretches;
    for (Stretch stretch : notes.stretches) {
      stretch.begin -= *first_active_;
      stretch.end -= *first_active_;
      if (stretch.begin >= 0) stretches.push_back(stretch);
    }
    if (stretches.empty()) {
      throw Error(ExitCode::bad_data, "a learner did not step in it");
    }
    return Site(std::move(stretches));
  }

  void fill_scenario(Scenario& scenario, double duration) const {
    double rate = 0;  // steps a second of all learners
    for (const LearnerNotes& notes : learners_) {
      double time = 0;
      double steps = 0;
      for (const Stretch& stretch : notes.stretches) {
        time += seconds(stretch.end - stretch.begin);
        steps += static_cast<double>((stretch.end - stretch.begin) / stretch.step);
      }
      if (time > 0) rate += steps / time;
    }
    const auto learners = static_cast<double>(settings_.learners);
    scenario.cluster.chips = learners;
    scenario.cluster.slice = 1;
    scenario.train.days = duration / 86400;
    scenario.train.step_seconds = learners / std::max(rate, 1e-9);
    scenario.train.batch_tokens = static_cast<double>(settings_.batch_tokens) * learners;
    scenario.restart.join = 0;  // the sites tell when a new life's first step ends
    // A delivery comes so long after the report of its step.
    scenario.link.latency = 0;
    scenario.model.parameters = 1e6;
    const double delay = mean(delays_);
    const double bits = scenario.model.parameters * scenario.model.bits / settings_.fragments;
    scenario.link.gbps = delay > 0 ? bits / delay * 1e-9 : 0;
    scenario.sync.learners = settings_.learners;
    scenario.sync.interval = settings_.interval;
    scenario.sync.fragments = settings_.fragments;
    scenario.sync.overlap = settings_.overlap;
    scenario.sync.quorum = std::min(settings_.quorum, settings_.learners);
    scenario.sync.grace = settings_.grace;
    scenario.sync.suspect = seconds(settings_.suspect_after);
    scenario.sync.expel = seconds(settings_.expel_after);
    scenario.sync.spares = 0;
    scenario.sync.merge_seconds = mean(merge_seconds_);
    scenario.sync.tick_delay = mean(tick_delays_);
    scenario.methods = name_of(Method::decoupled);
    scenario.seeds = 1;
  }

  void fill_outcome(Outcome& outcome, double duration) const {
    Scenario scenario;
    fill_scenario(scenario, duration);
    const auto tokens = static_cast<double>(machine_.total_tokens() - tokens_before_);
    outcome.goodput =
        tokens / (scenario.train.batch_tokens / scenario.train.step_seconds * duration);
    outcome.rounds = static_cast<double>(machine_.rounds() - rounds_before_);
    outcome.losses = machine_.losses();
    outcome.contributors = merges_ > 0 ? contributions_ / merges_ : 0;
    for (const LearnerNotes& notes : learners_) {
      outcome.contributions.push_back(notes.contributions);
    }
  }

  sync::Settings settings_;
  sync::Machine machine_;
  std::int64_t rounds_before_;
  std::int64_t tokens_before_;
  std::vector<LearnerNotes> learners_;
  std::vector<double> delays_;
  std::vector<double> tick_delays_;
  std::vector<double> merge_seconds_;
  std::vector<sync::Action> actions_;
  std::optional<Nanoseconds> first_active_;
  Nanoseconds last_ = 0;
  double merges_ = 0;
  double contributions_ = 0;
};

}  // namespace

ObservedRun observe_run(const std::string& run) {
  const std::string path = run + "/events.jsonl";
  std::ifstream file(path);
  if (!file) throw Error(ExitCode::bad_data, "cannot read the event tape " + path);
  std::optional<Observer> observer;
  std::string line;
  int number = 1;
  try {
    for (; std::getline(file, line); ++number) {
      if (file.eof()) break;  // cut off in the middle: the run ended there
      if (line.starts_with("{\"settings\"")) {
        observer.emplace(sync::decode_start(line));  // a run that was taken up again starts anew
      } else if (observer && line.find("\"event\"") != std::string::npos) {
        observer->take(sync::decode_entry(line));
      }
    }
    if (!observer) throw Error(ExitCode::bad_data, "no start of a run in it");
    return observer->result();
  } catch (const Error& error) {
    throw Error(ExitCode::bad_data, path + ":" + std::to_string(number) + ": " + error.what());
  }
}

Outcome predict(const ObservedRun& run) { return simulate_decoupled(run.scenario, run.sites); }

std::string comparison_text(const Outcome& observed, const Outcome& predicted) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << std::setw(24) << "" << std::setw(12) << "observed"
      << std::setw(12) << "predicted" << std::setw(12) << "difference"
      << "\n";
  const auto row = [&](const std::string& name, double real, double simulated) {
    out << std::left << std::setw(24) << name << std::right << std::setw(12) << real
        << std::setw(12) << simulated << std::setw(10)
        << (real == 0 ? 0 : 100 * (simulated / real - 1)) << " %\n";
  };
  row("goodput", observed.goodput, predicted.goodput);
  row("rounds", observed.rounds, predicted.rounds);
  row("contributors a merge", observed.contributors, predicted.contributors);
  const std::size_t learners =
      std::min(observed.contributions.size(), predicted.contributions.size());
  for (std::size_t i = 0; i < learners; ++i) {
    row("contributions of " + std::to_string(i), observed.contributions[i],
        predicted.contributions[i]);
  }
  return out.str();
}

std::string comparison_json(const ObservedRun& observed, const Outcome& predicted) {
  const auto object = [](const Outcome& outcome) {
    return nlohmann::ordered_json{{"goodput", outcome.goodput},
                                  {"rounds", outcome.rounds},
                                  {"contributors", outcome.contributors},
                                  {"losses", outcome.losses},
                                  {"contributions", outcome.contributions}};
  };
  Scenario scenario = observed.scenario;
  return nlohmann::ordered_json{{"scenario", config::to_map(scenario_options(scenario))},
                                {"observed", object(observed.outcome)},
                                {"predicted", object(predicted)}}
      .dump(2);
}

}  // namespace archipelago::simulate
