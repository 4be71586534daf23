#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/random.h"
#include "kernels/kernels.h"
#include "reference.h"

namespace archipelago::kernels {

// A kernel's array with the double copy that the reference works on.
struct TestArray {
  Buffer buffer;
  reference::Array start;  // the values before the kernel ran

  float* data() const { return buffer.data(); }
  double now(std::size_t i) const { return static_cast<double>(buffer.data()[i]); }
};

// Every test runs on 1, 2 and 3 threads: a kernel must not depend on how its ranges are cut.
class KernelTest : public testing::TestWithParam<int> {
 protected:
  // `count` normal numbers of this deviation around `mean`.
  TestArray random_array(std::int64_t count, double deviation = 1, double mean = 0) {
    TestArray array{Buffer(*kernels_, count), {}};
    for (std::int64_t i = 0; i < count; ++i) {
      array.data()[i] = static_cast<float>(mean + deviation * random_.normal());
      array.start.push_back(static_cast<double>(array.data()[i]));
    }
    return array;
  }

  std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t V) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(V))));
    }
    return tokens;
  }

  static void expect_near(const TestArray& actual, const reference::Array& expected,
                          double tolerance, const std::string& what) {
    ASSERT_EQ(actual.buffer.size(), static_cast<std::int64_t>(expected.size())) << what;
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual.now(i), expected[i], tolerance * (1 + largest)) << what << " at " << i;
    }
  }

  // That the kernel added `expected` to what stood there.
  static void expect_added(const TestArray& actual, const reference::Array& expected,
                           double tolerance, const std::string& what) {
    expect_near(actual, reference::sum(actual.start, expected), tolerance, what);
  }

  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels(GetParam());
  Random random_{42};
};

constexpr double kTolerance = 2e-5;  // of the largest element; f32 sums of some hundred terms

}  // namespace archipelago::kernels
