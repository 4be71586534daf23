#include "report/history.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "core/readable.h"
#include "report/json_field.h"

namespace archipelago::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double number(const Json& object, const char* key) { return field(object, key, 0.0); }

Json read_object(const fs::path& file) {
  if (!open_to_read(file)) return nullptr;
  Json object = parse(read_file(file));
  return object.is_object() ? object : Json(nullptr);
}

// Beyond these a row is no run's.
constexpr std::int64_t kMostLearners = 1 << 16;
constexpr std::int64_t kMostTokens = 100'000'000'000'000;  // of a learner

bool is_step(const Json& row) {
  const auto learner = field<std::int64_t>(row, "learner", -1);
  const auto tokens = field<std::int64_t>(row, "tokens", 0);
  return learner >= 0 && learner < kMostLearners && tokens >= 0 && tokens <= kMostTokens &&
         row.contains("loss");
}

// Which launch the rows are of, one after the other, and when that was: each launch follows the one
// before. A launch begins with the step that its first report on the tape tells; also where time
// goes back, which it otherwise does at a takeover only. Launches that never trained have no steps,
// so no time of their own.
class LaunchClock {
 public:
  struct Launched {
    double start;
    std::size_t number;  // on the tape, of those that trained; past its end where it lacks them
  };

  explicit LaunchClock(const std::vector<Launch>& tape) : tape_(tape) {}

  // The time of the run of a row at `t` seconds of its launch; nothing where that has not trained.
  std::optional<double> time_of(const Json& row, double t) {
    const bool other = foreign_ || (t < last_ && !took_over());
    if (is_step(row)) {
      find_launch(row, t, other);
      stepped_ = true;
    } else if (other) {
      foreign_ = true;
      return std::nullopt;
    }
    last_ = std::max(last_, t);
    return launched_.back().start + last_;
  }

  // When what the tape and the rows tell of the last launch ends.
  double end() const {
    const std::size_t number = launched_.back().number;
    return launched_.back().start +
           (number < tape_.size() ? std::max(last_, tape_[number].seconds) : last_);
  }

  std::size_t count() const { return launched_.size(); }
  const std::vector<Launched>& launched() const { return launched_; }

 private:
  bool took_over() const {
    const std::size_t number = launched_.back().number;
    return number < tape_.size() && !tape_[number].takeovers.empty();
  }

  void find_launch(const Json& row, double t, bool other) {
    const std::size_t number = launched_.back().number;
    for (std::size_t i = stepped_ ? number + 1 : number; i < tape_.size(); ++i) {
      if (begins(*tape_[i].first_report, row, t)) return begin(i);
    }
    if (other) begin(number + 1);
  }

  // The row is written before the tape is told; their times are rounded.
  static bool begins(const FirstReport& report, const Json& row, double t) {
    constexpr double kRounding = 1e-6;
    return t <= report.t + kRounding && field(row, "learner", -1) == report.learner &&
           number(row, "step_s") == report.step_seconds;
  }

  void begin(std::size_t number) {
    if (stepped_) {
      launched_.push_back({end(), number});
      last_ = 0;
    }
    launched_.back().number = number;
    foreign_ = false;
  }

  const std::vector<Launch>& tape_;  // those that trained
  std::vector<Launched> launched_{{0, 0}};
  double last_ = 0;       // seconds of the last launch
  bool stepped_ = false;  // a step of it was seen
  bool foreign_ = false;  // the rows are of a start that did not train
};

