#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/random.h"
#include "kernels/kernels.h"
#include "kernels/wire_codes.h"
#include "reference.h"

namespace archipelago::kernels {

// What a test program runs the kernels on; each program says its own.
struct Backend {
  std::string name;
  std::function<std::unique_ptr<Kernels>()> make;  // null where this machine has no such device
  // Of the largest element: sums of some hundred terms.
  double tolerance;
};
std::vector<Backend> backends();

inline std::string backend_name(const testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}
inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

// A kernel's array with the double copy that the reference works on.
struct TestArray {
  Buffer buffer;
  reference::Array start;                // the values before the kernel ran
  Precision precision = Precision::f32;  // of what is in the buffer

  float* data() const { return buffer.data(); }
  Numbers numbers() const { return {buffer.data(), precision}; }

  void assign(const std::vector<float>& values) {
    if (precision == Precision::f32) {
      buffer.copy_in(values);
      start.assign(values.begin(), values.end());
      return;
    }
    std::vector<float> packed(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t bits = to_bf16(values[i]);
      std::memcpy(reinterpret_cast<char*>(packed.data()) + 2 * i, &bits, sizeof bits);
      start.push_back(from_bf16(bits));
    }
    buffer.copy_in(packed);
  }
  reference::Array now() const {
    std::vector<float> values(static_cast<std::size_t>(buffer.size()));
    buffer.copy_out(values);
    if (precision == Precision::f32) return {values.begin(), values.end()};
    reference::Array all;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, reinterpret_cast<const char*>(values.data()) + 2 * i, sizeof bits);
      all.push_back(from_bf16(bits));
    }
    return all;
  }
};

// What f32 differs by from double, as a share of the largest number.
constexpr double kF32Tolerance = 2e-5;

class KernelTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (kernels_ == nullptr) GTEST_SKIP() << why_no_cuda();
  }

  // `count` normal numbers of this deviation around `mean`.
  TestArray random_array(std::int64_t count, double deviation = 1, double mean = 0,
                         Precision precision = Precision::f32) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>(mean + deviation * random_.normal()));
    }
    return array_of(values, precision);
  }
  // The same as the device's kernels hand them to one another.
  TestArray compact_array(std::int64_t count) {
    return random_array(count, 1, 0, kernels_->compact(nullptr).precision);
  }

  TestArray array_of(const std::vector<float>& values, Precision precision = Precision::f32) {
    TestArray array{Buffer(*kernels_, static_cast<std::int64_t>(values.size())), {}, precision};
    array.assign(values);
    return array;
  }

  // Whether compact() numbers are.
  bool is_bf16() const { return kernels_->compact(nullptr).precision == Precision::bf16; }

  std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t V) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(V))));
    }
    return tokens;
  }

  // The same numbers where the kernels find them, and back.
  IndexBuffer indices(const std::vector<std::int32_t>& values) {
    IndexBuffer buffer(*kernels_, static_cast<std::int64_t>(values.size()));
    buffer.copy_in(values);
    return buffer;
  }
  static std::vector<std::int32_t> values_of(const IndexBuffer& buffer) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(buffer.size()));
    buffer.copy_out(values);
    return values;
  }

  static void expect_near(const TestArray& actual, const reference::Array& expected,
                          double tolerance, const std::string& what) {
    ASSERT_EQ(actual.buffer.size(), static_cast<std::int64_t>(expected.size())) << what;
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    const reference::Array now = actual.now();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(now[i], expected[i], tolerance * (1 + largest)) << what << " at " << i;
    }
  }

  // That `made` is x as Kernels::rounded() has it: itself, or what products round it to in `room`.
  void expect_rounded_copy(const ConstNumbers& made, const TestArray& x,
                           const TestArray& room) const {
    EXPECT_EQ(made.precision, kernels_->compact(nullptr).precision);
    EXPECT_EQ(made.data, is_bf16() ? room.data() : x.data());
    if (!is_bf16()) return;
    TestArray copy{Buffer(*kernels_, room.buffer.size()), {}, Precision::bf16};
    std::vector<float> bits(static_cast<std::size_t>(room.buffer.size()));
    room.buffer.copy_out(bits);
    copy.buffer.copy_in(bits);
    const reference::Array exact = x.now();
    const reference::Array narrow = copy.now();
    for (std::size_t i = 0; i < exact.size(); ++i) {
      ASSERT_EQ(narrow[i], from_bf16(to_bf16(static_cast<float>(exact[i])))) << "at " << i;
    }
  }

  // That the kernel added `expected` to what stood there.
  static void expect_added(const TestArray& actual, const reference::Array& expected,
                           double tolerance, const std::string& what) {
    expect_near(actual, reference::sum(actual.start, expected), tolerance, what);
  }

  // `sensitivity`: how much each result moves, as a share, when what is rounded moves by that
  // share.
  void expect_rounded(const reference::Array& actual, const reference::Array& expected,
                      const reference::Array& sensitivity, const std::string& what) const {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    // 8 bits of which the last is rounded, and what rounding does to what was rounded before.
    const double rounding = is_bf16() ? std::ldexp(1.0, -8) * (1 + std::ldexp(1.0, -6)) : 0;
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], rounding * sensitivity[i] + kF32Tolerance * (1 + largest))
          << what << " at " << i;
    }
  }

  double tolerance() const { return GetParam().tolerance; }

  std::unique_ptr<Kernels> kernels_ = GetParam().make();
  Random random_{42};
};

}  // namespace archipelago::kernels
