#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Elementary functions in branch-free form, which the compiler vectorises inside `omp simd` loops.

namespace archipelago::kernels {

// e^x within 2 units in the last place for -87 < x < 88, held at the ends outside; NaN stays NaN.
// Range reduction by multiples of ln 2 in two parts and a polynomial (Cody and Waite 1980; the
// coefficients are Cephes' expf).
inline float exponential(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  const float n = std::nearbyint(x * 1.44269504088896341F);
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  return p * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

// gelu(u) = u * gelu_gate(u): (1 + tanh z) / 2 is the logistic function of 2z, which loses nothing
// where tanh is near -1. z = sqrt(2/pi) (u + 0.044715 u^3).
inline float gelu_gate(float u) {
  const float two_z = u * (1.5957691216057308F + 0.0713548162726F * u * u);
  return 1.0F / (1.0F + exponential(-two_z));
}

inline float gelu(float u) { return u * gelu_gate(u); }

// d(2z)/du; the gate's derivative is gate * (1 - gate) * this.
inline float gelu_gate_slope(float u) { return 1.5957691216057308F + 0.2140644488178F * u * u; }

}  // namespace archipelago::kernels
