#pragma once

#include <cstdint>
#include <functional>
#include <vector>

// The kernels' formulas again, in double, scalar and without regard for speed; gradients come from
// finite differences of these. Shapes and letters as in kernels/kernels.h.

namespace archipelago::reference {

using Array = std::vector<double>;

Array embedding(const std::vector<std::int32_t>& tokens, const Array& token_table,
                const Array& position_table, std::int64_t T, std::int64_t C);
Array layer_norm(const Array& x, const Array& weight, const Array& bias);
// a[m, k] b[k, n].
Array product(const Array& a, const Array& b, std::int64_t m, std::int64_t n, std::int64_t k);
Array transposed(const Array& a, std::int64_t rows, std::int64_t columns);
Array linear(const Array& x, const Array& weight, const Array& bias, std::int64_t I);
Array gelu(const Array& x);
Array attention(const Array& qkv, bool causal, std::int64_t B, std::int64_t T, std::int64_t C,
                std::int64_t NH);
// -log softmax(row)[target] of each row, 0 where the target is -1.
Array cross_entropy(const Array& logits, const std::vector<std::int32_t>& targets, std::int64_t V);
Array sum(const Array& a, const Array& b);
Array magnitudes(Array x);
Array scaled(Array x, double factor);
double dot(const Array& a, const Array& b);

// d function / d x by central differences.
Array numeric_gradient(const std::function<double(const Array&)>& function, Array x);

struct LayerNormGradients {
  Array x, weight, bias;
};
// Of dot(layer_norm(x, weight, bias), d_y).
LayerNormGradients layer_norm_gradients(const Array& x, const Array& weight, const Array& bias,
                                        const Array& d_y);

}  // namespace archipelago::reference
