#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernel_test.h"
#include "kernels/wire.h"

// Fragments on their way to and from a device have the bytes that the processor makes of them.

namespace archipelago::kernels {
namespace {

constexpr Encoding kAll[] = {Encoding::f32, Encoding::bf16, Encoding::int8, Encoding::e3m0};
// Around the edges of an encoding's blocks and of a thread block's.
constexpr std::int64_t kSizes[] = {1, 31, 33, 63, 64, 65, 129, 1000, 2500};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Values = std::vector<float>;
using Bytes = std::vector<std::byte>;

class FragmentsTest : public KernelTest {
 protected:
  // Numbers of many magnitudes; some zero, a whole block too, of either sign.
  Values values_of(std::int64_t count) {
    Values values;
    for (std::int64_t i = 0; i < count; ++i) {
      const double magnitude = std::pow(10.0, 4 * random_.uniform() - 6);
      const bool is_zero = random_.below(10) == 0 || (i >= 128 && i < 192);
      const double zero = random_.below(2) == 0 ? 0.0 : -0.0;
      values.push_back(static_cast<float>(is_zero ? zero : magnitude * random_.normal()));
    }
    return values;
  }

  // Two ranges with a gap, the later one first.
  static std::vector<Part> ranges_of(std::int64_t count) {
    const std::int64_t first = count / 3;
    return {{count - first + 3, first}, {1, count - first}};
  }
  static std::int64_t flat_size(std::int64_t count) { return count + 4; }

  static Values gathered(const Buffer& flat, const std::vector<Part>& ranges) {
    Values all(static_cast<std::size_t>(flat.size()));
    flat.copy_out(all);
    Values values;
    for (const Part& range : ranges) {
      values.insert(values.end(), all.begin() + range.offset,
                    all.begin() + range.offset + range.size);
    }
    return values;
  }

  void put(Mover& mover, int fragment, const Buffer& flat, const std::vector<Part>& ranges,
           Encoding encoding, Bytes bytes) {
    mover.put(fragment, flat.data(), ranges, encoding, bytes);
    bytes.assign(bytes.size(), std::byte{0x55});
  }

  static std::shared_ptr<const HostArray> take(Mover& mover, int fragment, const Buffer& flat,
                                               const std::vector<Part>& ranges) {
    mover.take(fragment, flat.data(), ranges, false);
    std::shared_ptr<const HostArray> taken;
    while ((taken = mover.taken()) == nullptr) {
    }
    return taken;
  }

  Bytes encoded(Encoding encoding, const Values& values, const Values& base, Values* residual) {
    const auto count = std::ssize(values);
    Bytes bytes(static_cast<std::size_t>(encoded_size(encoding, count)));
    wire_->encode(encoding, bytes.data(), values.data(), base.empty() ? nullptr : base.data(),
                  residual == nullptr ? nullptr : residual->data(), count);
    return bytes;
  }

  Values decoded(Encoding encoding, const Bytes& bytes, std::int64_t count) {
    Values values(static_cast<std::size_t>(count));
    wire_->decode(encoding, values.data(), nullptr, bytes.data(), count);
    return values;
  }

  // The same bits, but for those of a NaN, of which a GPU makes others.
  static void expect_same(const Values& actual, const Values& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(actual[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]),
                  std::bit_cast<std::uint32_t>(expected[i]))
            << i << ": " << actual[i] << " and " << expected[i];
      }
    }
  }

  // That a mover gives of a fragment that was put as `start` in bf16 and then goes through `rounds`
  // what the processor makes of it.
  void expect_differences(Encoding encoding, const Values& start,
                          const std::vector<Values>& rounds);

  std::unique_ptr<WireKernels> wire_ = make_cpu_wire_kernels(1);
};
INSTANTIATE_TEST_SUITE_P(Backends, FragmentsTest, testing::ValuesIn(backends()), backend_name);

TEST_P(FragmentsTest, ArriveDecoded) {
  for (const Encoding encoding : kAll) {
    const auto mover = kernels_->make_mover({});
    for (const std::int64_t count : kSizes) {
      const Buffer flat(*kernels_, flat_size(count));
      const auto bytes = encoded(encoding, values_of(count), {}, nullptr);
      put(*mover, 0, flat, ranges_of(count), encoding, bytes);
      expect_same(gathered(flat, ranges_of(count)), decoded(encoding, bytes, count));
      Values all(static_cast<std::size_t>(flat.size()));
      flat.copy_out(all);
      EXPECT_EQ(all[0], 0) << "outside the ranges";
    }
  }
}

