#include "sync/merge.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sync/lines.h"
#include "sync/products.h"

namespace archipelago::sync {
namespace {

// Learners whose differences are added in one go.
constexpr int kTile = 4;
// Below this share of its greatest possible length the mean direction is rounding noise.
constexpr double kVanishing = 1e-6;
// A mean direction that the inner products find to be shorter than this is measured in double
// precision.
constexpr double kShort = 0.03;

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

template <int kCount>
void add_differences(const float* theta, const float* const* values, const float* scales,
                     std::int64_t size, float* delta, bool fresh) {
  if (fresh) {
    add_differences<kCount, true>(theta, values, scales, size, delta);
  } else {
    add_differences<kCount, false>(theta, values, scales, size, delta);
  }
}

// delta = sum of scales_i (theta - values_i) over [begin, begin + size).
void combine(const MergeTask& task, std::span<const float> scales, std::int64_t begin,
             std::int64_t size, float* delta) {
  const float* theta = task.theta + begin;
  const int learners = static_cast<int>(scales.size());
  for (int first = 0; first < learners; first += kTile) {
    const float* values[kTile] = {};
    const int count = std::min(kTile, learners - first);
    for (int i = 0; i < count; ++i) values[i] = task.learners[first + i].values + begin;
    const float* scale = &scales[first];
    switch (count) {
      case 1:
        add_differences<1>(theta, values, scale, size, delta, first == 0);
        break;
      case 2:
        add_differences<2>(theta, values, scale, size, delta, first == 0);
        break;
      case 3:
        add_differences<3>(theta, values, scale, size, delta, first == 0);
        break;
      default:
        add_differences<kTile>(theta, values, scale, size, delta, first == 0);
    }
  }
}

// Nesterov's outer step over [begin, begin + size) with the difference scale * delta.
void step(const MergeTask& task, float scale, const float* delta, std::int64_t begin,
          std::int64_t size) {
  float* theta = task.theta + begin;
  float* momentum = task.momentum + begin;
#pragma omp simd
  for (std::int64_t k = 0; k < size; ++k) {
    const float change = scale * delta[k];
    momentum[k] = task.mu * momentum[k] + change;
    theta[k] -= task.lr * (change + task.mu * momentum[k]);
  }
}

std::vector<float> narrowed(std::span<const double> values) {
  return {values.begin(), values.end()};
}

// The outer step with Delta = sum of scales_i Delta_i.
void apply(const MergeTask& task, const MergePiece& piece, std::span<const double> scales) {
  const std::vector<float> narrow = narrowed(scales);
  const std::int64_t blocks = blocks_of(piece);
  // Backwards, since the end of the piece is what the pass before has left in the caches.
  for_each_block(piece, task.threads, [&](std::int64_t block, Range) {
    const std::int64_t first = piece.offset + (blocks - 1 - block) * kBlock;
    const std::int64_t end = std::min(first + kBlock, piece.offset + piece.size);
    alignas(64) std::array<float, kChunk> delta;
    for (std::int64_t begin = first; begin < end; begin += kChunk) {
      const std::int64_t size = std::min(kChunk, end - begin);
      combine(task, narrow, begin, size, delta.data());
      step(task, 1, delta.data(), begin, size);
    }
  });
}

// The outer step with Delta = radius * unit(sum of scales_i Delta_i); false, and nothing done,
// where that direction vanishes. For many learners: one more pass, over `delta` (the fragment's
// size).
bool apply_direction(const MergeTask& task, const MergePiece& piece, double radius,
                     std::span<const double> scales, std::span<float> delta) {
  const std::vector<float> narrow = narrowed(scales);
  std::vector<double> squares(blocks_of(piece));
  const std::vector<float> zeros(kChunk);
  for_each_block(piece, task.threads, [&](std::int64_t block, Range range) {
    Squares sum;
    for (std::int64_t begin = range.begin; begin < range.end; begin += kChunk) {
      const std::int64_t size = std::min(kChunk, range.end - begin);
      combine(task, narrow, begin, size, &delta[begin]);
      subtract(&delta[begin], zeros.data(), size, nullptr, sum);
    }
    squares[block] = sum.total();
  });
  double square = 0;
  for (const double part : squares) square += part;
  const double length = std::sqrt(square);
  if (length <= kVanishing) return false;
  for_each_block(piece, task.threads, [&](std::int64_t, Range range) {
    step(task, static_cast<float>(radius / length), &delta[range.begin], range.begin,
         range.end - range.begin);
  });
  return true;
}

std::vector<double> shares_of(const MergeTask& task) {
  std::vector<double> shares;
  for (const Learner& learner : task.learners) shares.push_back(learner.share);
  return shares;
}

// unit(Delta_i) weighted by its share: what Delta_i is scaled by in the mean direction.
std::vector<double> direction_scales(const std::vector<double>& shares,
                                     const std::vector<double>& norms) {
  std::vector<double> scales(shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    scales[i] = norms[i] > 0 ? shares[i] / norms[i] : 0;
  }
  return scales;
}

double mean_norm(const std::vector<double>& shares, const std::vector<double>& norms) {
  double radius = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) radius += shares[i] * norms[i];
  return radius;
}

void merge_radial_exactly(const MergeTask& task, const MergePiece& piece,
                          std::vector<float>& delta) {
  delta.resize(task.size);
  const std::vector<double> shares = shares_of(task);
  const std::vector<double> norms = norms_of(task, piece);
  const std::vector<double> scales = direction_scales(shares, norms);
  if (!apply_direction(task, piece, mean_norm(shares, norms), scales, delta)) {
    apply(task, piece, shares);
  }
}

void merge_radial(const MergeTask& task, const MergePiece& piece, std::vector<float>& delta) {
  const std::size_t learners = task.learners.size();
  if (learners > kGramLearners) {
    merge_radial_exactly(task, piece, delta);
    return;
  }
  const Gram gram = gram_of(task, piece);
  const std::vector<double> shares = shares_of(task);
  std::vector<double> norms(learners);
  for (std::size_t i = 0; i < learners; ++i) norms[i] = std::sqrt(gram[i][i]);
  std::vector<double> scales = direction_scales(shares, norms);
  double square = 0;  // of the mean direction's length
  for (std::size_t a = 0; a < learners; ++a) {
    for (std::size_t b = a; b < learners; ++b) {
      square += (a == b ? 1 : 2) * scales[a] * scales[b] * gram[a][b];
    }
  }
  if (square < kShort * kShort) {
    merge_radial_exactly(task, piece, delta);
    return;
  }
  const double factor = mean_norm(shares, norms) / std::sqrt(square);
  for (double& scale : scales) scale *= factor;
  apply(task, piece, scales);
}

}  // namespace

void merge_fragment(std::span<const MergePiece> pieces, std::span<const MergeInput> inputs,
                    const OuterSettings& outer, std::span<float> theta, std::span<float> momentum,
                    int threads) {
  double total = 0;
  for (const MergeInput& input : inputs) total += input.weight > 0 ? input.weight : 0;
  if (total == 0) return;
  MergeTask task{static_cast<std::int64_t>(theta.size()),
                 theta.data(),
                 momentum.data(),
                 {},
                 static_cast<float>(outer.lr),
                 static_cast<float>(outer.momentum),
                 threads};
  for (const MergeInput& input : inputs) {
    if (input.weight > 0) task.learners.push_back({input.values.data(), input.weight / total});
  }
  std::vector<float> delta;  // only for what one pass more is needed for
  for (const MergePiece& piece : pieces) {
    if (piece.rule == MergeRule::mean) {
      apply(task, piece, shares_of(task));
    } else {
      merge_radial(task, piece, delta);
    }
  }
}

double distance(std::span<const float> a, std::span<const float> b) {
  Squares squares;
  subtract(a.data(), b.data(), static_cast<std::int64_t>(a.size()), nullptr, squares);
  return std::sqrt(squares.total());
}

}  // namespace archipelago::sync
