#include "island/nccl.h"

#include "island/island.h"
#include "island/nccl_averaging.h"
#include "kernels/cuda/cuda_kernels.h"

namespace archipelago::island {
namespace {

constexpr double kInitSeconds = 120;  // GPUs of a large island over several hosts

}  // namespace

std::unique_ptr<Averaging> make_nccl_averaging(Island& island, kernels::Kernels& kernels) {
  NcclId id{};
  if (island.is_leader()) id = NcclGroup::new_id();
  island.broadcast(std::as_writable_bytes(std::span(&id, 1)));
  // Every rank that dies ends its island, so nobody waits for one that will not come.
  const auto check_members = [&island] { island.check_members(); };
  auto group = std::make_unique<NcclGroup>(id, island.rank(), island.size(),
                                           NcclGroup::Patience{kInitSeconds, check_members});
  return std::make_unique<NcclAveraging>(std::move(group),
                                         static_cast<kernels::CudaKernels&>(kernels).stream());
}

}  // namespace archipelago::island
