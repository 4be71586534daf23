#include "report/history.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "core/file.h"
#include "report/json_field.h"

namespace archipelago::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kNanoseconds = 1e-9;

Json parse(std::string_view text) { return Json::parse(text, nullptr, false); }

double number(const Json& object, const char* key) { return field(object, key, 0.0); }

std::optional<double> measured(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

Json read_object(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return nullptr;
  Json object = parse(read_file(file));
  return object.is_object() ? object : Json(nullptr);
}

template <typename Take>
void for_lines(const fs::path& file, const Take& take) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) take(std::string_view(line));
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

// What the lives of the learners have trained, together.
class TokenCount {
 public:
  std::int64_t after(int learner, std::int64_t tokens) {
    total_ += tokens - std::exchange(of_[learner], tokens);
    return total_;
  }

 private:
  std::map<int, std::int64_t> of_;
  std::int64_t total_ = 0;
};

std::vector<double> read_metrics(const fs::path& file, History& history) {
  LaunchClock clock;
  TokenCount tokens;
  for_lines(file, [&](std::string_view line) {
    const Json row = parse(line);
    if (!row.is_object() || !measured(row, "t")) return;
    const double t = clock.time_of(number(row, "t"));
    history.seconds = std::max(history.seconds, t);
    if (measured(row, "learner") && measured(row, "loss")) {
      const int learner = static_cast<int>(number(row, "learner"));
      const auto trained = static_cast<std::int64_t>(number(row, "tokens"));
      history.steps.push_back({t, learner, static_cast<int>(number(row, "incarnation")), trained,
                               tokens.after(learner, trained), number(row, "loss"),
                               number(row, "step_s"), number(row, "blocked_s"),
                               measured(row, "energy_j"), measured(row, "accuracy")});
      history.learners = std::max(history.learners, learner + 1);
    } else if (row.contains("contributors")) {
      history.rounds.push_back({t, static_cast<int>(list_field(row, "contributors").size()),
                                number(row, "wait_s"), number(row, "merge_s")});
    }
  });
  return clock.starts();
}

// The deaths on the event tape of one launch after the other.
class TapeReader {
 public:
  explicit TapeReader(const std::vector<double>& starts) : starts_(starts) {}

  void take(std::string_view line) {
    const auto says = [&](std::string_view word) { return line.find(word) != line.npos; };
    if (says("\"settings\"")) {
      end_launch();
    } else if (says("\"report\"") && !trained_) {
      const Json entry = parse(line);
      trained_ = number(field(entry, "event", Json()), "step_seconds") > 0;
    } else if (says("\"assign\"") || says("\"island_lost\"")) {
      take_island(parse(line));
    }
  }

  std::vector<Loss> finish() {
    end_launch();
    return std::move(losses_);
  }

 private:
  void take_island(const Json& entry) {
    const Json event = field(entry, "event", Json());
    if (field<std::string>(event, "type", "") == "island_lost") {
      const auto lost = learner_of_.find(field(event, "island", -1));
      if (lost != learner_of_.end()) {
        in_launch_.push_back({number(entry, "t") * kNanoseconds, lost->second,
                              field<std::string>(event, "reason", "for an unknown reason")});
        learner_of_.erase(lost);
      }
    }
    for (const Json& action : list_field(entry, "actions")) {
      if (field<std::string>(action, "type", "") != "assign") continue;
      learner_of_[field(action, "island", -1)] = field(action, "learner", -1);
    }
  }

  // A launch that never trained has no rows in metrics.jsonl, so no time of its own.
  void end_launch() {
    if (trained_ && launch_ < starts_.size()) {
      for (Loss& loss : in_launch_) {
        loss.t += starts_[launch_];
        losses_.push_back(std::move(loss));
      }
      ++launch_;
    }
    in_launch_.clear();
    learner_of_.clear();
    trained_ = false;
  }

  const std::vector<double>& starts_;
  std::size_t launch_ = 0;
  bool trained_ = false;
  std::map<int, int> learner_of_;  // of an island
  std::vector<Loss> in_launch_;
  std::vector<Loss> losses_;
};

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
  TapeReader tape(starts);
  for_lines(folder / "events.jsonl", [&](std::string_view line) { tape.take(line); });
  history.losses = tape.finish();
  history.summary = read_object(folder / "summary.json");
  history.status = read_object(folder / "status.json");
  return history;
}

}  // namespace archipelago::report
