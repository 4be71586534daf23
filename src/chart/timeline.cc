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
constexpr double kSign = 3.5;
constexpr int kTicks = 8;
constexpr const char* kTones[] = {"#8a98a8", "#c4cdd6"};

std::string titled(const std::string& shape, const std::string& label) {
  std::ostringstream out;
  out << "<g><title>" << escape(label) << "</title>" << shape << "</g>\n";
  return out.str();
}

std::string bar(const Span& span, const char* tone, double left, double right, double top) {
  std::ostringstream out;
  out << "<rect x=\"" << left << "\" y=\"" << top << "\" width=\"" << std::max(right - left, kLeast)
      << "\" height=\"" << kBar << "\" fill=\"" << tone << "\"/>";
  return titled(out.str(), span.label);
}

std::string signed_moment(const Moment& moment, double x, double y) {
  std::ostringstream out;
  switch (moment.sign) {
    case Sign::cross:
      out << "<path d=\"M" << x - kSign << " " << y - kSign << "L" << x + kSign << " " << y + kSign
          << "M" << x - kSign << " " << y + kSign << "L" << x + kSign << " " << y - kSign
          << "\" stroke=\"#c00\" stroke-width=\"2\"/>";
      break;
    case Sign::ring:
      out << "<circle cx=\"" << x << "\" cy=\"" << y << "\" r=\"" << kSign
          << "\" fill=\"#fff\" stroke=\"#c00\" stroke-width=\"2\"/>";
      break;
    case Sign::bar:
      out << "<path d=\"M" << x << " " << y - kRow / 2 << "L" << x << " " << y + kRow / 2
          << "\" stroke=\"#000\" stroke-width=\"3\"/>";
      break;
  }
  return titled(out.str(), moment.label);
}

std::string whole_line(const Moment& moment, double x, double bottom) {
  std::ostringstream out;
  out << "<path d=\"M" << x << " " << kTop << "L" << x << " " << bottom
      << "\" stroke=\"#000\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\"/>";
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
  std::string out =
      text_at(kLeft, kTop - 12, "start", timeline.title) +
      text_at((kLeft + width - kRight) / 2, bottom + kLabelLine, "middle", timeline.across_label);
  for (const double value : timeline.across.ticks(kTicks)) {
    out += line_between(x(value), kTop, x(value), bottom, "#ddd");
    out += text_at(x(value), bottom + kTickLine, "middle", tick_label(value));
  }
  for (std::size_t i = 0; i < timeline.rows.size(); ++i) {
    const TimelineRow& row = timeline.rows[i];
    const double top = kTop + kRow * static_cast<double>(i) + (kRow - kBar) / 2;
    out += text_at(kLeft - 6, top + kBar - 2, "end", row.name);
    for (std::size_t j = 0; j < row.spans.size(); ++j) {
      const Span& span = row.spans[j];
      out += bar(span, kTones[j % std::size(kTones)], x(span.begin), x(span.end), top);
    }
    for (const Moment& moment : row.moments) {
      out += signed_moment(moment, x(moment.at), top + kBar / 2);
    }
  }
  for (const Moment& moment : timeline.lines) out += whole_line(moment, x(moment.at), bottom);
  return out;
}

}  // namespace archipelago::chart
