#include "report/charts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "report/json_field.h"

namespace archipelago::report {
namespace {

constexpr int kMostLearners = 32;  // that get lines of their own
constexpr std::size_t kMostBins = 60;
constexpr std::size_t kRowsOfBin = 4;  // that a stretch has on average, or more
constexpr int kAcrossTicks = 6;
constexpr double kMillion = 1e6;

bool by_learner(std::span<const History> runs) {
  return runs.size() == 1 && runs.front().learners <= kMostLearners;
}

// The stretch of `count` of this width that x lies in.
std::size_t bin_of(double x, double width, std::size_t count) {
  const double place = width > 0 ? x / width : 0;
  return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(count - 1)));
}

struct Sample {
  double x;
  double value;
  double weight = 1;
};

// The weighted mean of each stretch of many between 0 and `end`; no number where there is no
// sample.
std::vector<chart::Point> means(const std::vector<Sample>& samples, double end) {
  if (samples.empty()) return {};
  const std::size_t count = std::clamp<std::size_t>(samples.size() / kRowsOfBin, 1, kMostBins);
  const double width = end / static_cast<double>(count);
  std::vector<double> sums(count), weights(count);
  for (const Sample& sample : samples) {
    const std::size_t bin = bin_of(sample.x, width, count);
    sums[bin] += sample.weight * sample.value;
    weights[bin] += sample.weight;
  }
  std::vector<chart::Point> points;
  for (std::size_t i = 0; i < count; ++i) {
    const double mean =
        weights[i] > 0 ? sums[i] / weights[i] : std::numeric_limits<double>::quiet_NaN();
    points.push_back({(static_cast<double>(i) + 0.5) * width, mean});
  }
  return points;
}

// What a step tells; nothing, or no number, where it does not.
using StepNumber = std::function<std::optional<double>(const Step&)>;
using StepValue = std::function<std::optional<Sample>(const Step&)>;
using RoundValue = std::function<double(const Round&)>;

std::vector<Sample> samples_of(const History& run, const StepValue& value,
                               std::optional<int> learner) {
  std::vector<Sample> samples;
  for (const Step& step : run.steps) {
    if (learner && step.learner != *learner) continue;
    const auto sample = value(step);
    if (sample && !std::isnan(sample->value)) samples.push_back(*sample);
  }
  return samples;
}

double end_of(const History& run, bool over_tokens) {
  if (!over_tokens) return run.seconds;
  double end = 0;
  for (const Step& step : run.steps) {
    end = std::max(end, static_cast<double>(step.run_tokens) / kMillion);
  }
  return end;
}

double end_of(std::span<const History> runs, bool over_tokens) {
  double end = 0;
  for (const History& run : runs) end = std::max(end, end_of(run, over_tokens));
  return end;
}

std::vector<chart::Line> step_lines(std::span<const History> runs, const StepValue& value,
                                    bool over_tokens) {
  std::vector<chart::Line> lines;
  const auto add = [&](const History& run, std::string name, std::optional<int> learner) {
    const auto samples = samples_of(run, value, learner);
    lines.push_back({std::move(name), means(samples, end_of(run, over_tokens)), lines.size()});
  };
  if (by_learner(runs)) {
    for (int learner = 0; learner < runs.front().learners; ++learner) {
      add(runs.front(), "learner " + std::to_string(learner), learner);
    }
    return lines;
  }
  for (const History& run : runs) add(run, name_of(run), std::nullopt);
  return lines;
}

std::vector<chart::Line> round_lines(std::span<const History> runs, const RoundValue& value) {
  std::vector<chart::Line> lines;
  for (const History& run : runs) {
    std::vector<Sample> samples;
    for (const Round& round : run.rounds) samples.push_back({round.t, value(round)});
    lines.push_back({name_of(run), means(samples, end_of(run, false)), lines.size()});
  }
  return lines;
}

// Adds what a step gained to the stretches between the row before and its own, to each its share.
void spread(const Step& step, double width, std::vector<double>& tokens) {
  const double length = step.since.value_or(step.seconds);
  if (length <= 0) return;
  const double begin = step.t - length;
  const std::size_t last = bin_of(step.t, width, tokens.size());
  for (std::size_t bin = bin_of(begin, width, tokens.size()); bin <= last; ++bin) {
    const double from = bin == 0 ? begin : std::max(begin, static_cast<double>(bin) * width);
    const double to = bin == last ? step.t : static_cast<double>(bin + 1) * width;
    tokens[bin] += static_cast<double>(step.gained) * (to - from) / length;
  }
}

