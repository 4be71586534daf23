#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;

class AttentionTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Backends, AttentionTest, testing::ValuesIn(backends()), backend_name);

struct Sizes {
  std::int64_t B, T, NH, D;
};

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

// Over several key blocks finite differences of every element take too long; along one direction
// they still see every element.
TEST_P(AttentionTest, BackwardOverSeveralBlocks) {
  constexpr Sizes kSizes{1, 300, 1, 33};
  const auto [B, T, NH, D] = kSizes;
  const std::int64_t C = NH * D;
  const auto qkv = random_array(B * T * 3 * C);
  const auto direction = random_array(B * T * 3 * C);
  const auto out = random_array(B * T * C);
  const auto log_sum = random_array(B * NH * T);
  const auto d_out = random_array(B * T * C);
  const auto d_qkv = random_array(B * T * 3 * C);
  for (const bool causal : {true, false}) {
    kernels_->attention_forward(out.data(), log_sum.data(), qkv.data(), causal, B, T, C, NH);
    kernels_->attention_backward(d_qkv.data(), d_out.data(), out.data(), log_sum.data(), qkv.data(),
                                 causal, B, T, C, NH);
    const auto loss = [&](const Array& along) {
      Array moved = qkv.start;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += along[0] * direction.start[i];
      return reference::dot(reference::attention(moved, causal, kSizes.B, kSizes.T, C, kSizes.NH),
                            d_out.start);
    };
    double slope = 0;
    double size = 0;
    const Array gradient = d_qkv.now();
    for (std::size_t i = 0; i < direction.start.size(); ++i) {
      slope += gradient[i] * direction.start[i];
      size += std::pow(gradient[i], 2);
    }
    EXPECT_NEAR(slope, reference::numeric_gradient(loss, {0.0})[0], tolerance() * std::sqrt(size));
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
