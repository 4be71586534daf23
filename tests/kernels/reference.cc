#include "reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace archipelago::reference {

Array embedding(const std::vector<std::int32_t>& tokens, const Array& token_table,
                const Array& position_table, std::int64_t T, std::int64_t C) {
  Array x;
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    for (std::int64_t c = 0; c < C; ++c) {
      x.push_back(token_table[tokens[r] * C + c] +
                  position_table[static_cast<std::int64_t>(r) % T * C + c]);
    }
  }
  return x;
}

Array layer_norm(const Array& x, const Array& weight, const Array& bias) {
  const std::size_t C = weight.size();
  Array y(x.size());
  for (std::size_t start = 0; start < x.size(); start += C) {
    double mean = 0;
    double variance = 0;
    for (std::size_t c = 0; c < C; ++c) mean += x[start + c] / static_cast<double>(C);
    for (std::size_t c = 0; c < C; ++c) {
      variance += std::pow(x[start + c] - mean, 2) / static_cast<double>(C);
    }
    for (std::size_t c = 0; c < C; ++c) {
      y[start + c] = (x[start + c] - mean) / std::sqrt(variance + 1e-5) * weight[c] + bias[c];
    }
  }
  return y;
}

Array product(const Array& a, const Array& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  Array c(m * n, 0.0);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return c;
}

Array transposed(const Array& a, std::int64_t rows, std::int64_t columns) {
  Array t(a.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  }
  return t;
}

Array linear(const Array& x, const Array& weight, const Array& bias, std::int64_t I) {
  const auto O = static_cast<std::int64_t>(bias.size());
  const auto R = static_cast<std::int64_t>(x.size()) / I;
  Array y = product(x, weight, R, O, I);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i % bias.size()];
  return y;
}

Array gelu(const Array& x) {
  Array y;
  for (const double u : x) {
    const double z = std::sqrt(2.0 / std::numbers::pi) * (u + 0.044715 * u * u * u);
    y.push_back(0.5 * u * (1.0 + std::tanh(z)));
  }
  return y;
}

Array attention(const Array& qkv, bool causal, std::int64_t B, std::int64_t T, std::int64_t C,
                std::int64_t NH) {
  const std::int64_t D = C / NH;
  Array out(B * T * C, 0.0);
  // Column `part` * C + head * D + d of sequence b's position t.
  const auto at = [&](std::int64_t b, std::int64_t t, std::int64_t part, std::int64_t head,
                      std::int64_t d) {
    return qkv[(b * T + t) * 3 * C + part * C + head * D + d];
  };
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t head = 0; head < NH; ++head) {
      for (std::int64_t t = 0; t < T; ++t) {
        const std::int64_t keys = causal ? t + 1 : T;
        Array weights;
        double total = 0;
        for (std::int64_t s = 0; s < keys; ++s) {
          double score = 0;
          for (std::int64_t d = 0; d < D; ++d) score += at(b, t, 0, head, d) * at(b, s, 1, head, d);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(D))));
          total += weights.back();
        }
        for (std::int64_t s = 0; s < keys; ++s) {
          for (std::int64_t d = 0; d < D; ++d) {
            out[(b * T + t) * C + head * D + d] += weights[s] / total * at(b, s, 2, head, d);
          }
        }
      }
    }
  }
  return out;
}

Array cross_entropy(const Array& logits, const std::vector<std::int32_t>& targets, std::int64_t V) {
  Array losses;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    const double* row = logits.data() + static_cast<std::int64_t>(r) * V;
    const double largest = *std::max_element(row, row + V);
    double total = 0;
    for (std::int64_t v = 0; v < V; ++v) total += std::exp(row[v] - largest);
    losses.push_back(targets[r] < 0 ? 0.0 : std::log(total) + largest - row[targets[r]]);
  }
  return losses;
}

Array sum(const Array& a, const Array& b) {
  Array c(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) c[i] = a[i] + b[i];
  return c;
}

Array magnitudes(Array x) {
  for (double& value : x) value = std::abs(value);
  return x;
}

Array scaled(Array x, double factor) {
  for (double& value : x) value *= factor;
  return x;
}

double dot(const Array& a, const Array& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

Array numeric_gradient(const std::function<double(const Array&)>& function, Array x) {
  constexpr double kStep = 1e-5;
  Array gradient;
  for (double& value : x) {
    const double kept = value;
    value = kept + kStep;
    const double above = function(x);
    value = kept - kStep;
    const double below = function(x);
    value = kept;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

LayerNormGradients layer_norm_gradients(const Array& x, const Array& weight, const Array& bias,
                                        const Array& d_y) {
  const auto loss = [&](const Array& in, const Array& w, const Array& b) {
    return dot(layer_norm(in, w, b), d_y);
  };
  return {numeric_gradient([&](const Array& v) { return loss(v, weight, bias); }, x),
          numeric_gradient([&](const Array& v) { return loss(x, v, bias); }, weight),
          numeric_gradient([&](const Array& v) { return loss(x, weight, v); }, bias)};
}

}  // namespace archipelago::reference
