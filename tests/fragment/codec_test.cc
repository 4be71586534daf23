#include "fragment/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"

namespace archipelago::fragment {
namespace {

constexpr Encoding kAll[] = {Encoding::f32, Encoding::bf16, Encoding::int8, Encoding::e3m0};
constexpr Encoding kBlocks[] = {Encoding::int8, Encoding::e3m0};
constexpr std::size_t kBlock = kernels::kWireBlock;
// Around the edges of blocks, and enough for several threads.
constexpr std::size_t kSizes[] = {1, 2, 63, 64, 65, 127, 129, 1000, 70'001, 200'000};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Numbers of many magnitudes, some zero.
std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const double magnitude = std::pow(10.0, 4 * random.uniform() - 6);
    value = random.below(10) == 0 ? 0 : static_cast<float>(magnitude * random.normal());
  }
  return values;
}

std::vector<float> decoded(const Codec& codec, Encoding encoding,
                           const std::vector<std::byte>& bytes, std::size_t count,
                           std::span<const float> base = {}) {
  std::vector<float> values(count);
  EXPECT_TRUE(codec.decode(encoding, bytes, base, values));
  return values;
}

std::vector<float> there_and_back(Encoding encoding, const std::vector<float>& values) {
  const Codec codec(1);
  return decoded(codec, encoding, codec.encode(encoding, values).bytes, values.size());
}

// The nearest number with 8 significant bits, ties to an even last one, in double precision.
double reference_bf16(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  const double significand = std::frexp(value, &exponent);  // 0.5 <= |significand| < 1
  return std::ldexp(std::nearbyint(std::ldexp(significand, 8)), exponent - 8);
}

double largest_of(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

// Calls check(first index, the block's values, what they became) for each block.
template <typename Check>
void for_each_block(const std::vector<float>& values, const std::vector<float>& back,
                    const Check& check) {
  for (std::size_t first = 0; first < values.size(); first += kBlock) {
    const std::size_t size = std::min(kBlock, values.size() - first);
    check(std::span(values).subspan(first, size), std::span(back).subspan(first, size));
  }
}

TEST(CodecTest, SizesAsWrittenDown) {
  EXPECT_EQ(encoded_size(Encoding::f32, 65), 260);
  EXPECT_EQ(encoded_size(Encoding::bf16, 65), 130);
  EXPECT_EQ(encoded_size(Encoding::int8, 64), 66);
  EXPECT_EQ(encoded_size(Encoding::int8, 65), 132);
  EXPECT_EQ(encoded_size(Encoding::e3m0, 64), 34);
  EXPECT_EQ(encoded_size(Encoding::e3m0, 65), 68);
  for (const Encoding encoding : kAll) EXPECT_EQ(encoded_size(encoding, 0), 0);
}

TEST(CodecTest, NamesAreTheOptions) {
  EXPECT_EQ(encoding_named("f32"), Encoding::f32);
  EXPECT_EQ(encoding_named("bf16"), Encoding::bf16);
  EXPECT_EQ(encoding_named("int8"), Encoding::int8);
  EXPECT_EQ(encoding_named("e3m0"), Encoding::e3m0);
  EXPECT_THROW(encoding_named("fp4"), Error);
}

TEST(CodecTest, F32IsExact) {
  for (const std::size_t size : kSizes) {
    const auto values = random_values(size, size);
    EXPECT_EQ(there_and_back(Encoding::f32, values), values);
  }
}

TEST(CodecTest, Bf16IsTheNearest) {
  for (const std::size_t size : kSizes) {
    const auto values = random_values(size, size);
    const auto back = there_and_back(Encoding::bf16, values);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(static_cast<double>(back[i]), reference_bf16(values[i])) << values[i];
    }
  }
  const auto ties = there_and_back(Encoding::bf16, {1 + 0x1p-8F, 1 + 3 * 0x1p-8F, -1 - 0x1p-8F});
  EXPECT_EQ(ties, (std::vector<float>{1, 1 + 2 * 0x1p-7F, -1}));
  const auto special = there_and_back(
      Encoding::bf16, {kInfinity, -kInfinity, kNan, -kNan, std::bit_cast<float>(0x7F800001),
                       std::numeric_limits<float>::max(), 0x1p-133F});
  EXPECT_EQ(special[0], kInfinity);
  EXPECT_EQ(special[1], -kInfinity);
  EXPECT_TRUE(std::isnan(special[2]) && std::isnan(special[3]) && std::isnan(special[4]));
  EXPECT_EQ(special[5], kInfinity) << "beyond the largest bfloat16";
  EXPECT_EQ(special[6], 0x1p-133F) << "the smallest one";
}

