// bench_merge LEARNERS MEBIBYTES PIECE_ELEMENTS THREADS
//
// Reads orders from standard input, one a line, "WHAT N" for N times:
//   merge   a fragment of so many mebibytes, with the norms that were taken on arrival
//   whole   the same, but the norms are taken now
//   arrive  what the syncer does with one learner's fragment as it arrives, on one thread: checks
//   its
//           checksum and takes its norms
//   read    as much memory as the learners' data
// Answers with the seconds that one of them took: by the wall, and of all its threads together.

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "core/random.h"
#include "fragment/codec.h"
#include "sync/merge.h"
#include "sync/norms.h"

namespace {

using archipelago::Random;
namespace fragment = archipelago::fragment;
namespace sync = archipelago::sync;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Written by the threads that will read it, so that each finds its part in its own memory.
std::vector<float> filled(std::int64_t size, float scale, int threads, std::uint64_t seed) {
  std::vector<float> values(size);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t begin = 0; begin < size; begin += 4096) {
    Random random(archipelago::mix_bits(seed + static_cast<std::uint64_t>(begin)));
    for (std::int64_t k = begin; k < std::min<std::int64_t>(begin + 4096, size); ++k) {
      values[k] = scale * static_cast<float>(random.uniform() - 0.5);
    }
  }
  return values;
}

// All learners' values at once: as many streams as a merge reads.
float read_all(const std::vector<std::vector<float>>& learners, int threads) {
  constexpr std::int64_t kRun = 1024;
  float sum = 0;
  const std::int64_t size = static_cast<std::int64_t>(learners.front().size());
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : sum)
  for (std::int64_t begin = 0; begin < size; begin += kRun) {
    for (const std::vector<float>& values : learners) {
      const float* run = values.data() + begin;
      const std::int64_t count = std::min(kRun, size - begin);
#pragma omp simd reduction(+ : sum)
      for (std::int64_t k = 0; k < count; ++k) sum += run[k];
    }
  }
  return sum;
}

sync::SquaredNorms arrive(std::span<const sync::MergePiece> pieces, const std::vector<float>& theta,
                          const std::vector<float>& values) {
  const fragment::Codec codec(1);
  sync::SquaredNorms norms(pieces);
  fragment::Reader reader(codec, fragment::Encoding::f32, std::as_bytes(std::span(values)),
                          std::ssize(values));
  while (!reader.done()) norms.add(theta, values, reader.read_part());
  return norms;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: bench_merge LEARNERS MEBIBYTES PIECE_ELEMENTS THREADS\n";
    return 64;
  }
  const int learners = std::atoi(argv[1]);
  const std::int64_t size = std::atoll(argv[2]) * (1 << 20) / 4;
  const std::int64_t piece_size = std::atoll(argv[3]);
  const int threads = std::atoi(argv[4]);
  std::vector<float> theta = filled(size, 1, threads, 0);
  std::vector<float> momentum = filled(size, 0.01F, threads, 1);
  std::vector<std::vector<float>> values;
  std::vector<sync::MergeInput> inputs;
  for (int i = 0; i < learners; ++i) {
    values.push_back(filled(size, 1, threads, 2 + static_cast<std::uint64_t>(i) * size));
  }
  std::vector<sync::MergePiece> pieces;
  for (std::int64_t begin = 0; begin < size; begin += piece_size) {
    pieces.push_back(
        {begin, std::min(piece_size, size - begin), sync::MergeRule::radial_directional});
  }
  std::vector<sync::SquaredNorms> norms;
  for (int i = 0; i < learners; ++i) norms.push_back(arrive(pieces, theta, values[i]));
  for (int i = 0; i < learners; ++i) {
    inputs.push_back({values[i], 1.0 + i, norms[i].of_pieces()});
  }
  std::vector<sync::MergeInput> without = inputs;
  for (sync::MergeInput& input : without) input.squares = {};
  std::vector<float> new_theta = filled(size, 1, threads, 0);
  std::vector<float> new_momentum = new_theta;
  std::string order;
  int times = 0;
  float sink = 0;
  while (std::cin >> order >> times) {
    const double wall = wall_seconds();
    const double processor = processor_seconds();
    for (int i = 0; i < times; ++i) {
      if (order == "merge" || order == "whole") {
        sync::merge_fragment(pieces, order == "merge" ? inputs : without, {}, {theta, momentum},
                             {new_theta, new_momentum}, threads);
      } else if (order == "arrive") {
        norms[0] = arrive(pieces, theta, values[0]);
      } else {
        sink += read_all(values, threads);
      }
    }
    std::cout << (wall_seconds() - wall) / times << " " << (processor_seconds() - processor) / times
              << std::endl;
  }
  return sink == 1 ? 1 : 0;  // keeps the reads from being left out
}
