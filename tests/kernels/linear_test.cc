#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;
using reference::dot;
using reference::numeric_gradient;

class LinearTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Backends, LinearTest, testing::ValuesIn(backends()), backend_name);

struct Sizes {
  std::int64_t R, I, O;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {3, 5, 7}, {17, 33, 19}, {300, 16, 48}};
// Finite differences cost a forward pass an element.
constexpr Sizes kSmallSizes[] = {{1, 1, 1}, {3, 5, 7}, {17, 9, 19}};

TEST_P(LinearTest, ForwardWithAndWithoutResidual) {
  for (const auto [R, I, O] : kSizes) {
    const auto x = random_array(R * I);
    const auto weight = random_array(I * O);
    const auto bias = random_array(O);
    const auto residual = random_array(R * O);
    const auto y = random_array(R * O);
    const Array expected = reference::linear(x.start, weight.start, bias.start, I);
    kernels_->linear_forward(y.data(), x.data(), weight.data(), bias.data(), nullptr, R, I, O);
    expect_near(y, expected, tolerance(), "y");
    kernels_->linear_forward(y.data(), x.data(), weight.data(), bias.data(), residual.data(), R, I,
                             O);
    expect_near(y, reference::sum(expected, residual.start), tolerance(), "y with residual");
  }
}

TEST_P(LinearTest, GeluForward) {
  for (const auto [R, I, O] : kSizes) {
    const auto x = random_array(R * I);
    const auto weight = random_array(I * O);
    const auto bias = random_array(O);
    const auto pre = random_array(R * O);
    const auto act = random_array(R * O);
    kernels_->linear_gelu_forward(act.data(), pre.data(), x.data(), weight.data(), bias.data(), R,
                                  I, O);
    const Array expected = reference::linear(x.start, weight.start, bias.start, I);
    expect_near(pre, expected, tolerance(), "pre");
    expect_near(act, reference::gelu(expected), tolerance(), "act");
  }
}

TEST_P(LinearTest, Backward) {
  for (const auto [R, I, O] : kSmallSizes) {
    const auto x = random_array(R * I);
    const auto weight = random_array(I * O);
    const auto bias = random_array(O);
    const auto d_y = random_array(R * O);
    const auto d_x = random_array(R * I);
    const auto d_weight = random_array(I * O);
    const auto d_bias = random_array(O);
    kernels_->linear_backward_input(d_x.data(), d_y.data(), weight.data(), R, I, O);
    kernels_->linear_backward_weight(d_weight.data(), d_bias.data(), x.data(), d_y.data(), R, I, O);

    const auto loss = [&, inputs = I](const Array& in, const Array& w, const Array& b) {
      return dot(reference::linear(in, w, b, inputs), d_y.start);
    };
    const auto of_x = [&](const Array& v) { return loss(v, weight.start, bias.start); };
    const auto of_weight = [&](const Array& v) { return loss(x.start, v, bias.start); };
    const auto of_bias = [&](const Array& v) { return loss(x.start, weight.start, v); };
    expect_near(d_x, numeric_gradient(of_x, x.start), tolerance(), "d_x");
    expect_added(d_weight, numeric_gradient(of_weight, weight.start), tolerance(), "d_weight");
    expect_added(d_bias, numeric_gradient(of_bias, bias.start), tolerance(), "d_bias");
  }
}

TEST_P(LinearTest, GeluBackwardRestoresTheOutputAndTurnsTheGradient) {
  for (const std::int64_t count : {1, 15, 16, 1000}) {
    const auto pre = random_array(count, 3);
    const auto d_act = random_array(count);
    kernels_->gelu_backward(d_act.data(), pre.data(), count);
    Array slope;
    for (const double u : pre.start) {
      slope.push_back(
          numeric_gradient([](const Array& v) { return reference::gelu(v)[0]; }, {u})[0]);
    }
    for (std::size_t i = 0; i < slope.size(); ++i) slope[i] *= d_act.start[i];
    expect_near(pre, reference::gelu(pre.start), tolerance(), "act");
    expect_near(d_act, slope, tolerance(), "d_pre");
  }
}

TEST_P(LinearTest, GeluHoldsFarFromZero) {
  std::vector<float> far;
  for (int i = 0; i < 4; ++i) far.insert(far.end(), {-1e4F, -30.0F, -6.0F, 6.0F, 30.0F, 1e4F});
  const auto pre = array_of(far);
  const auto d_act = array_of(std::vector<float>(far.size(), 1.0F));
  kernels_->gelu_backward(d_act.data(), pre.data(), std::ssize(far));
  const Array act = pre.now();
  const Array d_pre = d_act.now();
  for (std::size_t i = 0; i < far.size(); ++i) {
    EXPECT_NEAR(act[i], std::max(far[i], 0.0F), 1e-6 * std::abs(far[i]));
    EXPECT_NEAR(d_pre[i], far[i] > 0 ? 1 : 0, 1e-6);
  }
}

TEST_P(LinearTest, GeluOfNotANumberIsNotANumber) {
  for (const std::size_t where : {3, 17}) {
    std::vector<float> values(18, 0.5F);
    values[where] = std::numeric_limits<float>::quiet_NaN();
    const auto pre = array_of(values);
    const auto d_act = array_of(std::vector<float>(values.size(), 1.0F));
    kernels_->gelu_backward(d_act.data(), pre.data(), std::ssize(values));
    const Array act = pre.now();
    const Array d_pre = d_act.now();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(std::isnan(act[i]), i == where);
      EXPECT_EQ(std::isnan(d_pre[i]), i == where);
    }
  }
}

TEST_P(LinearTest, MatmulInEveryLayout) {
  for (const auto [m, k, n] :
       {Sizes{1, 1, 1}, Sizes{5, 7, 3}, Sizes{3, 7, 40}, Sizes{65, 20, 33}}) {
    const auto a = random_array(m * k);
    const auto b = random_array(k * n);
    const Array a_transposed = reference::transposed(a.start, k, m);
    const Array b_transposed = reference::transposed(b.start, n, k);
    for (const bool add : {false, true}) {
      const auto check = [&](Transpose transpose, const Array& left, const Array& right) {
        const auto c = random_array(m * n);
        kernels_->matmul(c.data(), a.data(), b.data(), transpose, add, m, n, k);
        const Array expected = reference::product(left, right, m, n, k);
        if (add) {
          expect_added(c, expected, tolerance(), "c added");
        } else {
          expect_near(c, expected, tolerance(), "c");
        }
      };
      check(Transpose::neither, a.start, b.start);
      check(Transpose::left, a_transposed, b.start);
      check(Transpose::right, a.start, b_transposed);
    }
  }
}

}  // namespace
}  // namespace archipelago::kernels
