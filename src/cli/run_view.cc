#include "cli/run_view.h"

#include <cstdint>
#include <iomanip>
#include <sstream>

#include "report/json_field.h"

namespace archipelago::cli {
namespace {

using Json = nlohmann::json;
using report::field;

constexpr double kMinute = 60;
constexpr double kHour = 3600;

std::string duration(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(0);
  if (seconds < 2 * kMinute) {
    out << seconds << " s";
  } else if (seconds < 2 * kHour) {
    out << seconds / kMinute << " min";
  } else {
    out << std::setprecision(1) << seconds / kHour << " h";
  }
  return out.str();
}

std::string headline(const LiveRun& run, const LiveRun::Reading& reading,
                     double tokens_per_second) {
  const Json& status = reading.status;
  const auto tokens = field<double>(status, "tokens", 0);
  const auto budget = field<double>(status, "token_budget", 0);
  std::ostringstream out;
  out << std::fixed << std::setprecision(0) << run.folder().string() << ": "
      << field<std::string>(status, "state", "unknown") << ", round "
      << field<std::int64_t>(status, "round", 0) << ", " << tokens << " of " << budget << " tokens";
  if (budget > 0) out << " (" << std::setprecision(1) << 100 * tokens / budget << " %)";
  out << std::setprecision(0);
  if (!reading.over() && tokens_per_second > 0) {
    out << ", " << tokens_per_second << " a second, "
        << duration((budget - tokens) / tokens_per_second) << " left";
  }
  out << "\n"
      << field<std::int64_t>(status, "losses", 0) << " learners lost, "
      << field<std::int64_t>(status, "rejoins", 0) << " rejoined";
  if (reading.silent()) out << "; nothing heard of it for " << reading.age.count() << " s";
  out << "\n";
  return out.str();
}

std::string learner_line(const Json& learner, const std::map<int, LastStep>& steps) {
  const int id = field(learner, "id", -1);
  std::ostringstream out;
  out << std::left << std::setw(8) << id << std::setw(9)
      << field<std::string>(learner, "state", "unknown") << std::right << std::setw(5)
      << field<std::int64_t>(learner, "incarnation", 0) << std::setw(9)
      << field<std::int64_t>(learner, "step", 0) << std::setw(14)
      << field<std::int64_t>(learner, "tokens", 0);
  const auto last = steps.find(id);
  if (last == steps.end()) {
    out << std::setw(10) << "-" << std::setw(9) << "-";
  } else {
    out << std::fixed << std::setprecision(3) << std::setw(10) << last->second.seconds
        << std::setprecision(4) << std::setw(9) << last->second.loss;
  }
  out << "  " << field<std::string>(learner, "host", "") << "\n";
  return out.str();
}

std::string syncer_line(const Json& status) {
  const auto syncer = field<Json>(status, "syncer", Json::object());
  std::ostringstream out;
  out << "syncer: " << field<std::string>(syncer, "host", "unknown") << ", process "
      << field<std::int64_t>(syncer, "pid", 0);
  if (const auto term = field<std::int64_t>(syncer, "term", 0); term > 0) {
    out << ", taken over " << term << (term == 1 ? " time" : " times");
  }
  const auto others = report::list_field(status, "other_syncers");
  if (!others.empty()) out << "; " << others.size() << " more";
  out << "\n";
  return out.str();
}

}  // namespace

std::map<int, LastStep> last_steps(std::string_view tail) {
  std::map<int, LastStep> steps;
  while (!tail.empty()) {
    const std::size_t end = tail.find('\n');
    const Json row = Json::parse(tail.substr(0, end), nullptr, false);
    tail.remove_prefix(end == tail.npos ? tail.size() : end + 1);
    if (!row.is_object() || !row.contains("learner") || !row.contains("loss")) continue;
    steps[field(row, "learner", -1)] = {field(row, "loss", 0.0), field(row, "step_s", 0.0)};
  }
  return steps;
}

std::string view_of(const LiveRun& run, const LiveRun::Reading& reading,
                    const std::map<int, LastStep>& steps, double tokens_per_second) {
  std::string out = headline(run, reading, tokens_per_second);
  out += "\nlearner state     life     step        tokens    s/step     loss  host\n";
  std::size_t spares = 0;
  for (const Json& learner : reading.status["learners"]) {
    if (field(learner, "id", -1) < 0) {
      ++spares;
    } else {
      out += learner_line(learner, steps);
    }
  }
  std::ostringstream end;
  end << "spares: " << spares << "\n" << syncer_line(reading.status);
  return out + end.str();
}

}  // namespace archipelago::cli
