#include "report/history.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "core/file.h"
#include "report/json_field.h"

namespace archipelago::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json parse(std::string_view text) { return Json::parse(text, nullptr, false); }

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double number(const Json& object, const char* key) { return field(object, key, 0.0); }

Json read_object(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return nullptr;
  Json object = parse(read_file(file));
  return object.is_object() ? object : Json(nullptr);
}

// Rows whose time starts anew belong to another launch, which follows the one before.
class LaunchClock {
 public:
  double time_of(double t) {
    if (t < last_) starts_.push_back(starts_.back() + last_);
    last_ = t;
    return starts_.back() + t;
  }

  const std::vector<double>& starts() const { return starts_; }

 private:
  std::vector<double> starts_{0};
  double last_ = 0;
};

// Beyond these a row is no run's.
constexpr std::int64_t kMostLearners = 1 << 16;
constexpr std::int64_t kMostTokens = 100'000'000'000'000;  // of a learner

bool is_step(const Json& row) {
  const auto learner = field<std::int64_t>(row, "learner", -1);
  const auto tokens = field<std::int64_t>(row, "tokens", 0);
  return learner >= 0 && learner < kMostLearners && tokens >= 0 && tokens <= kMostTokens &&
         row.contains("loss");
}

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

// Returns when each launch began.
std::vector<double> read_metrics(const fs::path& file, History& history) {
  LaunchClock clock;
  StepReader steps;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const Json row = parse(line);
    if (!row.is_object() || !measured(row, "t")) continue;
    const double t = clock.time_of(number(row, "t"));
    history.seconds = std::max(history.seconds, t);
    if (is_step(row)) {
      history.steps.push_back(steps.read(row, t, clock.starts().size()));
      history.learners = std::max(history.learners, history.steps.back().learner + 1);
    } else if (measured(row, "val_loss")) {
      history.validations.push_back(
          {t, field<std::int64_t>(row, "tokens", 0), number(row, "val_loss")});
    } else if (row.contains("contributors")) {
      history.rounds.push_back(
          {t, static_cast<int>(list_field(row, "contributors").size()), number(row, "wait_s")});
    }
  }
  return clock.starts();
}

void add_launch(Launch launch, double start, History& history) {
  for (Departure& departure : launch.departures) {
    departure.t += start;
    history.departures.push_back(std::move(departure));
  }
  for (const double t : launch.takeovers) {
    history.events.push_back({start + t, "the standby syncer took over"});
  }
  for (const double t : launch.launcher_losses) {
    history.events.push_back({start + t, "a host was lost, and mpirun with it"});
  }
  history.rejoins += launch.rejoins;
}

// Launches that never trained have no rows in metrics.jsonl, so no time of their own.
void add_launches(std::vector<Launch> launches, const std::vector<double>& starts,
                  History& history) {
  std::erase_if(launches, [](const Launch& launch) { return !launch.trained; });
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (i > 0) {
      std::ostringstream what;
      what << "launch " << i + 1;
      if (i <= launches.size()) {
        const std::string& before = launches[i - 1].ending;
        what << "; the one before "
             << (before.empty() ? "broke off: its syncer died" : "ended: " + before);
      }
      history.events.push_back({starts[i], what.str()});
    }
    if (i < launches.size()) add_launch(launches[i], starts[i], history);
  }
}

}  // namespace

History read_history(const fs::path& folder) {
  History history;
  history.folder = folder;
  const auto starts = read_metrics(folder / "metrics.jsonl", history);
  if (history.steps.empty()) {
    throw Error(ExitCode::configuration,
                folder.string() +
                    " holds no run that has trained: no step of a learner stands in " +
                    (folder / "metrics.jsonl").string());
  }
  history.launches = static_cast<int>(starts.size());
  add_launches(read_tape(folder / "events.jsonl"), starts, history);
  history.settings = read_settings(folder);
  history.summary = read_object(folder / "summary.json");
  history.status = read_object(folder / "status.json");
  return history;
}

}  // namespace archipelago::report
