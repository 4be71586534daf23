#include "kernel_test.h"

// Attention over what a device's kernels hand to one another: bounds as in compact_test.cc.

namespace archipelago::kernels {
namespace {

using reference::Array;
using reference::magnitudes;
using reference::numeric_gradient;
using reference::product;
using reference::transposed;

struct Sizes {
  std::int64_t B, T, NH, D;
  std::int64_t C() const { return NH * D; }
  std::int64_t rows() const { return B * T; }
};

// rows[T, width] from `column` on, as a matrix [T, D], and the way back, adding.
Array cut(const Array& rows, std::int64_t first_row, std::int64_t column, std::int64_t width,
          const Sizes& sizes) {
  Array matrix;
  for (std::int64_t t = 0; t < sizes.T; ++t) {
    const auto from = rows.begin() + (first_row + t) * width + column;
    matrix.insert(matrix.end(), from, from + sizes.D);
  }
  return matrix;
}
void add_back(Array& rows, const Array& matrix, std::int64_t first_row, std::int64_t column,
              std::int64_t width, const Sizes& sizes) {
  for (std::int64_t i = 0; i < sizes.T * sizes.D; ++i) {
    rows[(first_row + i / sizes.D) * width + column + i % sizes.D] += matrix[i];
  }
}

// Row i of weights[T, T]: softmax of query i's scores with the keys up to its own.
Array causal_softmax(const Array& queries, const Array& keys, const Sizes& sizes) {
  const auto [B, T, NH, D] = sizes;
  Array weights = product(queries, transposed(keys, T, D), T, T, D);
  for (std::int64_t i = 0; i < T; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < T; ++j) {
      double& weight = weights[i * T + j];
      weight = j <= i ? std::exp(weight / std::sqrt(static_cast<double>(D))) : 0;
      sum += weight;
    }
    for (std::int64_t j = 0; j < T; ++j) weights[i * T + j] /= sum;
  }
  return weights;
}

// How results move, as KernelTest::expect_rounded() wants it, when these are rounded: softmax
// weights where they multiply, scores' gradients, results, and the mix where gradients read it.
struct Sensitivity {
  Array out, d_qkv;
};

Sensitivity attention_sensitivity(const Array& qkv, const Array& out, const Array& d_out,
                                  const Array& d_qkv, const Sizes& sizes) {
  const auto [B, T, NH, D] = sizes;
  const std::int64_t C = sizes.C();
  const double scale = 1 / std::sqrt(static_cast<double>(D));
  Sensitivity result{magnitudes(out), magnitudes(d_qkv)};
  for (std::int64_t head = 0; head < B * NH; ++head) {
    const std::int64_t row = head / NH * T;
    const std::int64_t column = head % NH * D;
    const Array queries = cut(qkv, row, column, 3 * C, sizes);
    const Array keys = cut(qkv, row, C + column, 3 * C, sizes);
    const Array values = cut(qkv, row, 2 * C + column, 3 * C, sizes);
    const Array mix = cut(out, row, column, C, sizes);
    const Array d_mix = cut(d_out, row, column, C, sizes);

    const Array weights = causal_softmax(queries, keys, sizes);
    const Array of_weights = product(weights, magnitudes(values), T, D, T);
    add_back(result.out, of_weights, row, column, C, sizes);
    const Array mix_moves = reference::sum(of_weights, magnitudes(mix));

    const Array d_weights = product(d_mix, transposed(values, T, D), T, T, D);
    Array scores_move(T * T);
    for (std::int64_t i = 0; i < T; ++i) {
      double inner = 0;  // what softmax's gradient subtracts in a row
      double inner_moves = 0;
      for (std::int64_t d = i * D; d < (i + 1) * D; ++d) {
        inner += d_mix[d] * mix[d];
        inner_moves += std::abs(d_mix[d]) * mix_moves[d];
      }
      for (std::int64_t j = i * T; j < (i + 1) * T; ++j) {
        scores_move[j] = scale * weights[j] * (inner_moves + std::abs(d_weights[j] - inner));
      }
    }
    add_back(result.d_qkv, product(scores_move, magnitudes(keys), T, D, T), row, column, 3 * C,
             sizes);
    add_back(result.d_qkv, product(transposed(scores_move, T, T), magnitudes(queries), T, D, T),
             row, C + column, 3 * C, sizes);
    add_back(result.d_qkv, product(transposed(weights, T, T), magnitudes(d_mix), T, D, T), row,
             2 * C + column, 3 * C, sizes);
  }
  return result;
}

// Heads that cuDNN has and has not; arrays that it takes where they are, and behind another float.
class CompactAttentionTest : public KernelTest {
 protected:
  void check(const Sizes& sizes, std::int64_t floats_before) {
    const auto [B, T, NH, D] = sizes;
    const std::int64_t C = sizes.C();
    const std::int64_t before = is_bf16() ? 2 * floats_before : floats_before;
    const auto numbers = [&](const TestArray& array) {
      return kernels_->compact(array.data() + floats_before);
    };
    const auto behind = [&](const Array& all) { return Array(all.begin() + before, all.end()); };
    const auto qkv = compact_array(before + sizes.rows() * 3 * C);
    const auto out = compact_array(before + sizes.rows() * C);
    const auto d_out = compact_array(before + sizes.rows() * C);
    const auto d_qkv = compact_array(before + sizes.rows() * 3 * C);
    const auto log_sum = random_array(floats_before + B * NH * T);
    kernels_->attention_forward(numbers(out), log_sum.data() + floats_before, numbers(qkv), true, B,
                                T, C, NH);
    kernels_->attention_backward(numbers(d_qkv), numbers(d_out), numbers(out),
                                 log_sum.data() + floats_before, numbers(qkv), true, B, T, C, NH);

    const Array in = behind(qkv.start);
    const Array d_mix = behind(d_out.start);
    const auto attention = [&](const Array& v) {
      return reference::attention(v, true, sizes.B, sizes.T, C, sizes.NH);
    };
    const auto loss = [&](const Array& v) { return reference::dot(attention(v), d_mix); };
    const Array expected = attention(in);
    const Array d_expected = numeric_gradient(loss, in);
    const Sensitivity sensitivity = attention_sensitivity(in, expected, d_mix, d_expected, sizes);
    expect_rounded(behind(out.now()), expected, sensitivity.out, "out");
    expect_rounded(behind(d_qkv.now()), d_expected, sensitivity.d_qkv, "d_qkv");
    const auto ahead = [&](const Array& all) { return Array(all.begin(), all.begin() + before); };
    EXPECT_EQ(ahead(out.now()), ahead(out.start));
    EXPECT_EQ(ahead(d_qkv.now()), ahead(d_qkv.start));
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, CompactAttentionTest, testing::ValuesIn(backends()),
                         backend_name);

TEST_P(CompactAttentionTest, WhereTheNumbersStand) {
  for (const Sizes& sizes : {Sizes{1, 1, 1, 1}, Sizes{2, 5, 3, 3}, Sizes{2, 5, 2, 8},
                             Sizes{1, 17, 1, 16}, Sizes{1, 7, 1, 18}}) {
    for (const std::int64_t floats_before : {0, 1}) check(sizes, floats_before);
  }
}

}  // namespace
}  // namespace archipelago::kernels
