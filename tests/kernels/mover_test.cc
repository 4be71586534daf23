#include "kernels/mover.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/wire.h"

namespace archipelago::kernels {
namespace {

// The ranges' edges are not those of the parts that are summed up.
TEST(HostMover, TakesTheChecksumAlongWithTheValues) {
  std::vector<float> flat(100'000);
  std::iota(flat.begin(), flat.end(), 1.0F);
  const std::vector<std::vector<Part>> cases = {
      {{0, 1}},
      {{3, kWirePart}},
      {{50'000, 40'000}, {7, kWirePart - 1}, {20'000, 2}},
      {{10, kWirePart - 5}, {60'000, 5}, {70'000, 30'000}},
  };
  const auto mover = make_host_mover(1);
  for (const auto& ranges : cases) {
    std::vector<float> values;
    for (const Part& range : ranges) {
      values.insert(values.end(), flat.begin() + range.offset,
                    flat.begin() + range.offset + range.size);
    }
    mover->take(0, flat.data(), ranges, true);
    const auto taken = mover->taken();
    EXPECT_EQ(std::vector<float>(taken->values().begin(), taken->values().end()), values);
    EXPECT_EQ(
        taken->checksum(),
        wire_checksum(Encoding::f32, std::as_bytes(std::span(values)).data(), std::ssize(values)));
  }
  mover->take(0, flat.data(), cases[0], false);
  EXPECT_EQ(mover->taken()->checksum(), std::nullopt) << "not that of what the memory held before";
}

}  // namespace
}  // namespace archipelago::kernels
