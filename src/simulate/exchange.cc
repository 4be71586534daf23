#include "simulate/exchange.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>

#include "simulate/distributions.h"

namespace archipelago::simulate {
namespace {

constexpr int kGridPoints = 50;

// One exchange of `gigabits` in equal buckets, the first at layer `first` and each `stride` layers
// on, in a step that begins at `begin`: backward goes through the layers from the last to the
// first. Returns when the link, free from `link_free` on, has sent all of it.
double send(const Exchange& x, double gigabits, int first, int stride, double begin,
            double link_free, double gbps) {
  const int layers = static_cast<int>(x.buckets);
  const int buckets = (layers - first + stride - 1) / stride;
  double free = link_free;
  for (int bucket = buckets - 1; bucket >= 0; --bucket) {
    const int behind = layers - (first + bucket * stride);  // layers that backward has done by then
    const double ready = begin + x.step_seconds * (1 + 2.0 * behind / layers) / 3;
    free = std::max(free, ready) + gigabits / buckets / gbps;
  }
  return free;
}

}  // namespace

double utilisation(const Exchange& x, double gbps) {
  const double factor = 2 * (1 - 1 / x.learners);
  const double model = x.parameters * x.bits * 1e-9;
  if (x.method == Method::decoupled) {
    return std::min(1.0, gbps * x.fragments * x.step_seconds / model);
  }
  const bool streaming = x.method == Method::streaming_diloco;
  const bool every_step = x.method == Method::data_parallel || x.method == Method::elastic;
  const double parts = streaming ? x.fragments : 1;
  const double period = every_step ? 1 : x.interval / parts;
  const double overlap = streaming ? x.overlap : 0;
  // A fragment's layers lie as far apart as there are fragments (the paper's strided pattern).
  const auto strides = static_cast<std::int64_t>(std::min(parts, x.buckets));
  std::int64_t exchanges = 0;
  double now = 0;
  double link_free = 0;
  double next = period - 1;  // the step that sends next
  struct Pending {
    double last_step;  // that it may take
    double complete;   // when it is
  };
  std::deque<Pending> under_way;
  for (int step = 0; step < x.steps; ++step) {
    if (step >= next) {
      link_free = send(x, factor * model / parts, static_cast<int>(exchanges % strides),
                       static_cast<int>(strides), now, link_free, gbps);
      ++exchanges;
      under_way.push_back({step + overlap, link_free + 2 * x.latency});
      next += period;
    }
    now += x.step_seconds;
    for (; !under_way.empty() && step >= under_way.front().last_step; under_way.pop_front()) {
      now = std::max(now, under_way.front().complete);
    }
  }
  return x.steps * x.step_seconds / now;
}

double grid_gbps(int k) {
  return portable_exp((-1 + 4.0 * k / (kGridPoints - 1)) * 2.302585092994046);
}

int least_grid_point(const Exchange& exchange, double wanted) {
  for (int k = 0; k < kGridPoints; ++k) {
    if (utilisation(exchange, grid_gbps(k)) >= wanted) return k;
  }
  return -1;
}

}  // namespace archipelago::simulate
