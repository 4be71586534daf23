#include "chart/timeline.h"

#include <algorithm>
#include <sstream>

#include "chart/panel.h"
#include "chart/svg.h"

namespace archipelago::chart {
namespace {

constexpr double kRow = 18;
constexpr double kBar = 12;
constexpr double kLeast = 1;  // width of the shortest span
constexpr double kCross = 3.5;
constexpr int kTicks = 8;

std::string titled(const std::string& shape, const std::string& label) {
  std::ostringstream out;
  out << "<g><title>" << escape(label) << "</title>" << shape << "</g>\n";
  return out.str();
}

std::string bar(const Span& span, double left, double right, double top) {
  std::ostringstream out;
  out << "<rect x=\"" << left << "\" y=\"" << top << "\" width=\"" << std::max(right - left, kLeast)
      << "\" height=\"" << kBar << "\" fill=\"" << colour(span.colour) << "\"/>";
  return titled(out.str(), span.label);
}

std::string cross(const Moment& moment, double x, double y) {
  std::ostringstream out;
  out << "<path d=\"M" << x - kCross << " " << y - kCross << "L" << x + kCross << " " << y + kCross
      << "M" << x - kCross << " " << y + kCross << "L" << x + kCross << " " << y - kCross
      << "\" stroke=\"#000\" stroke-width=\"1.5\"/>";
  return titled(out.str(), moment.label);
}

}  // namespace

double height_of(const Timeline& timeline) {
  return kTop + kRow * static_cast<double>(timeline.rows.size()) + kBottom;
}

std::string draw(const Timeline& timeline, double width) {
  const auto x = [&](double value) {
    return kLeft + timeline.across.share(value) * (width - kLeft - kRight);
  };
  const double bottom = height_of(timeline) - kBottom;
  std::string out = text_at(kLeft, kTop - 12, "start", timeline.title) +
                    text_at(width - kRight, kTop - 12, "end", timeline.across_label);
  for (const double value : timeline.across.ticks(kTicks)) {
    out += line_between(x(value), kTop, x(value), bottom, "#ddd");
    out += text_at(x(value), bottom + 16, "middle", tick_label(value));
  }
  for (std::size_t i = 0; i < timeline.rows.size(); ++i) {
    const TimelineRow& row = timeline.rows[i];
    const double top = kTop + kRow * static_cast<double>(i) + (kRow - kBar) / 2;
    out += text_at(kLeft - 6, top + kBar - 2, "end", row.name);
    for (const Span& span : row.spans) out += bar(span, x(span.begin), x(span.end), top);
    for (const Moment& moment : row.moments) out += cross(moment, x(moment.at), top + kBar / 2);
  }
  return out;
}

}  // namespace archipelago::chart
