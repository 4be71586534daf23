#include "sync/merge.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sync/lines.h"
#include "sync/norms.h"

namespace archipelago::sync {
namespace {

// Elements that are worked on while they are in the first-level cache.
constexpr std::int64_t kChunk = 128;
// Learners whose differences are added in one go.
constexpr int kTile = 8;
// Below this share of its greatest possible length the mean direction is rounding noise.
constexpr double kVanishing = 1e-6;

struct Learner {
  const float* values;
  double share;  // of the sum of weights
  std::span<const double> squares;
};

// What one merge works on; everything has the fragment's size.
struct MergeTask {
  const float* theta;
  const float* momentum;
  float* new_theta;
  float* new_momentum;
  std::vector<Learner> learners;
  float lr;
  float mu;
  int threads;
};

// Elements of the packed fragment.
struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

enum class Direction { forwards, backwards };

std::int64_t blocks_of(const MergePiece& piece) { return (piece.size + kBlock - 1) / kBlock; }

// Calls body(block index, range) for each block of the piece, on several threads where it is worth
// waking them.
template <typename Body>
void for_each_block(const MergePiece& piece, Direction direction, int threads, const Body& body) {
  const std::int64_t blocks = blocks_of(piece);
#pragma omp parallel for num_threads(threads) schedule(static) if (blocks >= 4)
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t block = direction == Direction::forwards ? i : blocks - 1 - i;
    const std::int64_t begin = piece.offset + block * kBlock;
    body(block, Range{begin, std::min(begin + kBlock, piece.offset + piece.size)});
  }
}

// Calls body(range) for each chunk of the range.
template <typename Body>
void for_each_chunk(const Range& range, const Body& body) {
  for (std::int64_t begin = range.begin; begin < range.end; begin += kChunk) {
    body(Range{begin, std::min(begin + kChunk, range.end)});
  }
}

// delta += sum of scales_i (theta - values_i) over `size` elements for kCount learners; with
// kFresh, delta = that sum.
template <int kCount, bool kFresh>
void add_differences(const float* theta, const float* const* values, const float* scales,
                     std::int64_t size, float* delta) {
  std::int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
    const Line origin = load(theta + k);
    Line sum = kFresh ? Line{} : load(delta + k);
    for (int i = 0; i < kCount; ++i) {
      prefetch(values[i] + k);
      sum += filled(scales[i]) * (origin - load(values[i] + k));
    }
    store(sum, delta + k);
  }
  for (; k < size; ++k) {
    float sum = kFresh ? 0 : delta[k];
    for (int i = 0; i < kCount; ++i) sum += scales[i] * (theta[k] - values[i][k]);
    delta[k] = sum;
  }
}

// The same for `count` learners, 1 to kMost.
template <int kMost>
void add_up_to(int count, const float* theta, const float* const* values, const float* scales,
               std::int64_t size, float* delta, bool fresh) {
  if constexpr (kMost > 1) {
    if (count < kMost) {
      return add_up_to<kMost - 1>(count, theta, values, scales, size, delta, fresh);
    }
  }
  if (fresh) {
    add_differences<kMost, true>(theta, values, scales, size, delta);
  } else {
    add_differences<kMost, false>(theta, values, scales, size, delta);
  }
}

// delta = sum of scales_i (theta - values_i) over the range.
void combine(const MergeTask& task, std::span<const float> scales, const Range& range,
             float* delta) {
  const int learners = static_cast<int>(scales.size());
  for (int first = 0; first < learners; first += kTile) {
    const float* values[kTile] = {};
    const int count = std::min(kTile, learners - first);
    for (int i = 0; i < count; ++i) values[i] = task.learners[first + i].values + range.begin;
    add_up_to<kTile>(count, task.theta + range.begin, values, &scales[first], range.size(), delta,
                     first == 0);
  }
}

// Nesterov's outer step over the range with the difference scale * delta; `delta` may be new_theta.
void step(const MergeTask& task, float scale, const float* delta, const Range& range) {
  const float* theta = task.theta + range.begin;
  const float* momentum = task.momentum + range.begin;
  float* new_theta = task.new_theta + range.begin;
  float* new_momentum = task.new_momentum + range.begin;
  const std::int64_t size = range.size();
#pragma omp simd
  for (std::int64_t k = 0; k < size; ++k) {
    const float change = scale * delta[k];
    const float moved = task.mu * momentum[k] + change;
    new_momentum[k] = moved;
    new_theta[k] = theta[k] - task.lr * (change + task.mu * moved);
  }
}

