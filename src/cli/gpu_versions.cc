#include "cli/gpu_versions.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

namespace archipelago::cli {
namespace {

// CUDA counts 13.2 as 13020.
std::string cuda_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "unknown";
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

// NCCL counts 2.28.3 as 22803, cuDNN 9.14.0 as 91400.
std::string three_parts(std::size_t version) {
  return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
         std::to_string(version % 100);
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return three_parts(static_cast<std::size_t>(version));
}

}  // namespace

std::string gpu_versions() {
  return "CUDA: " + cuda_version() + "\nNCCL: " + nccl_version() +
         "\ncuDNN: " + three_parts(cudnnGetVersion()) + '\n';
}

}  // namespace archipelago::cli
