#pragma once

#include <cuda_runtime.h>

#include <string>

namespace archipelago::kernels::cuda {

// Throws Error(internal) "the GPU failed while `doing`: ..." unless `code` is success. A fault of
// an earlier kernel shows up here too, and ends the rank: the memory cannot be trusted after it.
void check(cudaError_t code, const std::string& doing);

// The same for a library's own status, whose text is given.
[[noreturn]] void fail(const std::string& library, const std::string& status,
                       const std::string& doing);

}  // namespace archipelago::kernels::cuda
