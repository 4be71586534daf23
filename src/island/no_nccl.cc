#include "core/error.h"
#include "island/nccl.h"

// Stands in for nccl.cc in a build without CUDA.

namespace archipelago::island {

std::unique_ptr<Averaging> make_nccl_averaging(Island&, kernels::Kernels&) {
  throw Error(ExitCode::internal, "an island of GPUs in a program that was built without CUDA");
}

}  // namespace archipelago::island
