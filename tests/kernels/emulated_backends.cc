#include "emulation.h"
#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

std::unique_ptr<Kernels> emulated(emulation::Order order, Precision precision) {
  emulation::set_order(order);
  return make_cuda_kernels({.kind = Device::Kind::cuda, .precision = precision});
}

}  // namespace

// kernels/cuda on the processor, in orders whose results must not differ; bf16 keeps 8 bits.
std::vector<Backend> backends() {
  using emulation::Order;
  constexpr double kF32 = 2e-5;
  constexpr double kBf16 = 3e-2;
  return {{"forward", [] { return emulated(Order::forward, Precision::f32); }, kF32},
          {"backward", [] { return emulated(Order::backward, Precision::f32); }, kF32},
          {"shuffled", [] { return emulated(Order::shuffled, Precision::f32); }, kF32},
          {"bf16", [] { return emulated(Order::forward, Precision::bf16); }, kBf16}};
}

}  // namespace archipelago::kernels
