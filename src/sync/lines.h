#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

// Arithmetic on a cache line of elements at a time, as the compiler's vectors: the lanes, and so
// the order of every sum, are the same on every processor. Part of merge.cc and norms.cc.
namespace archipelago::sync {

// How far ahead of its use an element is fetched into the second-level cache.
constexpr std::int64_t kAhead = 1024;

// A cache line of elements, and its halves in double precision.
using Line = float __attribute__((vector_size(64)));
using HalfLine = float __attribute__((vector_size(32)));
using Doubles = double __attribute__((vector_size(64)));
constexpr std::int64_t kLanes = 16;

inline Line load(const float* values) {
  Line line;
  std::memcpy(&line, values, sizeof line);
  return line;
}

inline void store(const Line& line, float* values) { std::memcpy(values, &line, sizeof line); }

// The hardware follows a stream only while it is read; a merge takes turns between many.
inline void prefetch(const float* values) { __builtin_prefetch(values + kAhead, 0, 2); }

inline Line filled(float value) { return value - Line{}; }

inline Doubles widen(const HalfLine& half) {
#ifdef __AVX512F__
  return _mm512_maskz_cvtps_pd(0xFF, half);  // GCC 12 makes eight instructions of the other
#else
  return __builtin_convertvector(half, Doubles);
#endif
}

inline double sum_lanes(const Doubles& lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// A sum of squares in double precision, lane by lane.
class Squares {
 public:
  void add(const Line& line) {
    HalfLine halves[2];
    std::memcpy(halves, &line, sizeof line);
    const Doubles first = widen(halves[0]);
    const Doubles second = widen(halves[1]);
    low_ += first * first;
    high_ += second * second;
  }

  double total() const { return sum_lanes(low_ + high_); }

 private:
  Doubles low_{};
  Doubles high_{};
};

}  // namespace archipelago::sync
