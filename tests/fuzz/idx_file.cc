#include "data/idx_file.h"

#include <cstdlib>
#include <functional>
#include <numeric>
#include <utility>

#include "attempt.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace archipelago;
  const MemoryFile file(as_text(data, size));
  attempt([&] {
    const data::IdxArray array = data::read_idx(file.path());
    const auto count = std::accumulate(array.shape.begin(), array.shape.end(), std::int64_t{1},
                                       std::multiplies<>());
    if (std::cmp_not_equal(array.values.size(), count)) std::abort();
  });
  return 0;
}
