#include "kernel_test.h"

namespace archipelago::kernels {

// A kernel must not depend on how its ranges are cut.
std::vector<Backend> backends() {
  std::vector<Backend> all;
  for (const int threads : {1, 2, 3}) {
    all.push_back(
        {"cpu" + std::to_string(threads), [threads] { return make_cpu_kernels(threads); }, 2e-5});
  }
  return all;
}

}  // namespace archipelago::kernels
