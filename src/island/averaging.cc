#include "island/averaging.h"

#include "island/island.h"
#include "island/nccl.h"

namespace archipelago::island {
namespace {

// All gradients at once: on a processor nothing is left that could run beside it. Nothing to do for
// an island of one rank.
class MpiAveraging final : public Averaging {
 public:
  explicit MpiAveraging(Island& island) : island_(island) {}

  void ready(std::span<float>) override {}
  void finish(std::span<float> gradients) override { island_.all_reduce_mean(gradients); }

 private:
  Island& island_;
};

}  // namespace

std::unique_ptr<Averaging> make_averaging(Island& island, kernels::Kernels& kernels) {
  if (kernels.on_host() || island.size() == 1) return std::make_unique<MpiAveraging>(island);
  return make_nccl_averaging(island, kernels);
}

}  // namespace archipelago::island
