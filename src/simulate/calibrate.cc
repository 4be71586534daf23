#include "simulate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "sync/machine.h"
#include "sync/tape.h"

namespace archipelago::simulate {
namespace {

using sync::Nanoseconds;

constexpr double kNeverBack = 1e9;  // seconds

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

double mean(const std::vector<double>& values, double otherwise) {
  if (values.empty()) return otherwise;
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Follows a tape and notes what a scenario needs to know.
class Observer {
 public:
  explicit Observer(const sync::TapeStart& start)
      : settings_(start.settings),
        machine_(start.settings, start.restored),
        rounds_before_(start.restored.round),
        learners_(start.settings.learners) {
    tokens_before_ = machine_.total_tokens();
    const int islands = settings_.learners + settings_.spares;
    for (int island = 0; island < islands; ++island) site_of_[island] = island;
  }

  void take(const sync::TapeEntry& entry) {
    actions_.clear();
    machine_.handle(entry.time, entry.event, actions_);
    last_ = entry.time;
    if (const auto* report = std::get_if<sync::Report>(&entry.event)) note_report(*report);
    if (const auto* ready = std::get_if<sync::IslandReady>(&entry.event)) note_ready(ready->island);
    if (const auto* lost = std::get_if<sync::IslandLost>(&entry.event)) note_lost(lost->island);
    if (const auto* merged = std::get_if<sync::Merged>(&entry.event)) {
      merge_seconds_.push_back(merged->seconds);
    }
    for (const sync::Action& action : actions_) {
      if (const auto* merge = std::get_if<sync::Merge>(&action)) note_merge(*merge);
      if (const auto* assign = std::get_if<sync::Assign>(&action)) {
        at(assign->learner).assigned = last_;
        at(assign->learner).lives += 1;
        at(assign->learner).joined = false;
        at(assign->learner).step_time.reset();
      }
    }
  }

  ObservedRun result(const std::string& trace_path) const {
    ObservedRun run;
    const double begin = seconds(first_active_.value_or(0));
    const double duration = std::max(seconds(last_) - begin, 1e-3);
    fill_scenario(run.scenario, duration);
    std::ofstream trace(trace_path);
    trace << "time_s,chip,return_s\n" << std::setprecision(12);
    for (const Loss& loss : losses_) {
      trace << std::max(loss.time - begin, 0.0) << "," << loss.site << "," << loss.back << "\n";
    }
    if (!trace.flush()) {
      throw Error(ExitCode::configuration, "cannot write the failure trace " + trace_path);
    }
    run.scenario.failure.trace = trace_path;
    fill_outcome(run.outcome, duration);
    return run;
  }

 private:
  struct Loss {
    double time;
    int site;
    double back;
  };
  struct LearnerNotes {
    int lives = 0;
    Nanoseconds assigned = 0;
    bool joined = false;
    std::optional<std::pair<Nanoseconds, std::int64_t>> step_time;  // of the first report of a life
    double stepping = 0;                                            // seconds
    std::int64_t steps = 0;
    double pending_seconds = 0;
    std::int64_t pending_steps = 0;
    double contributions = 0;
  };

  LearnerNotes& at(int learner) {
    if (learner >= static_cast<int>(learners_.size())) learners_.resize(learner + 1);
    return learners_[learner];
  }

  void note_report(const sync::Report& report) {
    const auto& views = machine_.learners();
    if (report.learner >= static_cast<int>(views.size())) return;
    if (views[report.learner].incarnation != report.incarnation) return;
    if (views[report.learner].state != sync::LearnerState::active) return;
    LearnerNotes& notes = at(report.learner);
    if (!first_active_) first_active_ = last_;
    if (!notes.joined && notes.lives > 1) joins_.push_back(seconds(last_ - notes.assigned));
    notes.joined = true;
    if (!notes.step_time) {
      notes.step_time = {last_, report.step};
      notes.stepping += notes.pending_seconds;
      notes.steps += notes.pending_steps;
    }
    notes.pending_seconds = seconds(last_ - notes.step_time->first);
    notes.pending_steps = report.step - notes.step_time->second;
  }

  void note_ready(int island) {
    if (site_of_.contains(island)) return;
    // A new island stands for the one that was lost first and is not back yet.
    for (Loss& loss : losses_) {
      if (loss.back != kNeverBack) continue;
      loss.back = seconds(last_) - loss.time;
      site_of_[island] = loss.site;
      return;
    }
  }

  void note_lost(int island) {
    const auto site = site_of_.find(island);
    if (site == site_of_.end()) return;
    losses_.push_back({seconds(last_), site->second, kNeverBack});
  }

  void note_merge(const sync::Merge& merge) {
    ++merges_;
    for (const sync::Contribution& part : merge.contributions) {
      at(part.learner).contributions += 1;
      ++contributions_;
    }
  }

  std::vector<double> step_seconds() const {
    std::vector<double> all;
    for (const LearnerNotes& notes : learners_) {
      const double time = notes.stepping + notes.pending_seconds;
      const auto steps = static_cast<double>(notes.steps + notes.pending_steps);
      if (steps > 0) all.push_back(time / steps);
    }
    return all;
  }

  void fill_scenario(Scenario& scenario, double duration) const {
    const std::vector<double> steps = step_seconds();
    if (steps.empty()) throw Error(ExitCode::bad_data, "the tape tells of no learner's steps");
    const double fastest = *std::min_element(steps.begin(), steps.end());
    const double slowest = *std::max_element(steps.begin(), steps.end());
    // Slices of one chip: losing it is losing the learner.
    scenario.cluster.chips = settings_.learners;
    scenario.cluster.slice = 1;
    scenario.train.days = duration / 86400;
    scenario.train.step_seconds = fastest;
    scenario.train.spread = slowest / fastest - 1;
    scenario.train.batch_tokens = static_cast<double>(settings_.batch_tokens) * settings_.learners;
    scenario.restart.join = std::max(mean(joins_, fastest) - fastest, 0.0);
    scenario.restart.down = 0;
    scenario.link.latency = 0;
    scenario.sync.learners = settings_.learners;
    scenario.sync.interval = settings_.interval;
    scenario.sync.fragments = settings_.fragments;
    scenario.sync.overlap = settings_.overlap;
    scenario.sync.quorum = std::min(settings_.quorum, settings_.learners);
    scenario.sync.grace = settings_.grace;
    scenario.sync.suspect = seconds(settings_.suspect_after);
    scenario.sync.expel = seconds(settings_.expel_after);
    scenario.sync.spares = settings_.spares;
    scenario.sync.merge_seconds = mean(merge_seconds_, 0);
    scenario.methods = name_of(Method::decoupled);
    scenario.seeds = 1;
  }

  void fill_outcome(Outcome& outcome, double duration) const {
    double rate = 0;
    for (const double step : step_seconds()) rate += 1 / step;
    const auto tokens = static_cast<double>(machine_.total_tokens() - tokens_before_);
    outcome.goodput = tokens / (rate * static_cast<double>(settings_.batch_tokens) * duration);
    outcome.rounds = static_cast<double>(machine_.rounds() - rounds_before_);
    outcome.losses = machine_.losses();
    outcome.contributors = merges_ > 0 ? contributions_ / merges_ : 0;
    outcome.tokens_per_day = tokens / duration * 86400;
    for (const LearnerNotes& notes : learners_) {
      outcome.contributions.push_back(notes.contributions);
    }
  }

  sync::Settings settings_;
  sync::Machine machine_;
  std::int64_t rounds_before_;
  std::int64_t tokens_before_ = 0;
  std::vector<LearnerNotes> learners_;
  std::map<int, int> site_of_;
  std::vector<Loss> losses_;
  std::vector<double> joins_;
  std::vector<double> merge_seconds_;
  std::vector<sync::Action> actions_;
  std::optional<Nanoseconds> first_active_;
  Nanoseconds last_ = 0;
  double merges_ = 0;
  double contributions_ = 0;
};

}  // namespace

ObservedRun observe_run(const std::string& run, const std::string& trace) {
  const std::string path = run + "/events.jsonl";
  std::ifstream file(path);
  if (!file) throw Error(ExitCode::bad_data, "cannot read the event tape " + path);
  std::optional<Observer> observer;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (file.eof()) break;  // cut off in the middle: the run ended there
    try {
      if (line.starts_with("{\"settings\"")) {
        observer.emplace(sync::decode_start(line));  // a run that was taken up again starts anew
      } else if (observer && line.find("\"event\"") != std::string::npos) {
        observer->take(sync::decode_entry(line));
      }
    } catch (const Error& error) {
      throw Error(ExitCode::bad_data, path + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  if (!observer) throw Error(ExitCode::bad_data, path + " holds no start of a run");
  return observer->result(trace);
}

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
