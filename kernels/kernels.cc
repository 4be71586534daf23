#include "kernels/kernels.h"

namespace archipelago::kernels {

std::unique_ptr<Kernels> make_kernels(const Device& device) {
  return device.kind == Device::Kind::cuda ? make_cuda_kernels(device)
                                           : make_cpu_kernels(device.threads);
}

}  // namespace archipelago::kernels
