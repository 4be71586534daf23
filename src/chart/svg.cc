#include "chart/svg.h"

#include <sstream>

#include "chart/panel.h"

namespace archipelago::chart {

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

const char* colour(std::size_t i) {
  static constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#3a7d44", "#8f5aa8",
                                             "#c98b1b", "#4d4d4d", "#2ca6a4", "#a05030"};
  return kColours[i % std::size(kColours)];
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  std::ostringstream out;
  out << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\">"
      << escape(text) << "</text>\n";
  return out.str();
}

std::string line_between(double x1, double y1, double x2, double y2, std::string_view stroke) {
  std::ostringstream out;
  out << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2
      << "\" stroke=\"" << stroke << "\"/>\n";
  return out.str();
}

}  // namespace archipelago::chart
