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
};

// Merges one fragment in place, tensor by tensor:
//   Delta_i = Theta - theta_i
//   RDA:  Delta = (sum w ||Delta_i|| / sum w) * unit(sum w unit(Delta_i) / sum w), unit(0) = 0;
//         where the mean direction vanishes, the weighted mean
//   mean: Delta = sum w Delta_i / sum w
//   m := mu m + Delta;  Theta := Theta - eta (Delta + mu m)        (Nesterov, DiLoCo Alg. 1)
// Sums of squares and weights are f64. Inputs of weight 0 are ignored; with no weight at all
// nothing changes. theta, momentum and every input have the fragment's size. `threads`: OpenMP
// threads.
void merge_fragment(std::span<const MergePiece> pieces, std::span<const MergeInput> inputs,
                    const OuterSettings& outer, std::span<float> theta, std::span<float> momentum,
                    int threads);

// ||a - b|| in f64; not finite if any element of either is not.
double distance(std::span<const float> a, std::span<const float> b);

}  // namespace archipelago::sync
