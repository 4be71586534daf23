#include "report/figures.h"

#include <algorithm>
#include <functional>
#include <iomanip>
#include <optional>
#include <sstream>

#include "chart/number.h"
#include "core/units.h"
#include "report/json_field.h"

namespace archipelago::report {
namespace {

using Json = nlohmann::json;

constexpr const char* kNone = "–";
constexpr double kMebibyte = 1024.0 * 1024;

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

// 1234567 as 1,234,567.
std::string grouped(double value) {
  std::string digits = fixed(value, 0);
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), 1, ',');
  }
  return digits;
}

// A figure of summary.json, or a dash.
std::string figure(const History& run, const char* key,
                   const std::function<std::string(double)>& format) {
  if (!run.summary.is_object() || !run.summary.contains(key)) return kNone;
  const Json& value = run.summary[key];
  if (value.is_number()) return format(value.get<double>());
  return value.is_string() ? value.get<std::string>() : kNone;
}

std::string outcome(const History& run) {
  if (!run.summary.is_object()) {
    const auto state = field<std::string>(run.status, "state", "");
    return state.empty() ? "not ended" : state + ", not ended";
  }
  const auto word = field<std::string>(run.summary, "outcome", "");
  const auto reason = field<std::string>(run.summary, "reason", "ended");
  return word.empty() ? reason : word + ": " + reason;
}

// A count that summary.json and, while the run goes on, status.json hold.
std::optional<double> counted(const History& run, const char* key) {
  for (const Json* source : {&run.summary, &run.status}) {
    const double value = field(*source, key, -1.0);
    if (value >= 0) return value;
  }
  return std::nullopt;
}

std::string tokens(const History& run) {
  const auto trained = static_cast<double>(run.steps.back().run_tokens);
  return grouped(counted(run, "tokens").value_or(trained));
}

std::string rounds(const History& run) {
  const auto closed = counted(run, "rounds") ? counted(run, "rounds") : counted(run, "round");
  if (!closed || (*closed == 0 && !has_syncer(run.settings))) return kNone;
  return grouped(*closed);
}

// The summary's and the status's are of the last launch.
std::string of_all_launches(const History& run, const char* key, std::size_t on_tape) {
  const auto count = static_cast<double>(on_tape);
  return grouped(run.launches > 1 ? count : counted(run, key).value_or(count));
}

std::size_t losses(const History& run) {
  return static_cast<std::size_t>(std::ranges::count_if(
      run.departures, [](const auto& departure) { return departure.cause != Cause::retired; }));
}

std::string median_rejoin(const History& run) {
  std::vector<double> seconds;
  for (const Json& value : list_field(run.summary, "rejoin_s")) {
    if (value.is_number()) seconds.push_back(value.get<double>());
  }
  if (seconds.empty()) return kNone;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return fixed(*middle, 2);
}

struct Figure {
  const char* name;
  std::function<std::string(const History&)> value;
};

Figure of_summary(const char* name, const char* key, std::function<std::string(double)> format) {
  return {name, [=](const History& run) { return figure(run, key, format); }};
}

std::string percent(double share) { return fixed(100 * share, 2) + " %"; }
std::string hundredths(double value) { return fixed(value, 2); }
std::string mebibytes(double bytes) {
  const double value = bytes / kMebibyte;
  return value < 10 ? fixed(value, 2) : grouped(value);
}

std::vector<Figure> figures_of_run() {
  return {
      {"outcome", outcome},
      {"learners", [](const History& run) { return std::to_string(run.learners); }},
      {"launches that trained", [](const History& run) { return std::to_string(run.launches); }},
      {"seconds", [](const History& run) { return fixed(run.seconds, 0); }},
      {"tokens", tokens},
      {"rounds", rounds},
      of_summary("validation loss", "final_val_loss", loss_text),
      of_summary("validation accuracy", "final_val_accuracy", percent),
      of_summary("training loss at the end", "final_train_loss", loss_text),
      {"learners lost",
       [](const History& run) { return of_all_launches(run, "losses", losses(run)); }},
      {"rejoined",
       [](const History& run) {
         return of_all_launches(run, "rejoins", static_cast<std::size_t>(run.rejoins));
       }},
  };
}

