#include "simulate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "core/readable.h"
#include "sync/machine.h"
#include "sync/tape.h"
#include "sync/tape_file.h"

namespace archipelago::simulate {
namespace {

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

constexpr std::ptrdiff_t kMostLearners = 1 << 16;

// Follows a tape and notes what befell the run.
class Observer {
 public:
  explicit Observer(const sync::TapeStart& start)
      : machine_(start.settings, start.restored),
        rounds_before_(start.restored.round),
        tokens_before_(machine_.total_tokens()) {
    recorded_.start = start;
  }

  // Throws Error(bad_data) where the entry cannot be of this run.
  void take(const sync::TapeEntry& entry) {
    require_known(entry);
    now_ = entry.time;
    if (std::holds_alternative<sync::Tick>(entry.event)) note_tick();
    std::visit([&](const auto& event) { note(event); }, entry.event);
    actions_.clear();
    machine_.handle(now_, entry.event, actions_);
    for (const sync::Action& action : entry.actions) note_action(action);
    note_active();
  }

  ObservedRun result() {
    if (outcome_.begin == 0) throw Error(ExitCode::bad_data, "no learner ever trained in it");
    ObservedRun run;
    for (RecordedLearner& learner : recorded_.learners) {
      learner.responses.sort();
      learner.installs.sort();
    }
    recorded_.merges.sort();
    recorded_.end = now_;
    recorded_.finished = machine_.finished();
    outcome_.end = now_;
    outcome_.tokens = machine_.total_tokens() - tokens_before_;
    outcome_.rounds = machine_.rounds() - rounds_before_;
    outcome_.losses = machine_.losses();
    outcome_.contributions.resize(recorded_.learners.size());
    run.tokens_per_second = rate();
    run.recorded = std::move(recorded_);
    run.outcome = outcome_;
    return run;
  }

 private:
  using Key = std::tuple<int, int, std::int64_t>;  // learner, incarnation, round

  void require_known(const sync::TapeEntry& entry) const {
    const auto fragments = static_cast<std::size_t>(recorded_.start.settings.fragments);
    if (const auto* report = std::get_if<sync::Report>(&entry.event)) {
      require(report->held.size() == fragments || report->learner < 0, "versions held of a report");
    }
    for (const sync::Action& action : entry.actions) {
      if (const auto* assign = std::get_if<sync::Assign>(&action)) require_learner(assign->learner);
      if (const auto* ask = std::get_if<sync::Ask>(&action)) {
        require(ask->fragment >= 0 && ask->fragment < std::ssize(machine_.versions()), "fragment");
      }
      if (const auto* merge = std::get_if<sync::Merge>(&action)) {
        for (const sync::Contribution& part : merge->contributions) require_learner(part.learner);
      }
    }
  }

  void require_learner(int id) const {
    require(
        id >= 0 && id < std::max<std::ptrdiff_t>(std::ssize(machine_.learners()), kMostLearners),
        "learner");
  }

  static void require(bool holds, const std::string& what) {
    if (!holds) throw Error(ExitCode::bad_data, "the run has no such " + what);
  }

  RecordedLearner& learner(int id) {
    if (id >= std::ssize(recorded_.learners)) recorded_.learners.resize(id + 1);
    return recorded_.learners[id];
  }

  // The learner's present life; null where the event is of another.
  RecordedLife* life(int id, int incarnation) {
    if (id < 0 || id >= std::ssize(machine_.learners())) return nullptr;
    if (machine_.learners()[id].incarnation != incarnation || learner(id).lives.empty()) {
      return nullptr;
    }
    return &learner(id).lives.back();
  }

  void note_tick() {
    const std::optional<Nanoseconds> wakeup = machine_.next_wakeup();
    if (wakeup) recorded_.ticks.add(*wakeup, std::max<Nanoseconds>(now_ - *wakeup, 0));
  }

