#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace archipelago {

// Mixes 64 bits so that every input bit moves every output bit (Steele, Lea, Flood 2014, SplitMix64).
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// SplitMix64 as a generator: the same seed gives the same numbers on every machine and standard
// library, and its whole state is one word, so that a checkpoint can hold it.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    const std::uint64_t value = mix_bits(state_);
    state_ += 0x9E3779B97F4A7C15ULL;
    return value;
  }

  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // Uniform in [0, bound); bound > 0 (Lemire's multiply-shift; bias below 2^-32 for bound < 2^32).
  std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }

  // Standard normal, Box-Muller.
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

  // Exponential with the given mean.
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }

  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_;
};

}  // namespace archipelago