TEST(CodecTest, Int8IsTheNearestStep) {
  for (const std::size_t size : kSizes) {
    const auto values = random_values(size, size);
    for_each_block(values, there_and_back(Encoding::int8, values),
                   [](std::span<const float> block, std::span<const float> back) {
                     const double step = reference_bf16(largest_of(block) / 127);
                     for (std::size_t i = 0; i < block.size(); ++i) {
                       const double steps = step == 0 ? 0 : back[i] / step;
                       ASSERT_NEAR(steps, std::nearbyint(steps), 1e-5);
                       ASSERT_LE(std::abs(steps), 127.00001);
                       ASSERT_LE(std::abs(double{block[i]} - double{back[i]}), 0.50001 * step);
                     }
                   });
  }
}

TEST(CodecTest, E3m0IsTheNearestPowerOfTwoOfTheScale) {
  for (const std::size_t size : kSizes) {
    const auto values = random_values(size, size);
    for_each_block(values, there_and_back(Encoding::e3m0, values),
                   [](std::span<const float> block, std::span<const float> back) {
                     const double scale = reference_bf16(largest_of(block));
                     for (std::size_t i = 0; i < block.size(); ++i) {
                       double nearest = std::abs(double{block[i]});  // distance to zero
                       bool is_level = back[i] == 0;
                       for (int k = 0; k < 7; ++k) {
                         const double level = std::copysign(std::ldexp(scale, -k), block[i]);
                         nearest = std::min(nearest, std::abs(level - double{block[i]}));
                         is_level = is_level || double{back[i]} == level;
                       }
                       ASSERT_TRUE(is_level) << back[i] << " of scale " << scale;
                       ASSERT_NEAR(std::abs(double{back[i]} - double{block[i]}), nearest,
                                   1e-6 * scale);
                     }
                   });
  }
}

TEST(CodecTest, E3m0ByHand) {
  EXPECT_EQ(there_and_back(Encoding::e3m0, {8, -4, 3, 2.9F, 1, 0.124F, 0.07F, -0.05F, 0}),
            (std::vector<float>{8, -4, 4, 2, 1, 0.125F, 0.125F, 0, 0}));
}

TEST(CodecTest, SameBitsOnAnyNumberOfThreads) {
  const auto values = random_values(200'003, 1);
  const auto base = random_values(200'003, 2);
  for (const Encoding encoding : kAll) {
    const Codec one(1);
    const auto [bytes, sum] = one.encode(encoding, values, base);
    for (const int threads : {2, 3, 5}) {
      const Codec several(threads);
      const auto again = several.encode(encoding, values, base);
      EXPECT_EQ(again.bytes, bytes);
      EXPECT_EQ(again.checksum, sum);
      EXPECT_EQ(decoded(several, encoding, bytes, values.size(), base),
                decoded(one, encoding, bytes, values.size(), base));
    }
  }
}

TEST(CodecTest, DifferencesAreAddedToTheBase) {
  const Codec codec(2);
  for (const std::size_t size : kSizes) {
    const auto base = random_values(size, size);
    auto values = base;
    for (std::size_t i = 0; i < size; ++i) values[i] += i % 3 == 0 ? 0.25F : -0.125F;
    for (const Encoding encoding : kAll) {
      const auto bytes = codec.encode(encoding, values, base).bytes;
      const auto back = decoded(codec, encoding, bytes, size, base);
      // The differences are small numbers that all encodings have, but for int8's step.
      const double tolerance = encoding == Encoding::int8 ? 0.6 * 0.25 / 127 : 1e-6;
      for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(back[i], values[i], tolerance);
    }
  }
}

// What is decoded over many messages adds up to what was encoded, but for one message's loss.
TEST(CodecTest, ErrorFeedbackSumsToTheTruth) {
  constexpr int kRounds = 200;
  const Codec codec(1);
  for (const Encoding encoding : kBlocks) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{65}, std::size_t{1000}}) {
      Random random(size);
      std::vector<double> truth(size, 0), sum(size, 0);
      std::vector<float> residual(size, 0);
      double largest = 0;
      for (int round = 0; round < kRounds; ++round) {
        std::vector<float> values(size);
        for (std::size_t i = 0; i < size; ++i) {
          // Each element drifts by its own amount, far below the block's largest for most.
          values[i] = static_cast<float>(std::pow(0.99, static_cast<double>(i % kBlock)) *
                                         (0.001 + 0.01 * random.normal()));
          truth[i] += values[i];
        }
        largest = std::max(largest, largest_of(values));
        const auto bytes = codec.encode(encoding, values, {}, residual).bytes;
        const auto back = decoded(codec, encoding, bytes, size);
        for (std::size_t i = 0; i < size; ++i) sum[i] += back[i];
      }
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_NEAR(sum[i] + residual[i], truth[i], kRounds * 1e-8) << i;
        // A loss is a third of the element at most (half a step with int8) and adds to the next.
        ASSERT_LE(std::abs(residual[i]), largest) << i;
      }
    }
  }
}

