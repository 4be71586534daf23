#pragma once

namespace archipelago::kernels::cuda {

// Lets NVIDIA's profilers show the ranges of --profile (NVTX).
void show_ranges_in_profilers();

}  // namespace archipelago::kernels::cuda