std::vector<double> shares_of(const MergeTask& task) {
  std::vector<double> shares;
  for (const Learner& learner : task.learners) shares.push_back(learner.share);
  return shares;
}

// The outer step with Delta = sum of shares_i Delta_i.
void merge_mean(const MergeTask& task, const MergePiece& piece) {
  const std::vector<double> shares = shares_of(task);
  const std::vector<float> scales(shares.begin(), shares.end());
  for_each_block(piece, Direction::forwards, task.threads, [&](std::int64_t, Range block) {
    for_each_chunk(block, [&](const Range& chunk) {
      alignas(64) std::array<float, kChunk> delta;
      combine(task, scales, chunk, delta.data());
      step(task, 1, delta.data(), chunk);
    });
  });
}

// ||Delta_i|| of each learner over the piece: from what it came with, else taken now.
std::vector<double> norms_of(const MergeTask& task, std::span<const MergePiece> pieces,
                             std::size_t index) {
  const MergePiece& piece = pieces[index];
  std::vector<double> norms;
  std::vector<double> partial(static_cast<std::size_t>(blocks_of(piece)));
  for (const Learner& learner : task.learners) {
    double square = 0;
    if (learner.squares.empty()) {
      for_each_block(piece, Direction::forwards, task.threads,
                     [&](std::int64_t block, Range range) {
                       partial[block] = squared_distance(
                           task.theta + range.begin, learner.values + range.begin, range.size());
                     });
      for (const double part : partial) square += part;
    } else {
      square = learner.squares[index];
    }
    norms.push_back(std::sqrt(square));
  }
  return norms;
}

// Writes the mean direction to new_theta and returns its length.
double mean_direction(const MergeTask& task, const MergePiece& piece,
                      std::span<const float> scales) {
  std::vector<double> partial(static_cast<std::size_t>(blocks_of(piece)));
  for_each_block(piece, Direction::forwards, task.threads, [&](std::int64_t block, Range range) {
    Squares squares;
    double rest = 0;
    for_each_chunk(range, [&](const Range& chunk) {
      float* delta = task.new_theta + chunk.begin;
      combine(task, scales, chunk, delta);
      std::int64_t k = 0;
      for (; k + kLanes <= chunk.size(); k += kLanes) squares.add(load(delta + k));
      for (; k < chunk.size(); ++k) rest += static_cast<double>(delta[k]) * delta[k];
    });
    partial[block] = squares.total() + rest;
  });
  double square = 0;
  for (const double part : partial) square += part;
  return std::sqrt(square);
}

void merge_radial(const MergeTask& task, std::span<const MergePiece> pieces, std::size_t index) {
  const MergePiece& piece = pieces[index];
  const std::vector<double> norms = norms_of(task, pieces, index);
  std::vector<float> scales;  // what Delta_i is scaled by in the mean direction
  double radius = 0;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const double share = task.learners[i].share;
    scales.push_back(norms[i] > 0 ? static_cast<float>(share / norms[i]) : 0);
    radius += share * norms[i];
  }
  const double length = mean_direction(task, piece, scales);
  if (length <= kVanishing) return merge_mean(task, piece);
  const auto factor = static_cast<float>(radius / length);
  // Backwards, since the end of the piece is what the pass before has left in the caches.
  for_each_block(piece, Direction::backwards, task.threads, [&](std::int64_t, Range block) {
    step(task, factor, task.new_theta + block.begin, block);
  });
}

}  // namespace

void merge_fragment(std::span<const MergePiece> pieces, std::span<const MergeInput> inputs,
                    const OuterSettings& outer, const OuterState& before, const NewState& after,
                    int threads) {
  double total = 0;
  for (const MergeInput& input : inputs) total += input.weight > 0 ? input.weight : 0;
  if (total == 0) {
    std::ranges::copy(before.theta, after.theta.begin());
    std::ranges::copy(before.momentum, after.momentum.begin());
    return;
  }
  MergeTask task{before.theta.data(),
                 before.momentum.data(),
                 after.theta.data(),
                 after.momentum.data(),
                 {},
                 static_cast<float>(outer.lr),
                 static_cast<float>(outer.momentum),
                 threads};
  for (const MergeInput& input : inputs) {
    if (input.weight > 0) {
      task.learners.push_back({input.values.data(), input.weight / total, input.squares});
    }
  }
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    if (pieces[index].rule == MergeRule::mean) {
      merge_mean(task, pieces[index]);
    } else {
      merge_radial(task, pieces, index);
    }
  }
}

}  // namespace archipelago::sync
