#include <cuda_runtime.h>

#include <string>

#include "core/error.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/profile.h"
#include "kernels/gpu_address.h"

namespace archipelago::kernels {
namespace {

struct Devices {
  int count = 0;
  std::string why;  // there are none
};

Devices find_devices() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {count, {}};
  return {0, code == cudaSuccess ? "no GPU is visible" : cudaGetErrorString(code)};
}

}  // namespace

int cuda_devices() { return find_devices().count; }

std::string why_no_cuda() { return find_devices().why; }

std::string gpu_address(int index) {
  char address[32] = {};
  cuda::check(cudaDeviceGetPCIBusId(address, sizeof address, index), "asking for its address");
  return address;
}

std::unique_ptr<Kernels> make_cuda_kernels(const Device& device) {
  const Devices devices = find_devices();
  if (devices.count == 0) {
    throw Error(ExitCode::configuration,
                "device cuda cannot be used here: " + devices.why + "; use --device cpu or auto");
  }
  if (device.index < 0 || device.index >= devices.count) {
    throw Error(ExitCode::configuration, "GPU " + std::to_string(device.index) +
                                             " is asked for, and this process sees " +
                                             std::to_string(devices.count));
  }
  cuda::show_ranges_in_profilers();
  return std::make_unique<CudaKernels>(device);
}

}  // namespace archipelago::kernels
