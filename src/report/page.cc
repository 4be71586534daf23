#include "report/page.h"

#include <algorithm>
#include <functional>
#include <iomanip>
#include <sstream>

#include "chart/panel.h"
#include "chart/timeline.h"
#include "report/charts.h"
#include "report/json_field.h"

namespace archipelago::report {
namespace {

using Json = nlohmann::json;

constexpr double kTimelineWidth = 2 * chart::kWidth;
constexpr double kMebibyte = 1024.0 * 1024;

constexpr const char* kStyle =
    "body{font:14px sans-serif;color:#222;background:#fff;margin:24px;max-width:1180px}\n"
    "h1{font-size:20px}h2{font-size:15px;margin:28px 0 4px}\n"
    "table{border-collapse:collapse}td,th{padding:3px 14px 3px 0;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}\n"
    ".charts{display:flex;flex-wrap:wrap}svg{font:12px sans-serif}\n"
    ".legend span{margin-right:16px;white-space:nowrap}"
    ".legend i{display:inline-block;width:10px;height:10px;margin-right:5px}\n";

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
  if (!run.summary.is_object() || !run.summary.contains(key)) return "–";
  const Json& value = run.summary[key];
  if (value.is_number()) return format(value.get<double>());
  return value.is_string() ? value.get<std::string>() : "–";
}

std::string outcome(const History& run) {
  if (run.summary.is_object()) return field<std::string>(run.summary, "reason", "ended");
  if (run.status.is_object())
    return field<std::string>(run.status, "state", "unknown") + ", not ended";
  return "not ended";
}

std::string median_rejoin(const History& run) {
  std::vector<double> seconds;
  for (const Json& value : list_field(run.summary, "rejoin_s")) {
    if (value.is_number()) seconds.push_back(value.get<double>());
  }
  if (seconds.empty()) return "–";
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return fixed(*middle, 2);
}

struct Row {
  const char* name;
  std::function<std::string(const History&)> value;
};

Row of_summary(const char* name, const char* key, std::function<std::string(double)> format) {
  return {name, [=](const History& run) { return figure(run, key, format); }};
}

std::vector<Row> rows() {
  const auto count = [](double value) { return grouped(value); };
  const auto loss = [](double value) { return fixed(value, 4); };
  const auto percent = [](double value) { return fixed(100 * value, 2) + " %"; };
  const auto mebibytes = [](double value) { return grouped(value / kMebibyte); };
  return {
      {"outcome", outcome},
      {"learners", [](const History& run) { return std::to_string(run.learners); }},
      {"launches", [](const History& run) { return std::to_string(run.launches); }},
      {"seconds", [](const History& run) { return fixed(run.seconds, 0); }},
      {"tokens",
       [](const History& run) {
         return grouped(static_cast<double>(run.steps.back().run_tokens));
       }},
      of_summary("validation loss", "final_val_loss", loss),
      of_summary("validation accuracy", "final_val_accuracy", percent),
      of_summary("training loss at the end", "final_train_loss", loss),
      of_summary("goodput", "goodput", percent),
      of_summary("learners lost", "losses", count),
      of_summary("rejoined", "rejoins", count),
      {"seconds from a loss until the learner counts again, median", median_rejoin},
      of_summary("time that learners waited", "blocked_fraction", percent),
      of_summary("rounds", "rounds", count),
      of_summary("MiB that learners sent", "bytes_up", mebibytes),
      of_summary("MiB that learners received", "bytes_down", mebibytes),
      of_summary("damaged fragments refused", "refused", count),
      of_summary("checkpoints that failed", "checkpoint_failures", count),
      of_summary("joules a token", "energy_per_token_j",
                 [](double value) { return chart::short_number(value); }),
  };
}

std::string cell(const char* tag, const std::string& text) {
  std::ostringstream out;
  out << "<" << tag << ">" << chart::escape(text) << "</" << tag << ">";
  return out.str();
}

std::string table_of(std::span<const History> runs) {
  std::string out = "<table>\n<tr><th></th>";
  for (const History& run : runs) out += cell("th", run.folder.string());
  out += "</tr>\n";
  for (const Row& row : rows()) {
    std::vector<std::string> values;
    for (const History& run : runs) values.push_back(row.value(run));
    if (std::ranges::all_of(values, [](const auto& value) { return value == "–"; })) continue;
    out += "<tr>";
    out += cell("td", row.name);
    for (const std::string& value : values) out += cell("td", value);
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

std::string svg(double width, double height, const std::string& elements) {
  std::ostringstream out;
  out << "<svg width=\"" << width << "\" height=\"" << height << "\" viewBox=\"0 0 " << width << " "
      << height << "\">\n"
      << elements << "</svg>\n";
  return out.str();
}

std::string legend(std::span<const History> runs) {
  std::ostringstream out;
  out << "<p class=\"legend\">";
  const Legend shown = legend_of(runs);
  for (std::size_t i = 0; i < shown.names.size(); ++i) {
    out << "<span><i style=\"background:" << chart::colour(i) << "\"></i>"
        << chart::escape(shown.names[i]) << "</span>\n";
  }
  out << "</p>\n";
  return out.str();
}

}  // namespace

std::string page_of(std::span<const History> runs) {
  std::ostringstream out;
  out << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<title>archipelago</title>\n<style>\n"
      << kStyle << "</style></head><body>\n<h1>archipelago: "
      << (runs.size() == 1 ? chart::escape(runs.front().folder.string())
                           : std::to_string(runs.size()) + " runs")
      << "</h1>\n"
      << table_of(runs) << "<h2>Over time</h2>\n"
      << legend(runs) << "<div class=\"charts\">\n";
  for (const chart::Panel& panel : panels_of(runs)) {
    out << svg(chart::kWidth, chart::kHeight, chart::draw(panel));
  }
  out << "</div>\n";
  for (const History& run : runs) {
    const chart::Timeline timeline = timeline_of(run);
    out << "<h2>" << chart::escape(run.folder.string()) << "</h2>\n"
        << svg(kTimelineWidth, chart::height_of(timeline), chart::draw(timeline, kTimelineWidth));
  }
  out << "</body></html>\n";
  return out.str();
}

}  // namespace archipelago::report