std::vector<Figure> figures_of_launch() {
  return {
      of_summary("goodput", "goodput", percent),
      {"seconds from a loss until the learner counts again, median", median_rejoin},
      of_summary("time that learners waited", "blocked_fraction", percent),
      of_summary("MiB that learners sent", "bytes_up", mebibytes),
      of_summary("MiB that learners received", "bytes_down", mebibytes),
      of_summary("work that was merged", "merged_share", percent),
      of_summary("learners a merge", "contributors", hundredths),
      of_summary("damaged fragments refused", "refused", grouped),
      of_summary("checkpoints that failed", "checkpoint_failures", grouped),
      of_summary("joules a token", "energy_per_token_j", chart::short_number),
  };
}

bool always(const Settings&) { return true; }
bool has_layers(const Settings& settings) { return setting(settings, "model.kind") != "linear"; }
bool reads_text(const Settings& settings) {
  return has_layers(settings) && setting(settings, "model.kind") != "vit";
}
bool has_experts(const Settings& settings) { return setting(settings, "model.kind") == "moe"; }
bool has_rounds(const Settings& settings) { return setting(settings, "method") != "data-parallel"; }
bool has_fragments(const Settings& settings) {
  return has_syncer(settings) || setting(settings, "method") == "streaming-diloco";
}

// An option, and whether the run's others leave it a meaning.
struct Shown {
  const char* option;
  const char* symbol;
  bool (*counts)(const Settings&);
};

constexpr Shown kShown[] = {
    {"method", "", always},
    {"model.kind", "", always},
    {"model.layers", "", has_layers},
    {"model.width", "", has_layers},
    {"model.heads", "", has_layers},
    {"model.context", "", reads_text},
    {"model.experts", "", has_experts},
    {"model.experts_per_token", "", has_experts},
    {"train.batch", "", always},
    {"train.steps", "", always},
    {"sync.learners", "M", always},
    {"sync.interval", "H", has_rounds},
    {"sync.fragments", "P", has_fragments},
    {"sync.overlap", "tau", has_fragments},
    {"sync.quorum", "K", has_syncer},
    {"wire.up", "", has_syncer},
    {"wire.down", "", has_syncer},
    {"data.path", "", always},
};

bool has_value(const Row& row) {
  return std::ranges::any_of(row.values, [](const auto& value) { return value != kNone; });
}

Group group_of(std::string title, const std::vector<Figure>& figures,
               std::span<const History> runs) {
  Group group{std::move(title), {}};
  for (const Figure& figure : figures) {
    Row row{figure.name, {}};
    for (const History& run : runs) row.values.push_back(figure.value(run));
    if (has_value(row)) group.rows.push_back(std::move(row));
  }
  return group;
}

Group settings_of(std::span<const History> runs) {
  Group group{"settings", {}};
  for (const Shown& shown : kShown) {
    Row row{shown.option, {}};
    if (*shown.symbol != 0) row.name += std::string(", ") + shown.symbol;
    for (const History& run : runs) {
      std::string value = setting(run.settings, shown.option);
      if (value.empty() || !shown.counts(run.settings)) value = kNone;
      row.differs = row.differs || (!row.values.empty() && value != row.values.front());
      row.values.push_back(std::move(value));
    }
    if (has_value(row)) group.rows.push_back(std::move(row));
  }
  return group;
}

}  // namespace

std::vector<Group> groups_of(std::span<const History> runs) {
  const bool several =
      std::ranges::any_of(runs, [](const History& run) { return run.launches > 1; });
  std::vector<Group> groups = {
      group_of("", figures_of_run(), runs),
      group_of(several ? "of the last launch" : "", figures_of_launch(), runs), settings_of(runs)};
  std::erase_if(groups, [](const Group& group) { return group.rows.empty(); });
  return groups;
}

}  // namespace archipelago::report
