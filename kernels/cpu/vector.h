#pragma once

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

inline Vector load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline void store(float* to, const Vector& v) { std::memcpy(to, &v, sizeof v); }

// `n` rounded up to whole vectors.
inline std::int64_t padded(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace archipelago::kernels
