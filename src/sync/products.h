#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sync/merge.h"

// The first pass of a merge: lengths of the learners' differences from Theta. Part of merge.cc.
namespace archipelago::sync {

// Elements that are worked on while they are in the first-level cache.
constexpr std::int64_t kChunk = 128;
// Sums run over blocks whose results are added in order: the same for any number of threads.
constexpr std::int64_t kBlock = 16384;
// Up to so many learners the inner products of their differences are taken in the pass that takes
// the norms, so that the length of the mean direction is known without one more pass over memory.
constexpr int kGramLearners = 8;

// Elements of the packed fragment.
struct Range {
  std::int64_t begin;
  std::int64_t end;
};

struct Learner {
  const float* values;
  double share;  // of the sum of weights
};

// What one merge works on; everything has the fragment's size.
struct MergeTask {
  std::int64_t size;
  float* theta;
  float* momentum;
  std::vector<Learner> learners;
  float lr;
  float mu;
  int threads;
};

inline std::int64_t blocks_of(const MergePiece& piece) {
  return (piece.size + kBlock - 1) / kBlock;
}

// Calls body(block index, range) for each block of the piece, on several threads where it is worth
// waking them.
template <typename Body>
void for_each_block(const MergePiece& piece, int threads, const Body& body) {
  const std::int64_t blocks = blocks_of(piece);
#pragma omp parallel for num_threads(threads) schedule(static) if (blocks >= 4)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = piece.offset + block * kBlock;
    body(block, Range{begin, std::min(begin + kBlock, piece.offset + piece.size)});
  }
}

// Inner products <Delta_a, Delta_b>, a <= b; the norms on the diagonal are squared.
using Gram = std::array<std::array<double, kGramLearners>, kGramLearners>;

// Of at most kGramLearners learners over the piece. The squares are summed in double precision, the
// other products in single precision over a few chunks and then in double precision.
Gram gram_of(const MergeTask& task, const MergePiece& piece);

// ||Delta_i|| of each learner over the piece, in double precision.
std::vector<double> norms_of(const MergeTask& task, const MergePiece& piece);

}  // namespace archipelago::sync
