#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace archipelago::sync {

enum class MergeRule {
  radial_directional,  // RDA (Decoupled DiLoCo, "radial-directional averaging")
  mean,                // weighted mean
};

// One tensor of the fragment, in its packed order.
struct MergePiece {
  std::int64_t offset;
  std::int64_t size;
  MergeRule rule;  // tables: always mean
};

struct OuterSettings {
  double lr = 0.7;        // eta
  double momentum = 0.9;  // mu
};

// One learner's copy theta_{i,p}, packed, and its weight w_i >= 0.
struct MergeInput {
  std::span<const float> values;
  double weight;
  // ||Delta_i||^2 of each piece, where it was taken from this Theta before (norms.h); else empty.
  std::span<const double> squares = {};
};

struct OuterState {
  std::span<const float> theta;
  std::span<const float> momentum;
};

struct NewState {
  std::span<float> theta;
  std::span<float> momentum;
};

// Merges one fragment, tensor by tensor:
//   Delta_i = Theta - theta_i
//   RDA:  Delta = (sum w ||Delta_i|| / sum w) * unit(sum w unit(Delta_i) / sum w), unit(0) = 0;
//         where the mean direction vanishes, the weighted mean
//   mean: Delta = sum w Delta_i / sum w
//   m := mu m + Delta;  Theta := Theta - eta (Delta + mu m)        (Nesterov, DiLoCo Alg. 1)
// Sums of squares and weights are f64. Inputs of weight 0 are ignored; with no weight at all
// nothing changes. All arrays have the fragment's size and none overlaps another. `threads`: OpenMP
// threads; the bits don't depend on how many, nor on whether the squares come with the inputs.
void merge_fragment(std::span<const MergePiece> pieces, std::span<const MergeInput> inputs,
                    const OuterSettings& outer, const OuterState& before, const NewState& after,
                    int threads);

}  // namespace archipelago::sync
