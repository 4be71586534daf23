#include "sync/merge.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

namespace archipelago::sync {
namespace {

// Sums run over blocks of this many elements whose results are added in order: the same for any
// number of threads.
constexpr std::int64_t kBlock = 16384;

// Below this share of its greatest possible length the mean direction is rounding noise.
constexpr double kVanishing = 1e-6;

struct Block {
  std::int64_t begin;
  std::int64_t end;
};

std::vector<Block> blocks_of(const MergePiece& piece) {
  std::vector<Block> blocks;
  for (std::int64_t begin = 0; begin < piece.size; begin += kBlock) {
    blocks.push_back({piece.offset + begin, piece.offset + std::min(begin + kBlock, piece.size)});
  }
  return blocks;
}

double square(double value) { return value * value; }

double squared_distance(const float* a, const float* b, std::int64_t size) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) {
    sum += square(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  }
  return sum;
}

// out = sum of scale_i (theta - values_i).
void combine(const Block& block, std::span<const MergeInput> inputs, std::span<const double> scales,
             std::span<const float> theta, float* out) {
  const std::int64_t size = block.end - block.begin;
  std::fill_n(out, size, 0.0F);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const float scale = static_cast<float>(scales[i]);
    const float* values = inputs[i].values.data() + block.begin;
    const float* origin = theta.data() + block.begin;
#pragma omp simd
    for (std::int64_t k = 0; k < size; ++k) out[k] += scale * (origin[k] - values[k]);
  }
}

double squared_norm(const float* values, std::int64_t size) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) sum += square(values[i]);
  return sum;
}

}  // namespace

void merge_fragment(std::span<const MergePiece> pieces, std::span<const MergeInput> inputs,
                    const OuterSettings& outer, std::span<float> theta, std::span<float> momentum,
                    int threads) {
  std::vector<MergeInput> weighted;
  double total = 0;
  for (const MergeInput& input : inputs) {
    if (!(input.weight > 0)) continue;
    weighted.push_back(input);
    total += input.weight;
  }
  if (weighted.empty()) return;
  std::vector<double> shares;
  for (const MergeInput& input : weighted) shares.push_back(input.weight / total);

  std::vector<float> delta(theta.size());
  for (const MergePiece& piece : pieces) {
    const std::vector<Block> blocks = blocks_of(piece);
    const std::int64_t count = static_cast<std::int64_t>(blocks.size());
    std::vector<double> scales = shares;
    double factor = 1;
    if (piece.rule == MergeRule::radial_directional) {
      std::vector<double> partial(blocks.size() * weighted.size());
#pragma omp parallel for num_threads(threads) schedule(static)
      for (std::int64_t b = 0; b < count; ++b) {
        for (std::size_t i = 0; i < weighted.size(); ++i) {
          partial[b * weighted.size() + i] = squared_distance(
              theta.data() + blocks[b].begin, weighted[i].values.data() + blocks[b].begin,
              blocks[b].end - blocks[b].begin);
        }
      }
      double radius = 0;
      for (std::size_t i = 0; i < weighted.size(); ++i) {
        double sum = 0;
        for (std::int64_t b = 0; b < count; ++b) sum += partial[b * weighted.size() + i];
        const double norm = std::sqrt(sum);
        radius += shares[i] * norm;
        scales[i] = norm > 0 ? shares[i] / norm : 0;
      }
      std::vector<double> lengths(blocks.size());
#pragma omp parallel for num_threads(threads) schedule(static)
      for (std::int64_t b = 0; b < count; ++b) {
        combine(blocks[b], weighted, scales, theta, delta.data() + blocks[b].begin);
        lengths[b] = squared_norm(delta.data() + blocks[b].begin, blocks[b].end - blocks[b].begin);
      }
      double sum = 0;
      for (const double length : lengths) sum += length;
      const double length = std::sqrt(sum);
      if (length > kVanishing) {
        factor = radius / length;
      } else {
        scales = shares;
#pragma omp parallel for num_threads(threads) schedule(static)
        for (std::int64_t b = 0; b < count; ++b) {
          combine(blocks[b], weighted, scales, theta, delta.data() + blocks[b].begin);
        }
      }
    } else {
#pragma omp parallel for num_threads(threads) schedule(static)
      for (std::int64_t b = 0; b < count; ++b) {
        combine(blocks[b], weighted, scales, theta, delta.data() + blocks[b].begin);
      }
    }
    const float scale = static_cast<float>(factor);
    const float mu = static_cast<float>(outer.momentum);
    const float eta = static_cast<float>(outer.lr);
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (std::int64_t k = piece.offset; k < piece.offset + piece.size; ++k) {
      const float step = scale * delta[k];
      momentum[k] = mu * momentum[k] + step;
      theta[k] -= eta * (step + mu * momentum[k]);
    }
  }
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t begin = 0; begin < a.size(); begin += kBlock) {
    const std::int64_t size = std::min<std::int64_t>(kBlock, a.size() - begin);
    sum += squared_distance(a.data() + begin, b.data() + begin, size);
  }
  return std::sqrt(sum);
}

}  // namespace archipelago::sync