TEST_P(FragmentsTest, AnyBytesStandForSomething) {
  const auto mover = kernels_->make_mover({});
  constexpr std::int64_t kCount = 1000;
  const Buffer flat(*kernels_, flat_size(kCount));
  for (const Encoding encoding : kAll) {
    Bytes bytes(static_cast<std::size_t>(encoded_size(encoding, kCount)));
    for (auto& byte : bytes) byte = static_cast<std::byte>(random_.below(256));
    put(*mover, 0, flat, ranges_of(kCount), encoding, bytes);
    expect_same(gathered(flat, ranges_of(kCount)), decoded(encoding, bytes, kCount));
  }
}

void FragmentsTest::expect_differences(Encoding encoding, const Values& start,
                                       const std::vector<Values>& rounds) {
  const auto mover = kernels_->make_mover(encoding);
  const auto count = std::ssize(start);
  const auto ranges = ranges_of(count);
  const Buffer flat(*kernels_, flat_size(count));
  const Bytes down = encoded(Encoding::bf16, start, {}, nullptr);
  const Values base = decoded(Encoding::bf16, down, count);
  put(*mover, 7, flat, ranges, Encoding::bf16, down);
  const bool in_blocks = encoding == Encoding::int8 || encoding == Encoding::e3m0;
  Values residual(start.size(), 0);
  for (const Values& values : rounds) {
    // Another fragment's life in between changes nothing.
    const std::vector<Part> other = {{0, 1}};
    put(*mover, 8, flat, other, Encoding::f32, Bytes(4));
    put(*kernels_->make_mover({}), 0, flat, ranges, Encoding::f32,
        encoded(Encoding::f32, values, {}, nullptr));
    const auto taken = take(*mover, 7, flat, ranges);
    if (kernels_->on_host()) {
      EXPECT_EQ(taken->encoding(), std::nullopt) << "encoded on the thread that sends";
      expect_same({taken->values().begin(), taken->values().end()}, values);
      continue;
    }
    ASSERT_EQ(taken->encoding(), encoding);
    const Bytes expected = encoded(encoding, values, base, in_blocks ? &residual : nullptr);
    const Bytes bytes(taken->bytes().begin(), taken->bytes().end());
    if (in_blocks) {
      EXPECT_EQ(bytes, expected) << count << " elements";
    } else {
      expect_same(decoded(encoding, bytes, count), decoded(encoding, expected, count));
    }
    take(*mover, 8, flat, other);
  }
}

// The residuals show in the bytes of the rounds after.
TEST_P(FragmentsTest, LeaveAsTheDifferencesThatTheProcessorMakes) {
  for (const Encoding encoding : kAll) {
    for (const std::int64_t count : kSizes) {
      const Values start = values_of(count);
      std::vector<Values> rounds(3, start);
      for (Values& values : rounds) {
        for (float& value : values) value += static_cast<float>(1e-3 * random_.normal());
      }
      expect_differences(encoding, start, rounds);
    }
  }
}

TEST_P(FragmentsTest, WhatIsNotFiniteOrTinyLeavesAsFromTheProcessor) {
  constexpr std::int64_t kCount = 4 * kWireBlock + 5;
  const Values start(kCount, 0);
  Values strange(kCount, 1);
  strange[7] = kNan;
  strange[kWireBlock + 40] = -kInfinity;
  std::fill_n(strange.begin() + 2 * kWireBlock, kWireBlock, 1e-44F);
  std::fill_n(strange.begin() + 3 * kWireBlock, kWireBlock, -0.0F);
  strange[4 * kWireBlock + 1] = std::numeric_limits<float>::max();
  strange[4 * kWireBlock + 2] = -std::numeric_limits<float>::max();
  // Afterwards what was kept of it.
  const Values tame(kCount, 0.25F);
  for (const Encoding encoding : kAll) {
    expect_differences(encoding, start, {strange, strange, tame});
  }
}

TEST_P(FragmentsTest, ANewLifeBeginsWithoutResiduals) {
  if (kernels_->on_host()) return;
  constexpr std::int64_t kCount = 100;
  const auto ranges = ranges_of(kCount);
  for (const Encoding encoding : kAll) {
    const auto mover = kernels_->make_mover(encoding);
    const Buffer flat(*kernels_, flat_size(kCount));
    const Bytes zeros(4 * kCount);
    put(*mover, 0, flat, ranges, Encoding::f32, zeros);
    const Values values = values_of(kCount);
    put(*kernels_->make_mover({}), 0, flat, ranges, Encoding::f32,
        encoded(Encoding::f32, values, {}, nullptr));
    const auto first = take(*mover, 0, flat, ranges);
    take(*mover, 0, flat, ranges);
    mover->forget_residuals();
    const auto again = take(*mover, 0, flat, ranges);
    EXPECT_TRUE(std::ranges::equal(first->bytes(), again->bytes()));
  }
}

}  // namespace
}  // namespace archipelago::kernels
