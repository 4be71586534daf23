#include "kernels/cuda/check.h"

#include "core/error.h"

namespace archipelago::kernels::cuda {

void check(cudaError_t code, const std::string& doing) {
  if (code != cudaSuccess) fail("the GPU", cudaGetErrorString(code), doing);
}

void fail(const std::string& library, const std::string& status, const std::string& doing) {
  throw Error(ExitCode::internal, library + " failed while " + doing + ": " + status);
}

}  // namespace archipelago::kernels::cuda
