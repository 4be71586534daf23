#pragma once

#include <memory>
#include <span>

#include "kernels/kernels.h"

namespace archipelago::island {

class Island;

// Replaces gradients by their mean over the island's ranks while backward may still make others.
// Collective: every rank hears of the same ranges in the same order.
class Averaging {
 public:
  virtual ~Averaging() = default;

  // `tail`, which goes to the end of the gradients and holds that of the call before, will not
  // change any more once the kernels that are queued now are done.
  virtual void ready(std::span<float> tail) = 0;

  // None of the gradients will change any more. Returns when all hold the mean, the same bits on
  // every rank.
  virtual void finish(std::span<float> gradients) = 0;
};

// Over NCCL for a GPU's kernels, else over MPI. `kernels` and `island` must outlive it. Collective.
// Throws Error(try_again) when the GPUs' communicator does not come into being in time.
std::unique_ptr<Averaging> make_averaging(Island& island, kernels::Kernels& kernels);

}  // namespace archipelago::island