TEST(CodecTest, ErrorFeedbackBringsWhatOneMessageCannotHold) {
  constexpr int kRounds = 100;
  const Codec codec(1);
  std::vector<float> values(kBlock, 0.005F);  // below half of 1/64
  values[0] = 1;
  EXPECT_EQ(there_and_back(Encoding::e3m0, values)[1], 0);
  std::vector<float> residual(kBlock, 0);
  double sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    sum += decoded(codec, Encoding::e3m0, codec.encode(Encoding::e3m0, values, {}, residual).bytes,
                   kBlock)[1];
  }
  EXPECT_NEAR(sum, kRounds * 0.005, 1.0 / 64);
}

TEST(CodecTest, WhatIsNotFiniteStaysSoAndSpoilsItsBlockOnly) {
  const Codec codec(1);
  for (const Encoding encoding : kAll) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      std::vector<float> values(3 * kBlock, 1);
      values[kBlock + 7] = bad;
      std::vector<float> residual(has_error_feedback(encoding) ? values.size() : 0, 0);
      const auto bytes = codec.encode(encoding, values, {}, residual).bytes;
      const auto back = decoded(codec, encoding, bytes, values.size());
      EXPECT_FALSE(std::isfinite(back[kBlock + 7]));
      for (std::size_t i = 0; i < kBlock; ++i) {
        EXPECT_EQ(back[i], there_and_back(encoding, {1})[0]);
        EXPECT_EQ(back[2 * kBlock + i], back[i]);
      }
      for (const float left : residual) EXPECT_TRUE(std::isfinite(left));
    }
  }
}

TEST(CodecTest, TinyBlocksStayInTheResidual) {
  const Codec codec(1);
  for (const Encoding encoding : kBlocks) {
    const std::vector<float> values(5, 1e-44F);
    std::vector<float> residual(5, 0);
    const auto bytes = codec.encode(encoding, values, {}, residual).bytes;
    EXPECT_EQ(decoded(codec, encoding, bytes, 5), std::vector<float>(5, 0));
    EXPECT_EQ(residual, values);
  }
}

TEST(CodecTest, OtherLengthsAreRefused) {
  const Codec codec(1);
  std::vector<float> scratch;
  for (const Encoding encoding : kAll) {
    const auto right = codec.encode(encoding, std::vector<float>(100, 1)).bytes;
    for (std::size_t size = 0; size < 2 * right.size(); ++size) {
      const std::vector<std::byte> bytes(size, std::byte{1});
      std::vector<float> values(100, 7);
      const bool fits = size == right.size();
      ASSERT_EQ(codec.decode(encoding, bytes, {}, values), fits);
      ASSERT_EQ(codec.read(encoding, bytes, 100, scratch).has_value(), fits);
      ASSERT_TRUE(fits || values == std::vector<float>(100, 7));
    }
  }
}

