#include "config/hint.h"

#include <array>
#include <cmath>
#include <sstream>

namespace archipelago::config {
namespace {

// As measured in docs/quality.md: what is best up to so many merges of each fragment.
struct Measured {
  double merges;
  double too_high;  // outer momentum
  double better;
};
constexpr std::array kMeasured = {Measured{100, 0.65, 0.5}, Measured{500, 0.85, 0.7}};

bool has_outer_step(const std::string& method) {
  return method == "decoupled" || method == "diloco" || method == "streaming-diloco";
}

}  // namespace

std::optional<std::string> outer_momentum_hint(const RunConfig& config) {
  if (!has_outer_step(config.method)) return std::nullopt;
  const double merges = static_cast<double>(config.train.steps) / config.sync.interval;
  for (const Measured& measured : kMeasured) {
    if (merges >= measured.merges) continue;
    if (config.sync.outer_momentum < measured.too_high) return std::nullopt;
    std::ostringstream hint;
    hint << "each fragment will be merged about " << std::llround(merges)
         << " times; a sync.outer_momentum of " << measured.better
         << " has trained better in such short runs than one of " << config.sync.outer_momentum;
    return hint.str();
  }
  return std::nullopt;
}

}  // namespace archipelago::config
