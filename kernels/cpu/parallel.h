#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace archipelago::kernels {

struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

// Part `index` of `count` of [0, total), cut at multiples of `grain`.
inline Range part(std::int64_t total, int index, int count, std::int64_t grain = 1) {
  const std::int64_t grains = (total + grain - 1) / grain;
  return {std::min(total, grains * index / count * grain),
          std::min(total, grains * (index + 1) / count * grain)};
}

// Runs body(thread, range) on `threads` threads, each with its static part of [0, total).
template <class Body>
void parallel_ranges(int threads, std::int64_t total, std::int64_t grain, const Body& body) {
  if (threads == 1) {
    body(0, Range{0, total});
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
    const Range range = part(total, thread, threads, grain);
    if (range.size() > 0) body(thread, range);
  }
}

}  // namespace archipelago::kernels
