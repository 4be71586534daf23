#include "cli/run_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <sstream>
#include <vector>

#include "chart/number.h"
#include "core/units.h"
#include "report/json_field.h"

namespace archipelago::cli {
namespace {

using Json = nlohmann::json;
using report::field;
using report::measured;
using Lines = std::vector<std::string>;

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

std::string counted(std::int64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// A learner's row of metrics.jsonl.
struct Row {
  explicit Row(const Json& row)
      : t(field(row, "t", 0.0)),
        incarnation(field(row, "incarnation", std::int64_t{0})),
        tokens(field(row, "tokens", 0.0)) {}

  bool follows(const Row& first) const { return incarnation == first.incarnation && t >= first.t; }
  double tokens_per_second(const Row& first) const {
    return t > first.t ? (tokens - first.tokens) / (t - first.t) : 0;
  }

  double t;
  std::int64_t incarnation;
  double tokens;
};

// Its times are virtual (docs/emulation.md).
bool is_emulated(const Json& status) { return status.contains("virtual_s"); }

bool plays(const Json& entry) { return field(entry, "id", -1) >= 0; }

bool is_active(const Json& entry) {
  return plays(entry) && field<std::string>(entry, "state", "") == "active";
}

std::string state_line(const LiveRun& run, const LiveRun::Reading& reading, const NewestRows& rows,
                       bool has_syncer) {
  const auto state = field<std::string>(reading.status, "state", "unknown");
  std::ostringstream out;
  out << run.folder().string() << ": ";
  if (reading.silent()) {
    out << "silent for " << duration(static_cast<double>(reading.age.count())) << " (was " << state
        << ")";
  } else {
    out << state;
    const bool emulated = is_emulated(reading.status);
    const double seconds = emulated ? field(reading.status, "virtual_s", 0.0) : rows.seconds;
    if (seconds > 0) out << (reading.over() ? " after " : " for ") << duration(seconds);
    if (emulated) out << " of virtual time";
  }
  const auto round = field<std::int64_t>(reading.status, "round", 0);
  if (has_syncer || round > 0) out << ", round " << round;
  return out.str();
}

std::string tokens_line(const LiveRun::Reading& reading, const NewestRows& rows) {
  const auto tokens = field<double>(reading.status, "tokens", 0);
  const auto budget = field<double>(reading.status, "token_budget", 0);
  std::ostringstream out;
  out << std::fixed << std::setprecision(0) << tokens << " of " << budget << " tokens";
  if (budget > 0) out << " (" << std::setprecision(1) << 100 * tokens / budget << " %)";
  double speed = 0;
  for (const Json& entry : report::list_field(reading.status, "learners")) {
    const auto row = rows.learners.find(field(entry, "id", -1));
    if (is_active(entry) && row != rows.learners.end()) speed += row->second.tokens_per_second;
  }
  if (!reading.over() && !reading.silent() && speed > 0) {
    out << std::setprecision(0) << ", " << speed
        << (is_emulated(reading.status) ? " a virtual second, " : " a second, ")
        << duration(std::max(budget - tokens, 0.0) / speed) << " left";
  }
  return out.str();
}

std::string learners_line(const LiveRun::Reading& reading) {
  const auto entries = report::list_field(reading.status, "learners");
  std::ostringstream out;
  if (!reading.over()) {
    const auto wanted = field<std::int64_t>(reading.status, "learners_wanted",
                                            std::ranges::count_if(entries, plays));
    out << std::ranges::count_if(entries, is_active) << " of "
        << counted(wanted, "learner", "learners") << " active, ";
  }
  out << counted(field<std::int64_t>(reading.status, "losses", 0), "learner", "learners")
      << " lost, " << field<std::int64_t>(reading.status, "rejoins", 0) << " rejoined";
  return out.str();
}

// At the right of a column, which is a blank wider than numbers are as a rule.
std::string in_column(std::size_t width, const std::string& text) {
  return std::string(width - std::min(text.size(), width), ' ') + text;
}

std::string short_text(std::optional<double> value) {
  return value ? chart::short_number(*value) : "-";
}

std::string seconds_of_step(double seconds) {
  constexpr double kLarge = 1e5;
  return seconds < kLarge ? fixed_text(seconds, 3) : chart::short_number(seconds);
}

// Whether the columns of learning rate and gradient norm are there.
enum class Columns { few, all };

std::string heading(Columns columns) {
  std::string line = "learner state     life     step        tokens    s/step     loss";
  if (columns == Columns::all) line += "        lr grad norm";
  return line + "  host, processes";
}

std::string learner_line(const Json& learner, const NewestRows& rows, Columns columns) {
  const int id = field(learner, "id", -1);
  std::ostringstream out;
  out << std::left << std::setw(8) << id << std::setw(9)
      << field<std::string>(learner, "state", "unknown") << std::right << std::setw(5)
      << field<std::int64_t>(learner, "incarnation", 0) << std::setw(9)
      << field<std::int64_t>(learner, "step", 0) << std::setw(14)
      << field<std::int64_t>(learner, "tokens", 0);
  const auto row = rows.learners.find(id);
  const bool known = row != rows.learners.end();
  out << in_column(10, known ? seconds_of_step(row->second.step_seconds) : "-")
      << in_column(9, !known                         ? "-"
                      : std::isnan(row->second.loss) ? "nan"
                                                     : loss_text(row->second.loss));
  if (columns == Columns::all) {
    out << in_column(10, known ? short_text(row->second.learning_rate) : "-")
        << in_column(10, known ? short_text(row->second.gradient_norm) : "-");
  }
  out << "  " << field<std::string>(learner, "host", "");
  for (const Json& pid : report::list_field(learner, "pids")) out << " " << pid.dump();
  return out.str();
}

Lines learner_lines(const Json& entries, const NewestRows& rows, Columns columns) {
  Lines lines;
  for (const Json& entry : entries) {
    if (plays(entry)) lines.push_back(learner_line(entry, rows, columns));
  }
  return lines;
}

// All where a learner tells what they hold and the lines are long enough.
Columns columns_for(const Json& entries, const NewestRows& rows, std::size_t length) {
  const bool told = std::ranges::any_of(rows.learners, [](const auto& entry) {
    return entry.second.learning_rate || entry.second.gradient_norm;
  });
  if (!told || heading(Columns::all).size() > length) return Columns::few;
  const Lines lines = learner_lines(entries, rows, Columns::all);
  return std::ranges::all_of(lines, [&](const auto& line) { return line.size() <= length; })
             ? Columns::all
             : Columns::few;
}

std::string syncer_line(const Json& status, bool has_syncer) {
  const auto syncer = field<Json>(status, "syncer", Json::object());
  std::ostringstream out;
  out << (is_emulated(status) ? "emulated by: "
          : has_syncer        ? "syncer: "
                              : "recorded by: ")
      << field<std::string>(syncer, "host", "unknown") << ", process "
      << field<std::int64_t>(syncer, "pid", 0);
  if (const auto term = field<std::int64_t>(syncer, "term", 0); term > 0) {
    out << ", taken over " << counted(term, "time", "times");
  }
  const auto others = report::list_field(status, "other_syncers");
  if (!others.empty()) out << "; " << others.size() << " more";
  return out.str();
}

// At most `columns` bytes, without a part of a UTF-8 character at the end.
std::string cut(const std::string& line, std::size_t columns) {
  if (line.size() <= columns) return line;
  std::size_t end = columns;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;
  return line.substr(0, end);
}

// Leaves out learners that find no room, and then whatever else.
Lines fitted(const Lines& head, Lines learners, const Lines& foot, Size size) {
  const std::size_t lines = size.lines > 1 ? size.lines - 1 : 1;  // the cursor's is left free
  const std::size_t others = head.size() + foot.size();
  if (others + learners.size() > lines) {
    const std::size_t room = lines > others + 1 ? lines - others - 1 : 0;
    const std::size_t left_out = learners.size() - std::min(room, learners.size());
    learners.resize(learners.size() - left_out);
    if (left_out > 0) learners.push_back("... and " + std::to_string(left_out) + " more");
  }
  Lines all = head;
  all.insert(all.end(), learners.begin(), learners.end());
  all.insert(all.end(), foot.begin(), foot.end());
  all.resize(std::min(all.size(), lines));
  for (std::string& line : all) line = cut(line, size.columns);
  return all;
}

}  // namespace

NewestRows newest_rows(std::string_view tail) {
  NewestRows newest;
  std::map<int, Row> first;
  while (!tail.empty()) {
    const std::size_t end = tail.find('\n');
    const Json object = Json::parse(tail.substr(0, end), nullptr, false);
    tail.remove_prefix(end == tail.npos ? tail.size() : end + 1);
    if (!object.is_object() || !object.contains("learner") || !object.contains("loss")) continue;
    const int learner = field(object, "learner", -1);
    const Row row(object);
    const auto [place, fresh] = first.emplace(learner, row);
    if (!row.follows(place->second)) place->second = row;
    newest.learners[learner] = {field(object, "loss", std::numeric_limits<double>::quiet_NaN()),
                                field(object, "step_s", 0.0), row.tokens_per_second(place->second),
                                measured(object, "lr"), measured(object, "grad_norm")};
    newest.seconds = row.t;
  }
  return newest;
}

std::string view_of(const LiveRun& run, const LiveRun::Reading& reading, const NewestRows& rows,
                    bool has_syncer, std::optional<Size> size) {
  constexpr auto kAny = static_cast<std::size_t>(-1);
  const Size room = size.value_or(Size{kAny, kAny});
  const auto entries = report::list_field(reading.status, "learners");
  const Columns columns = columns_for(entries, rows, room.columns);
  const Lines head = {state_line(run, reading, rows, has_syncer), tokens_line(reading, rows),
                      learners_line(reading), "", heading(columns)};
  const Lines learners = learner_lines(entries, rows, columns);
  Lines foot;
  if (has_syncer && !reading.over()) {
    std::ostringstream spares;
    spares << "spares: " << entries.size() - learners.size();
    foot.push_back(spares.str());
  }
  foot.push_back(syncer_line(reading.status, has_syncer));
  std::string out;
  for (const std::string& line : fitted(head, learners, foot, room)) {
    out += line;
    out += '\n';
  }
  return out;
}

}  // namespace archipelago::cli
