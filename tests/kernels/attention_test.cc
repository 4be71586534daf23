#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;

struct Sizes {
  std::int64_t B, T, NH, D;
};

class AttentionTest : public KernelTest {
 protected:
  // Backward against finite differences along one direction, d_qkv[B*T, 3*C]: over many positions
  // those of every element take too long, and along a direction they still see every one.
  void expect_slope(const TestArray& qkv, const Array& direction, const Sizes& sizes, bool causal) {
    const auto [B, T, NH, D] = sizes;
    const std::int64_t C = NH * D;
    const auto out = random_array(B * T * C);
    const auto log_sum = random_array(B * NH * T);
    const auto d_out = random_array(B * T * C);
    const auto d_qkv = random_array(B * T * 3 * C);
    kernels_->attention_forward(out.data(), log_sum.data(), qkv.data(), causal, B, T, C, NH);
    kernels_->attention_backward(d_qkv.data(), d_out.data(), out.data(), log_sum.data(), qkv.data(),
                                 causal, B, T, C, NH);
    const auto loss = [&, c = C](const Array& along) {
      Array moved = qkv.start;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += along[0] * direction[i];
      return reference::dot(reference::attention(moved, causal, sizes.B, sizes.T, c, sizes.NH),
                            d_out.start);
    };
    double slope = 0;
    double size = 0;
    const Array gradient = d_qkv.now();
    for (std::size_t i = 0; i < direction.size(); ++i) {
      ASSERT_TRUE(std::isfinite(gradient[i])) << "at " << i << ", T " << T;
      if (direction[i] == 0) continue;
      slope += gradient[i] * direction[i];
      size += std::pow(gradient[i], 2);
    }
    EXPECT_NEAR(slope, reference::numeric_gradient(loss, {0.0})[0], tolerance() * std::sqrt(size))
        << "T " << T;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, AttentionTest, testing::ValuesIn(backends()), backend_name);

TEST_P(AttentionTest, Forward) {
  // Within one block of queries and keys, over several of each, at their edges; every tile width.
  for (const auto [B, T, NH, D] :
       {Sizes{1, 1, 1, 1}, Sizes{2, 5, 3, 3}, Sizes{1, 33, 2, 16}, Sizes{1, 128, 1, 20},
        Sizes{1, 129, 1, 40}, Sizes{1, 290, 1, 64}, Sizes{1, 40, 1, 80}}) {
    const std::int64_t C = NH * D;
    for (const bool causal : {true, false}) {
      const auto qkv = random_array(B * T * 3 * C);
      const auto out = random_array(B * T * C);
      const auto log_sum = random_array(B * NH * T);
      kernels_->attention_forward(out.data(), log_sum.data(), qkv.data(), causal, B, T, C, NH);
      expect_near(out, reference::attention(qkv.start, causal, B, T, C, NH), tolerance(), "out");
    }
  }
}

TEST_P(AttentionTest, BackwardOverwrites) {
  for (const auto [B, T, NH, D] :
       {Sizes{1, 1, 1, 1}, Sizes{2, 5, 3, 3}, Sizes{1, 35, 1, 5}, Sizes{1, 17, 1, 18}}) {
    const std::int64_t C = NH * D;
    for (const bool causal : {true, false}) {
      const auto qkv = random_array(B * T * 3 * C);
      const auto out = random_array(B * T * C);
      const auto log_sum = random_array(B * NH * T);
      const auto d_out = random_array(B * T * C);
      const auto d_qkv = random_array(B * T * 3 * C);
      kernels_->attention_forward(out.data(), log_sum.data(), qkv.data(), causal, B, T, C, NH);
      kernels_->attention_backward(d_qkv.data(), d_out.data(), out.data(), log_sum.data(),
                                   qkv.data(), causal, B, T, C, NH);
      const auto loss = [&, b = B, t = T, nh = NH](const Array& v) {
        return reference::dot(reference::attention(v, causal, b, t, C, nh), d_out.start);
      };
      expect_near(d_qkv, reference::numeric_gradient(loss, qkv.start), tolerance(), "d_qkv");
    }
  }
}

TEST_P(AttentionTest, BackwardOverSeveralBlocks) {
  constexpr Sizes kSizes{1, 300, 1, 33};
  const auto qkv = random_array(kSizes.T * 3 * kSizes.D);
  const Array direction = random_array(kSizes.T * 3 * kSizes.D).start;
  for (const bool causal : {true, false}) expect_slope(qkv, direction, kSizes, causal);
}

// Every score near -100, so that exp(-log_sum) is no number: what counts keys beyond the last as
// zeros, in a tile of 128 that is not full, makes NaNs of them.
TEST_P(AttentionTest, BackwardOfScoresFarBelowZero) {
  constexpr std::int64_t kD = 16;
  for (const std::int64_t T : {64, 192}) {
    std::vector<float> values, along;
    for (std::int64_t i = 0; i < T * 3 * kD; ++i) {
      const std::int64_t part = i / kD % 3;
      const bool leads = i % kD == 0 && part < 2;
      values.push_back(leads ? (part == 0 ? 1 : -400) : static_cast<float>(random_.normal()));
      // Where a query's gradient is 400 times a sum that should be zero, rounding is all there is.
      along.push_back(leads && part == 0 ? 0 : static_cast<float>(random_.normal()));
    }
    const auto qkv = array_of(values);
    for (const bool causal : {true, false}) {
      expect_slope(qkv, Array(along.begin(), along.end()), {1, T, 1, kD}, causal);
    }
  }
}

TEST_P(AttentionTest, LargeScoresStayFinite) {
  const std::int64_t T = 40;
  const auto qkv = random_array(T * 3 * 16, 60);
  const auto out = random_array(T * 16);
  const auto log_sum = random_array(T);
  kernels_->attention_forward(out.data(), log_sum.data(), qkv.data(), true, 1, T, 16, 1);
  for (const double value : out.now()) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace archipelago::kernels