  void note(const sync::Report& report) {
    RecordedLife* const present = life(report.learner, report.incarnation);
    if (present == nullptr) return;
    present->reports.push_back({now_, report.tokens, report.step_seconds, report.loss});
    std::erase_if(published_, [&](const Published& waiting) {
      if (waiting.learner != report.learner) return false;
      if (report.held.at(waiting.fragment) < waiting.version) return false;
      learner(report.learner).installs.add(waiting.time, now_ - waiting.time);
      return true;
    });
    // A learner that has the round's result forgets the ask. It would have answered a step later.
    const auto step = static_cast<Nanoseconds>(1e9 * report.step_seconds);
    std::erase_if(asked_, [&](const auto& entry) {
      const auto& [key, asked] = entry;
      if (std::get<0>(key) != report.learner) return false;
      if (report.held.at(asked.fragment) <= asked.version) return false;
      learner(report.learner).responses.add(asked.time, {now_ - asked.time + step, 1});
      return true;
    });
  }

  void note(const sync::Delivery& delivery) {
    const auto asked = asked_.extract({delivery.learner, delivery.incarnation, delivery.round});
    if (asked.empty()) return;
    Response response{now_ - asked.mapped().time, 1};
    if (std::isfinite(delivery.norm)) {
      response.norm =
          delivery.norm / static_cast<double>(std::max<std::int64_t>(delivery.steps, 1));
    }
    learner(delivery.learner).responses.add(asked.mapped().time, response);
  }

  void note(const sync::Merged& merged) {
    const auto begun = merging_.extract(merged.round);
    if (!begun.empty()) recorded_.merges.add(begun.mapped(), now_ - begun.mapped());
  }

  void note(const sync::IslandLost& lost) {
    const auto& views = machine_.learners();
    for (int id = 0; id < std::ssize(views); ++id) {
      const bool plays = views[id].island == lost.island &&
                         views[id].state != sync::LearnerState::lost && !learner(id).lives.empty();
      if (plays) learner(id).lives.back().lost = now_;
    }
  }

  void note(const sync::StopRequested& stop) { recorded_.requests.emplace_back(now_, stop); }
  void note(const sync::ScaleRequested& scale) { recorded_.requests.emplace_back(now_, scale); }
  template <typename Other>
  void note(const Other&) {}

  void note_action(const sync::Action& action) {
    if (const auto* assign = std::get_if<sync::Assign>(&action)) {
      RecordedLife& begun = learner(assign->learner).lives.emplace_back();
      begun.assigned = now_;
      begun.first_tokens = assign->tokens;
      std::erase_if(published_,
                    [&](const Published& waiting) { return waiting.learner == assign->learner; });
    } else if (const auto* ask = std::get_if<sync::Ask>(&action)) {
      asked_.try_emplace({ask->learner, ask->incarnation, ask->round},
                         Asked{now_, ask->fragment, machine_.versions()[ask->fragment]});
    } else if (const auto* merge = std::get_if<sync::Merge>(&action)) {
      merging_[merge->round] = now_;
      ++outcome_.merges;
      for (const sync::Contribution& part : merge->contributions) {
        if (part.learner >= std::ssize(outcome_.contributions)) {
          outcome_.contributions.resize(part.learner + 1);
        }
        ++outcome_.contributions[part.learner];
      }
    } else if (const auto* publish = std::get_if<sync::Publish>(&action)) {
      for (int id = 0; id < std::ssize(machine_.learners()); ++id) {
        if (machine_.learners()[id].state != sync::LearnerState::active) continue;
        published_.push_back({id, publish->fragment, publish->version, now_});
      }
    }
  }

  void note_active() {
    const auto& views = machine_.learners();
    for (int id = 0; id < std::ssize(views); ++id) {
      if (views[id].state != sync::LearnerState::active || learner(id).lives.empty()) continue;
      RecordedLife& present = learner(id).lives.back();
      if (present.active == 0) present.active = now_;
      if (outcome_.begin == 0) outcome_.begin = now_;
    }
  }

  // Tokens a second of all learners while they live.
  double rate() const {
    double sum = 0;
    for (const RecordedLearner& each : recorded_.learners) {
      double time = 0;
      double tokens = 0;
      for (const RecordedLife& one : each.lives) {
        if (one.reports.empty()) continue;
        time += seconds(one.reports.back().time - one.reports.front().time);
        tokens += static_cast<double>(one.reports.back().tokens - one.reports.front().tokens);
      }
      if (time > 0) sum += tokens / time;
    }
    return sum;
  }

