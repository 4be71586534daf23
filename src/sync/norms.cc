#include "sync/norms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sync/lines.h"

namespace archipelago::sync {

double squared_distance(const float* a, const float* b, std::int64_t size) {
  Squares squares;
  std::int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
    prefetch(b + k);
    squares.add(load(a + k) - load(b + k));
  }
  double rest = 0;
  for (; k < size; ++k) {
    const float difference = a[k] - b[k];
    rest += static_cast<double>(difference) * static_cast<double>(difference);
  }
  return squares.total() + rest;
}

SquaredNorms::SquaredNorms(std::span<const MergePiece> pieces)
    : pieces_(pieces), squares_(pieces.size(), 0) {}

void SquaredNorms::add(std::span<const float> theta, std::span<const float> values,
                       std::int64_t end) {
  while (piece_ < pieces_.size()) {
    const MergePiece& piece = pieces_[piece_];
    const std::int64_t piece_end = piece.offset + piece.size;
    const std::int64_t block_end = std::min(begin_ + kBlock, piece_end);
    if (block_end > end) return;
    squares_[piece_] += squared_distance(&theta[begin_], &values[begin_], block_end - begin_);
    begin_ = block_end;
    if (begin_ == piece_end) ++piece_;
  }
}

double SquaredNorms::norm() const {
  return std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
}

}  // namespace archipelago::sync
