#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sync/merge.h"

namespace archipelago::sync {

// Sums run over blocks whose results are added in order: the same for any number of threads, and
// for elements that come a part at a time.
constexpr std::int64_t kBlock = 16384;

// ||a - b||^2 of at most a block, in f64; not finite if any element of either is not.
double squared_distance(const float* a, const float* b, std::int64_t size);

// ||Theta - theta_i||^2 of each tensor of a fragment, taken while the fragment comes: the same bits
// however it is cut.
class SquaredNorms {
 public:
  // `pieces`: without gaps, in their packed order; they outlive this.
  explicit SquaredNorms(std::span<const MergePiece> pieces);

  // Goes on to the whole blocks that end before element `end` of the packed fragment.
  void add(std::span<const float> theta, std::span<const float> values, std::int64_t end);

  // So far, one for each piece.
  const std::vector<double>& of_pieces() const { return squares_; }
  // The length of the whole difference; not finite if any element is not.
  double norm() const;

 private:
  std::span<const MergePiece> pieces_;
  std::vector<double> squares_;
  std::size_t piece_ = 0;  // the next block's
  std::int64_t begin_ = 0;
};

}  // namespace archipelago::sync