// Tokens of all learners together in each stretch of time, by its length.
std::vector<chart::Line> speed_lines(std::span<const History> runs) {
  std::vector<chart::Line> lines;
  for (const History& run : runs) {
    const std::size_t count = std::clamp<std::size_t>(run.steps.size() / kRowsOfBin, 1, kMostBins);
    const double width = run.seconds / static_cast<double>(count);
    std::vector<double> tokens(count);
    for (const Step& step : run.steps) spread(step, width, tokens);
    chart::Line line{name_of(run), {}, lines.size()};
    for (std::size_t i = 0; i < count && width > 0; ++i) {
      line.points.push_back({(static_cast<double>(i) + 0.5) * width, tokens[i] / width});
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// At the end of a run the summary's.
std::vector<chart::Line> validation_lines(std::span<const History> runs) {
  std::vector<chart::Line> lines;
  for (const History& run : runs) {
    chart::Line line{name_of(run), {}, lines.size()};
    for (const Validation& validation : run.validations) {
      line.points.push_back(
          {static_cast<double>(validation.run_tokens) / kMillion, validation.loss});
    }
    const double last = field(run.summary, "final_val_loss", 0.0);
    if (last > 0 && !line.points.empty()) {
      line.points.push_back({field(run.summary, "tokens", 0.0) / kMillion, last});
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

bool has_points(const std::vector<chart::Line>& lines) {
  return std::ranges::any_of(lines, [](const auto& line) { return !line.points.empty(); });
}

double highest(const std::vector<chart::Line>& lines) {
  double high = std::numeric_limits<double>::lowest();
  for (const chart::Line& line : lines) {
    for (const chart::Point& point : line.points) {
      if (!std::isnan(point.y)) high = std::max(high, point.y);
    }
  }
  return high;
}

enum class Up { from_zero, settled };

class Panels {
 public:
  explicit Panels(std::span<const History> runs)
      : seconds_(end_of(runs, false)), tokens_(end_of(runs, true)) {}

  void add(std::string title, std::vector<chart::Line> lines, Up up_from,
           bool over_tokens = false) {
    if (!has_points(lines)) return;
    const chart::Axis up =
        up_from == Up::from_zero ? chart::up_from_zero(lines) : chart::up_settled(lines);
    if (const double high = highest(lines); high > up.high) {
      title += " (from " + chart::short_number(high) + ")";
    }
    chart::Panel panel{.title = std::move(title),
                       .across_label = over_tokens ? "million tokens" : "seconds",
                       .across = {0, over_tokens ? tokens_ : seconds_},
                       .up = up,
                       .across_ticks = {},
                       .lines = std::move(lines)};
    panel.across_ticks = panel.across.ticks(kAcrossTicks);
    panels_.push_back(std::move(panel));
  }

  std::vector<chart::Panel> take() { return std::move(panels_); }

 private:
  double seconds_;
  double tokens_;
  std::vector<chart::Panel> panels_;
};

StepValue over(std::function<double(const Step&)> place, StepNumber number) {
  return [place = std::move(place),
          number = std::move(number)](const Step& step) -> std::optional<Sample> {
    const auto value = number(step);
    if (!value) return std::nullopt;
    return Sample{place(step), *value};
  };
}

StepValue over_time(StepNumber number) {
  return over([](const Step& step) { return step.t; }, std::move(number));
}

StepValue over_tokens(StepNumber number) {
  return over([](const Step& step) { return static_cast<double>(step.run_tokens) / kMillion; },
              std::move(number));
}

// A life ends with its launch, or with another incarnation.
void add_lives(const History& run, std::vector<chart::TimelineRow>& rows) {
  std::vector<int> incarnation(rows.size(), -1);
  for (const Step& step : run.steps) {
    const auto learner = static_cast<std::size_t>(step.learner);
    auto& spans = rows[learner].spans;
    const bool same = std::exchange(incarnation[learner], step.incarnation) == step.incarnation;
    if (!same || !step.since) {
      spans.push_back({std::max(0.0, step.t - step.seconds), step.t,
                       "learner " + std::to_string(step.learner) + ", incarnation " +
                           std::to_string(step.incarnation)});
    }
    spans.back().end = step.t;
  }
}

std::string told(const Departure& departure) {
  std::ostringstream out;
  out << (departure.cause == Cause::died       ? "died"
          : departure.cause == Cause::expelled ? "was expelled"
                                               : "retired")
      << " at " << chart::short_number(departure.t) << " s";
  if (!departure.reason.empty()) out << ": " << departure.reason;
  return out.str();
}

// At the end of the life that it ended, which may be long before it was noticed; a life without a
// step has none.
void add_departure(const Departure& departure, chart::TimelineRow& row) {
  const chart::Sign sign = departure.cause == Cause::died       ? chart::Sign::cross
                           : departure.cause == Cause::expelled ? chart::Sign::ring
                                                                : chart::Sign::bar;
  double at = departure.t;
  for (const chart::Span& span : row.spans) {
    if (span.begin <= departure.t) at = span.end;
  }
  if (!row.moments.empty() && row.moments.back().at == at) at = departure.t;
  row.moments.push_back({at, told(departure), sign});
}

}  // namespace

std::string name_of(const History& run) {
  const auto& folder = run.folder;
  const auto name = folder.filename().empty() ? folder.parent_path().filename() : folder.filename();
  return name.empty() ? folder.string() : name.string();
}

Legend legend_of(std::span<const History> runs) {
  Legend legend;
  if (by_learner(runs)) {
    for (int i = 0; i < runs.front().learners; ++i) {
      legend.names.push_back("learner " + std::to_string(i));
    }
  } else {
    for (const History& run : runs) legend.names.push_back(name_of(run));
  }
  return legend;
}

std::vector<chart::Panel> panels_of(std::span<const History> runs) {
  Panels panels(runs);
  const auto loss = [](const Step& step) { return step.loss; };
  const StepValue waited = [](const Step& step) -> std::optional<Sample> {
    if (!step.since || *step.since <= 0) return std::nullopt;
    return Sample{step.t, 100 * std::min(step.blocked_seconds / *step.since, 1.0), *step.since};
  };
  const auto accuracy = [](const Step& step) -> std::optional<double> {
    if (!step.accuracy) return std::nullopt;
    return 100 * *step.accuracy;
  };
  const StepValue watts = [](const Step& step) -> std::optional<Sample> {
    if (!step.joules || !step.since || *step.since <= 0) return std::nullopt;
    return Sample{step.t, *step.joules / *step.since, *step.since};
  };
  panels.add("training loss", step_lines(runs, over_tokens(loss), true), Up::settled, true);
  panels.add("validation loss", validation_lines(runs), Up::settled, true);
  panels.add("training loss", step_lines(runs, over_time(loss), false), Up::settled);
  panels.add("training accuracy, %", step_lines(runs, over_time(accuracy), false), Up::from_zero);
  panels.add(
      "gradient norm, before clipping",
      step_lines(runs, over_tokens([](const Step& step) { return step.gradient_norm; }), true),
      Up::settled, true);
  panels.add(
      "learning rate",
      step_lines(runs, over_tokens([](const Step& step) { return step.learning_rate; }), true),
      Up::from_zero, true);
  panels.add("tokens a second, all learners", speed_lines(runs), Up::from_zero);
  panels.add("seconds a step",
             step_lines(runs, over_time([](const Step& step) { return step.seconds; }), false),
             Up::from_zero);
  panels.add("time that learners waited, %", step_lines(runs, waited, false), Up::from_zero);
  panels.add(
      "learners in a merge",
      round_lines(runs, [](const Round& round) { return static_cast<double>(round.contributors); }),
      Up::from_zero);
  panels.add("seconds a round was open",
             round_lines(runs, [](const Round& round) { return round.wait_seconds; }),
             Up::from_zero);
  panels.add("watts of a learner", step_lines(runs, watts, false), Up::from_zero);
  return panels.take();
}

chart::Timeline timeline_of(const History& run) {
  chart::Timeline timeline{.title =
                               "lives of the learners (cross: died, ring: expelled, bar: retired; "
                               "dashed: another launch or syncer)",
                           .across_label = "seconds",
                           .across = {0, run.seconds},
                           .rows = {}};
  for (int i = 0; i < run.learners; ++i) timeline.rows.push_back({std::to_string(i), {}, {}});
  add_lives(run, timeline.rows);
  for (const Departure& departure : run.departures) {
    if (departure.learner < 0 || departure.learner >= run.learners) continue;
    add_departure(departure, timeline.rows[static_cast<std::size_t>(departure.learner)]);
  }
  for (const Event& event : run.events) {
    timeline.lines.push_back({event.t, event.what + " at " + chart::short_number(event.t) + " s"});
  }
  return timeline;
}

}  // namespace archipelago::report
