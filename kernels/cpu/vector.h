#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace archipelago::kernels {

#if defined(__AVX512F__)
constexpr std::int64_t kLanes = 16;  // floats in a vector register
constexpr int kRegisters = 32;
#else
constexpr std::int64_t kLanes = 8;
constexpr int kRegisters = 16;
#endif

using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));

template <class Float = Vector>
Float load(const float* from) {
  Float v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class Float>
void store(float* to, const Float& v) {
  std::memcpy(to, &v, sizeof v);
}

// `n` rounded up to whole vectors.
inline std::int64_t padded(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// body.operator()<Float>(i) for i < n: with Vector for the kLanes elements from i on, with float
// for each one of the rest.
template <class Body>
void over_lanes(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body.template operator()<Vector>(i);
  for (; i < n; ++i) body.template operator()<float>(i);
}

// What the functions of vector_math.h are made of, for one float and for a vector of them. Where
// one of a and b is NaN, larger() and smaller() are b.
inline float larger(float a, float b) { return a > b ? a : b; }
inline float smaller(float a, float b) { return a < b ? a : b; }
inline float nearest(float x) { return std::nearbyint(x); }
inline float reciprocal(float x) { return 1.0F / x; }
inline float power_of_two(float n) {
  return std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

#if defined(__AVX512F__)
// Masked forms with all lanes on: GCC 12 takes the plain ones' inside for uninitialised.
constexpr __mmask16 kAll = 0xffff;
inline Vector larger(float a, const Vector& b) {
  return _mm512_maskz_max_ps(kAll, _mm512_set1_ps(a), b);
}
inline Vector smaller(float a, const Vector& b) {
  return _mm512_maskz_min_ps(kAll, _mm512_set1_ps(a), b);
}
inline Vector nearest(const Vector& x) {
  return _mm512_maskz_roundscale_ps(kAll, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// Within 1 unit in the last place for finite x that are not subnormal: a step of Newton's from an
// estimate of 14 bits.
inline Vector reciprocal(const Vector& x) {
  const Vector estimate = _mm512_maskz_rcp14_ps(kAll, x);
  return estimate * (2.0F - x * estimate);
}
#else
inline Vector larger(float a, const Vector& b) { return a > b ? Vector{} + a : b; }
inline Vector smaller(float a, const Vector& b) { return a < b ? Vector{} + a : b; }
inline Vector nearest(Vector x) {
  for (std::int64_t lane = 0; lane < kLanes; ++lane) x[lane] = std::nearbyint(x[lane]);
  return x;
}
inline Vector reciprocal(const Vector& x) { return 1.0F / x; }
#endif

inline Vector power_of_two(const Vector& n) {
  using Integers = std::int32_t __attribute__((vector_size(sizeof(Vector))));
  return std::bit_cast<Vector>((__builtin_convertvector(n, Integers) + 127) << 23);
}

}  // namespace archipelago::kernels
