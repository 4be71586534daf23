#pragma once

namespace archipelago {

// How many kernels of libraries have been loaded by this process so far.
int loaded_kernels();

}  // namespace archipelago
