#include <nlohmann/json.hpp>
#include <sstream>

#include "replay/replay.h"

namespace archipelago::replay {
namespace {

void add_theta(const Replayed& r, std::ostringstream& out) {
  if (r.merges > 0 || r.recomputed > 0) {
    out << "Theta made again by " << r.merges << " merges of " << r.contributions
        << " contributions: the same bits at " << r.recomputed << " of " << r.snapshots
        << " snapshots\n";
  }
  if (!r.theta_unknown.empty()) {
    out << "Theta was not made again" << (r.merges > 0 ? " from there on" : "") << ": "
        << r.theta_unknown << "\n";
  }
  if (r.checkpoints > 0) {
    out << r.checkpoints << " checkpoint files hold the Theta of their snapshots\n";
  }
}

}  // namespace

std::string replayed_text(const Replayed& r) {
  std::ostringstream out;
  out << r.entries << " events gave the same " << r.decisions << " decisions again (started "
      << r.starts << (r.starts == 1 ? " time" : " times");
  if (r.takeovers > 0) {
    out << ", taken over by a standby " << r.takeovers << (r.takeovers == 1 ? " time" : " times")
        << ", " << r.superseded << " events unknown to it";
  }
  out << ")\n";
  add_theta(r, out);
  for (const std::int64_t line : r.cuts) out << "line " << line << " is cut off by a crash\n";
  if (!r.difference.empty()) return out.str();
  out << (r.end.empty() ? "the tape ends before the run did" : "the run's end: " + r.end) << "\n";
  return out.str();
}

std::string replayed_json(const Replayed& r) {
  const nlohmann::ordered_json json = {{"same", r.difference.empty()},
                                       {"difference", r.difference},
                                       {"entries", r.entries},
                                       {"decisions", r.decisions},
                                       {"starts", r.starts},
                                       {"takeovers", r.takeovers},
                                       {"superseded", r.superseded},
                                       {"merges", r.merges},
                                       {"contributions", r.contributions},
                                       {"snapshots", r.snapshots},
                                       {"recomputed", r.recomputed},
                                       {"checkpoints", r.checkpoints},
                                       {"theta_unknown", r.theta_unknown},
                                       {"cuts", r.cuts},
                                       {"end", r.end}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace archipelago::replay
