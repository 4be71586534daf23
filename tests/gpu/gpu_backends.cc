#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

std::unique_ptr<Kernels> on_gpu(Precision precision, bool deterministic) {
  if (cuda_devices() == 0) return nullptr;
  return make_cuda_kernels(
      {.kind = Device::Kind::cuda, .precision = precision, .deterministic = deterministic});
}

}  // namespace

// bf16 keeps 8 bits.
std::vector<Backend> backends() {
  constexpr double kF32 = 2e-5;
  constexpr double kBf16 = 3e-2;
  return {{"cuda_f32", [] { return on_gpu(Precision::f32, false); }, kF32},
          {"cuda_bf16", [] { return on_gpu(Precision::bf16, false); }, kBf16},
          {"cuda_bf16_deterministic", [] { return on_gpu(Precision::bf16, true); }, kBf16}};
}

}  // namespace archipelago::kernels