TEST(CodecTest, ReadGivesWhatDecodeGives) {
  const Codec codec(1);
  const auto values = random_values(777, 3);
  for (const Encoding encoding : kAll) {
    const auto bytes = codec.encode(encoding, values).bytes;
    std::vector<float> scratch;
    const auto read = codec.read(encoding, bytes, 777, scratch);
    ASSERT_TRUE(read);
    EXPECT_EQ(std::vector<float>(read->begin(), read->end()),
              decoded(codec, encoding, bytes, values.size()));
  }
}

TEST(CodecTest, PartsGiveTheWholeAndItsChecksum) {
  const Codec codec(2);
  constexpr std::size_t kPart = kernels::kWirePart;
  for (const std::size_t size : {std::size_t{1}, kPart - 1, kPart, kPart + 65, 3 * kPart + 7}) {
    const auto values = random_values(size, size);
    const auto base = random_values(size, size + 1);
    for (const Encoding encoding : kAll) {
      const auto [bytes, sum] = codec.encode(encoding, values, base);
      const auto count = static_cast<std::int64_t>(size);
      EXPECT_EQ(sum, kernels::wire_checksum(encoding, bytes.data(), count));
      std::vector<float> back(size, 7);
      Reader reader(codec, encoding, bytes, count, base, back);
      for (std::size_t parts = 1; !reader.done(); ++parts) {
        const std::int64_t end = reader.read_part();
        EXPECT_EQ(end, static_cast<std::int64_t>(std::min(parts * kPart, size)));
      }
      EXPECT_EQ(reader.checksum(), sum);
      EXPECT_EQ(back, decoded(codec, encoding, bytes, size, base));
      Reader only_sums(codec, encoding, bytes, count);
      while (!only_sums.done()) only_sums.read_part();
      EXPECT_EQ(only_sums.checksum(), sum);
    }
  }
}

TEST(CodecTest, EachByteCountsInTheChecksum) {
  const Codec codec(1);
  constexpr std::size_t kSize = kernels::kWirePart + 100;
  const auto values = random_values(kSize, 1);
  for (const Encoding encoding : kAll) {
    auto [bytes, sum] = codec.encode(encoding, values);
    for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 500) {
      bytes[at] ^= std::byte{0x01};
      EXPECT_NE(kernels::wire_checksum(encoding, bytes.data(), kSize), sum) << "byte " << at;
      bytes[at] ^= std::byte{0x01};
    }
  }
}

TEST(CodecTest, AnyBytesDecode) {
  Random random(5);
  const Codec codec(1);
  for (const Encoding encoding : kAll) {
    for (int trial = 0; trial < 200; ++trial) {
      const auto count = static_cast<std::int64_t>(random.below(200));
      std::vector<std::byte> bytes(static_cast<std::size_t>(encoded_size(encoding, count)));
      for (auto& byte : bytes) byte = static_cast<std::byte>(random.below(256));
      std::vector<float> values(static_cast<std::size_t>(count));
      EXPECT_TRUE(codec.decode(encoding, bytes, {}, values));
    }
  }
}

TEST(CodecTest, AnUpdateLeadsToWhatBothSayTogether) {
  const Codec codec(2);
  for (const Encoding encoding : kBlocks) {
    for (const std::size_t count : kSizes) {
      const auto before = codec.encode(Encoding::bf16, random_values(count, 1)).bytes;
      const auto update = codec.encode(encoding, random_values(count, 2)).bytes;
      const auto size = static_cast<std::int64_t>(count);
      const auto after = codec.advance(Encoding::bf16, before, encoding, update, size);
      ASSERT_TRUE(after);
      const auto from = decoded(codec, Encoding::bf16, before, count);
      const auto change = decoded(codec, encoding, update, count);
      const auto to = decoded(codec, Encoding::bf16, *after, count);
      for (std::size_t i = 0; i < count; ++i) {
        const double exact = static_cast<double>(from[i]) + static_cast<double>(change[i]);
        ASSERT_EQ(static_cast<double>(to[i]),
                  reference_bf16(static_cast<double>(static_cast<float>(exact))));
      }
      EXPECT_FALSE(codec.advance(Encoding::bf16, before, encoding, update, size + 64));
      EXPECT_FALSE(
          codec.advance(Encoding::bf16, std::span(before).first(1), encoding, update, size));
    }
  }
}

}  // namespace
}  // namespace archipelago::fragment
