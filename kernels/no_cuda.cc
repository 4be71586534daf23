#include "core/error.h"
#include "kernels/gpu_address.h"
#include "kernels/kernels.h"

// Stands in for kernels/cuda/ in a build without CUDA.

namespace archipelago::kernels {

int cuda_devices() { return 0; }

std::string why_no_cuda() { return "this program was built without CUDA"; }

std::string gpu_address(int) { return {}; }

std::unique_ptr<Kernels> make_cuda_kernels(const Device&) {
  throw Error(ExitCode::configuration,
              "device cuda cannot be used here: " + why_no_cuda() + "; use --device cpu or auto");
}

}  // namespace archipelago::kernels