// The rows of the learners, each after the one before.
class StepReader {
 public:
  Step read(const Json& row, double t, std::size_t launch) {
    Step step{.t = t,
              .learner = field(row, "learner", 0),
              .incarnation = field(row, "incarnation", 0),
              .run_tokens = 0,
              .gained = 0,
              .loss = measured(row, "loss").value_or(kNaN),
              .learning_rate = measured(row, "lr"),
              .gradient_norm = measured(row, "grad_norm"),
              .seconds = number(row, "step_s"),
              .since = std::nullopt,
              .blocked_seconds = number(row, "blocked_s"),
              .joules = measured(row, "energy_j"),
              .accuracy = measured(row, "accuracy")};
    const auto tokens = field<std::int64_t>(row, "tokens", 0);
    const auto [place, fresh] =
        before_.emplace(step.learner, Before{step.incarnation, launch, 0, t});
    Before& before = place->second;
    const bool same_life =
        !fresh && before.incarnation == step.incarnation && before.launch == launch;
    if (same_life) step.since = t - before.t;
    if (same_life || (fresh && step.incarnation == 0)) step.gained = tokens - before.tokens;
    run_tokens_ += tokens - before.tokens;
    step.run_tokens = run_tokens_;
    before = {step.incarnation, launch, tokens, t};
    return step;
  }

 private:
  struct Before {
    int incarnation;
    std::size_t launch;
    std::int64_t tokens;
    double t;
  };
  std::map<int, Before> before_;  // of each learner
  std::int64_t run_tokens_ = 0;
};

void read_metrics(const fs::path& file, LaunchClock& clock, History& history) {
  StepReader steps;
  auto lines = open_to_read(file);
  for (std::string line; lines && std::getline(*lines, line);) {
    const Json row = parse(line);
    if (!row.is_object() || !measured(row, "t")) continue;
    const bool step = is_step(row);
    const bool validation = !step && measured(row, "val_loss");
    if (!step && !validation && !row.contains("contributors")) continue;
    const auto t = clock.time_of(row, number(row, "t"));
    if (!t) continue;
    if (step) {
      history.steps.push_back(steps.read(row, *t, clock.count()));
      history.learners = std::max(history.learners, history.steps.back().learner + 1);
    } else if (validation) {
      history.validations.push_back(
          {*t, field<std::int64_t>(row, "tokens", 0), number(row, "val_loss")});
    } else {
      history.rounds.push_back(
          {*t, static_cast<int>(list_field(row, "contributors").size()), number(row, "wait_s")});
    }
  }
  history.seconds = clock.end();
  history.launches = static_cast<int>(clock.count());
}

void add_launch(const Launch& launch, double start, History& history) {
  for (const Departure& departure : launch.departures) {
    history.departures.push_back(departure);
    history.departures.back().t += start;
  }
  for (const double t : launch.takeovers) {
    history.events.push_back({start + t, "the standby syncer took over"});
  }
  for (const double t : launch.launcher_losses) {
    history.events.push_back({start + t, "a host was lost, and mpirun with it"});
  }
  history.rejoins += launch.rejoins;
}

void add_launches(const std::vector<Launch>& launches,
                  const std::vector<LaunchClock::Launched>& launched, History& history) {
  for (std::size_t i = 0; i < launched.size(); ++i) {
    const auto& [start, number] = launched[i];
    if (i > 0) {
      std::ostringstream what;
      what << "launch " << i + 1;
      if (number <= launches.size()) {
        const std::string& before = launches[number - 1].ending;
        what << "; the one before "
             << (before.empty() ? "broke off: its syncer died" : "ended: " + before);
      }
      history.events.push_back({start, what.str()});
    }
    if (number < launches.size()) add_launch(launches[number], start, history);
  }
}

}  // namespace

History read_history(const fs::path& folder) {
  require_folder(folder);
  History history;
  history.folder = folder;
  auto launches = read_tape(folder / "events.jsonl");
  std::erase_if(launches, [](const Launch& launch) { return !launch.first_report; });
  LaunchClock clock(launches);
  read_metrics(folder / "metrics.jsonl", clock, history);
  if (history.steps.empty()) {
    throw Error(ExitCode::configuration,
                folder.string() +
                    " holds no run that has trained: no step of a learner stands in " +
                    (folder / "metrics.jsonl").string());
  }
  add_launches(launches, clock.launched(), history);
  history.settings = read_settings(folder);
  history.summary = read_object(folder / "summary.json");
  history.status = read_object(folder / "status.json");
  return history;
}

}  // namespace archipelago::report
