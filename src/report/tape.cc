#include "report/tape.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <string_view>

#include "core/readable.h"
#include "report/json_field.h"

namespace archipelago::report {
namespace {

using Json = nlohmann::json;

constexpr double kNanoseconds = 1e-9;
// A word that each line of interest holds: most lines are reports, and need not be parsed.
constexpr std::array<std::string_view, 9> kWords = {"\"settings\"", "\"assign\"", "\"island_lost\"",
                                                    "\"expel\"",    "\"retire\"", "\"takeover\"",
                                                    "\"rejoined\"", "\"finish\"", "\"launcher\""};

// The time of an entry, without parsing it; 0 for other lines.
double seconds_of(std::string_view line) {
  constexpr std::string_view kBegin = "{\"t\":";
  std::int64_t time = 0;
  if (line.starts_with(kBegin)) {
    std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), time);
  }
  return static_cast<double>(time) * kNanoseconds;
}

class TapeReader {
 public:
  void take(std::string_view line) {
    const auto says = [&](std::string_view word) { return line.find(word) != line.npos; };
    if (!launches_.empty()) take_time(seconds_of(line), launches_.back());
    if (!launches_.empty() && !launches_.back().first_report && says("\"report\"")) {
      take_report(parse(line), launches_.back());
    }
    if (std::ranges::any_of(kWords, says)) take_entry(parse(line));
  }

  std::vector<Launch> finish() { return std::move(launches_); }

 private:
  void take_entry(const Json& entry) {
    if (!entry.is_object()) return;
    if (entry.contains("settings")) {
      launches_.emplace_back();
      learner_of_.clear();
    }
    if (launches_.empty()) return;
    Launch& launch = launches_.back();
    const double t = field(entry, "t", 0.0) * kNanoseconds;
    take_time(t, launch);
    if (entry.contains("takeover")) launch.takeovers.push_back(t);
    if (entry.contains("launcher")) launch.launcher_losses.push_back(t);
    if (entry.contains("rejoined")) ++launch.rejoins;
    take_event(field(entry, "event", Json()), t, launch);
    for (const Json& action : list_field(entry, "actions")) take_action(action, t, launch);
  }

  void take_time(double t, Launch& launch) { launch.seconds = std::max(launch.seconds, t); }

  void take_report(const Json& entry, Launch& launch) {
    const Json report = field(entry, "event", Json());
    const double step_seconds = field(report, "step_seconds", 0.0);
    if (step_seconds <= 0) return;
    launch.first_report = {field(entry, "t", 0.0) * kNanoseconds, field(report, "learner", -1),
                           step_seconds};
  }

  void take_event(const Json& event, double t, Launch& launch) {
    if (field<std::string>(event, "type", "") == "island_lost") {
      leave(event, t, Cause::died, launch);
    }
  }

  void take_action(const Json& action, double t, Launch& launch) {
    const auto type = field<std::string>(action, "type", "");
    if (type == "assign") {
      learner_of_[field(action, "island", -1)] = field(action, "learner", -1);
    } else if (type == "expel") {
      leave(action, t, Cause::expelled, launch);
    } else if (type == "retire") {
      leave(action, t, Cause::retired, launch);
    } else if (type == "finish") {
      launch.ending = field<std::string>(action, "outcome", "ended") + ": " +
                      field<std::string>(action, "reason", "for an unknown reason");
    }
  }

  // A spare's death is no learner's, and one after the end of training is no loss.
  void leave(const Json& what, double t, Cause cause, Launch& launch) {
    if (!launch.ending.empty()) return;
    const auto found = learner_of_.find(field(what, "island", -1));
    if (found == learner_of_.end()) return;
    launch.departures.push_back({t, found->second, cause, field<std::string>(what, "reason", "")});
    learner_of_.erase(found);
  }

  std::vector<Launch> launches_;
  std::map<int, int> learner_of_;  // of an island
};

}  // namespace

std::vector<Launch> read_tape(const std::filesystem::path& file) {
  TapeReader reader;
  auto lines = open_to_read(file);
  for (std::string line; lines && std::getline(*lines, line);) reader.take(line);
  return reader.finish();
}

}  // namespace archipelago::report
