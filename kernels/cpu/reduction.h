#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cpu/vector.h"

// Sums whose partial sums stay in a register. GCC keeps those of an `omp simd reduction(+)` on the
// stack and adds them up one after another, which costs more than a short row itself.

namespace archipelago::kernels {

// v + v turned by Step lanes.
template <std::int64_t Step, int... Lane>
Vector add_turned(const Vector& v, std::integer_sequence<int, Lane...>) {
  return v + __builtin_shufflevector(v, v, ((Lane + Step) % kLanes)...);
}

// The sum of all lanes, in a tree.
inline float sum_lanes(Vector v) {
  constexpr auto kAllLanes = std::make_integer_sequence<int, static_cast<int>(kLanes)>();
  if constexpr (kLanes == 16) v = add_turned<8>(v, kAllLanes);
  v = add_turned<4>(v, kAllLanes);
  v = add_turned<2>(v, kAllLanes);
  v = add_turned<1>(v, kAllLanes);
  return v[0];
}

// The sum over i < n of term.operator()<Float>(i), as over_lanes() calls it.
template <class Term>
float sum(std::int64_t n, const Term& term) {
  Vector sums{};
  float rest = 0;
  over_lanes(n, [&]<class Float>(std::int64_t i) {
    if constexpr (std::is_same_v<Float, Vector>) {
      sums += term.template operator()<Vector>(i);
    } else {
      rest += term.template operator()<float>(i);
    }
  });
  return sum_lanes(sums) + rest;
}

// a[n] . b[n].
inline float dot(const float* a, const float* b, std::int64_t n) {
  return sum(n,
             [&]<class Float>(std::int64_t i) { return load<Float>(a + i) * load<Float>(b + i); });
}

}  // namespace archipelago::kernels
