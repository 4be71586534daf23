#pragma once

#include "kernels/cpu/vector.h"

// Elementary functions of a float or of a Vector, free of branches.

namespace archipelago::kernels {

// e^x within 2 units in the last place for -87 < x < 88, held at the ends outside; NaN stays NaN.
// Range reduction by multiples of ln 2 in two parts and a polynomial (Cody and Waite 1980; the
// coefficients are Cephes' expf).
template <class Float>
Float exponential(Float x) {
  x = smaller(88.0F, larger(-87.0F, x));
  const Float n = nearest(x * 1.44269504088896341F);
  const Float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  Float p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  return p * power_of_two(n);
}

// gelu(u) = u * gelu_gate(u): (1 + tanh z) / 2 is the logistic function of 2z, which loses nothing
// where tanh is near -1. z = sqrt(2/pi) (u + 0.044715 u^3).
template <class Float>
Float gelu_gate(const Float& u) {
  const Float minus_two_z = u * (-1.5957691216057308F - 0.0713548162726F * u * u);
  return reciprocal(1.0F + exponential(minus_two_z));
}

template <class Float>
Float gelu(const Float& u) {
  return u * gelu_gate(u);
}

// d(2z)/du; the gate's derivative is gate * (1 - gate) * this.
template <class Float>
Float gelu_gate_slope(const Float& u) {
  return 1.5957691216057308F + 0.2140644488178F * u * u;
}

}  // namespace archipelago::kernels
