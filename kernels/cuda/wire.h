#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/wire.h"

// WireKernels on the device: the same bits as kernels/cpu's. All memory is the device's, and the
// work is queued on `stream`.

namespace archipelago::kernels::cuda {

// As WireKernels::encode(). `residual_before`: what to add, null for zeros; `residual`: what
// becomes of it, may be the same; block encodings alone have either.
void encode(cudaStream_t stream, Encoding encoding, std::byte* bytes, const float* values,
            const float* base, const float* residual_before, float* residual, std::int64_t count);

// As WireKernels::decode(), without a base.
void decode(cudaStream_t stream, Encoding encoding, float* values, const std::byte* bytes,
            std::int64_t count);

}  // namespace archipelago::kernels::cuda