  struct Asked {
    Nanoseconds time;
    int fragment;
    std::int32_t version;  // then
  };
  struct Published {
    int learner;
    int fragment;
    std::int32_t version;
    Nanoseconds time;
  };

  sync::Machine machine_;
  std::int64_t rounds_before_;
  std::int64_t tokens_before_;
  Recorded recorded_;
  RunOutcome outcome_;
  std::map<Key, Asked> asked_;  // and neither answered nor forgotten
  std::map<std::int64_t, Nanoseconds> merging_;
  std::vector<Published> published_;  // and not held yet
  std::vector<sync::Action> actions_;
  Nanoseconds now_ = 0;
};

double contributors_of(const RunOutcome& outcome) {
  double sum = 0;
  for (const std::int64_t count : outcome.contributions) sum += static_cast<double>(count);
  return outcome.merges > 0 ? sum / static_cast<double>(outcome.merges) : 0;
}

}  // namespace

ObservedRun observe_run(const std::string& run) {
  require_folder(run);
  sync::TapeFile tape(run + "/events.jsonl");
  const std::string path = tape.path().string();
  std::optional<Observer> observer;
  while (const auto line = tape.next()) {
    try {
      // A run that was taken up again starts anew.
      if (line->kind == sync::LineKind::start) observer.emplace(sync::decode_start(line->text));
      if (line->kind == sync::LineKind::entry && observer) {
        observer->take(sync::decode_entry(line->text));
      }
    } catch (const Error& error) {
      throw Error(ExitCode::bad_data,
                  path + ":" + std::to_string(line->number) + ": " + error.what());
    }
  }
  if (!observer) throw Error(ExitCode::bad_data, path + ": no start of a run in it");
  try {
    return observer->result();
  } catch (const Error& error) {
    throw Error(ExitCode::bad_data, path + ": " + error.what());
  }
}

double goodput_of(const ObservedRun& run, const RunOutcome& outcome) {
  const double time = std::max(seconds(outcome.end - outcome.begin), 1e-3);
  return static_cast<double>(outcome.tokens) / std::max(run.tokens_per_second * time, 1e-9);
}

std::string comparison_text(const ObservedRun& run, const RunOutcome& predicted) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << std::setw(24) << "" << std::setw(12) << "observed"
      << std::setw(12) << "predicted" << std::setw(12) << "difference"
      << "\n";
  const auto row = [&](const std::string& name, double real, double simulated) {
    out << std::left << std::setw(24) << name << std::right << std::setw(12) << real
        << std::setw(12) << simulated << std::setw(10)
        << (real == 0 ? 0 : 100 * (simulated / real - 1)) << " %\n";
  };
  const RunOutcome& observed = run.outcome;
  row("goodput", goodput_of(run, observed), goodput_of(run, predicted));
  row("seconds", seconds(observed.end - observed.begin), seconds(predicted.end - predicted.begin));
  row("rounds", static_cast<double>(observed.rounds), static_cast<double>(predicted.rounds));
  row("contributors a merge", contributors_of(observed), contributors_of(predicted));
  for (std::size_t i = 0; i < observed.contributions.size(); ++i) {
    row("contributions of " + std::to_string(i), static_cast<double>(observed.contributions[i]),
        static_cast<double>(predicted.contributions.at(i)));
  }
  return out.str();
}

std::string comparison_json(const ObservedRun& run, const RunOutcome& predicted) {
  const auto object = [&](const RunOutcome& outcome) {
    return nlohmann::ordered_json{{"goodput", goodput_of(run, outcome)},
                                  {"seconds", seconds(outcome.end - outcome.begin)},
                                  {"tokens", outcome.tokens},
                                  {"rounds", outcome.rounds},
                                  {"contributors", contributors_of(outcome)},
                                  {"losses", outcome.losses},
                                  {"contributions", outcome.contributions}};
  };
  return nlohmann::ordered_json{{"observed", object(run.outcome)}, {"predicted", object(predicted)}}
      .dump(2);
}

}  // namespace archipelago::simulate
