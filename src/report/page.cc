#include "report/page.h"

#include <sstream>

#include "chart/panel.h"
#include "chart/timeline.h"
#include "report/charts.h"
#include "report/figures.h"

namespace archipelago::report {
namespace {

constexpr double kTimelineWidth = 2 * chart::kWidth;
constexpr const char* kStyle =
    "body{font:14px sans-serif;color:#222;background:#fff;margin:24px;max-width:1180px}\n"
    "h1{font-size:20px}h2{font-size:15px;margin:28px 0 4px}\n"
    "table{border-collapse:collapse}td,th{padding:3px 14px 3px 0;text-align:right;"
    "border-bottom:1px solid #ddd}.group "
    "td{padding-top:14px;color:#666}.differs{font-weight:bold}td:first-child,th:first-child{text-"
    "align:left}\n"
    ".charts{display:flex;flex-wrap:wrap}svg{font:12px sans-serif}\n"
    ".legend span{margin-right:16px;white-space:nowrap}"
    ".legend i{display:inline-block;width:10px;height:10px;margin-right:5px}\n";

std::string cell(const char* tag, const std::string& text) {
  std::ostringstream out;
  out << "<" << tag << ">" << chart::escape(text) << "</" << tag << ">";
  return out.str();
}

std::string table_of(std::span<const History> runs) {
  std::ostringstream out;
  out << "<table>\n<tr><th></th>";
  for (const History& run : runs) out << cell("th", run.folder.string());
  out << "</tr>\n";
  for (const Group& group : groups_of(runs)) {
    if (!group.title.empty()) {
      out << "<tr class=\"group\"><td colspan=\"" << runs.size() + 1 << "\">"
          << chart::escape(group.title) << "</td></tr>\n";
    }
    for (const Row& row : group.rows) {
      out << (row.differs ? "<tr class=\"differs\">" : "<tr>") << cell("td", row.name);
      for (const std::string& value : row.values) out << cell("td", value);
      out << "</tr>\n";
    }
  }
  out << "</table>\n";
  return out.str();
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
  const std::string title =
      runs.size() == 1 ? name_of(runs.front()) : std::to_string(runs.size()) + " runs";
  std::ostringstream out;
  out << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<title>"
      << chart::escape(title) << "</title>\n<style>\n"
      << kStyle << "</style></head><body>\n<h1>archipelago: " << chart::escape(title) << "</h1>\n"
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
