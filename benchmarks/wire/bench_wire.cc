// bench_wire [MEBIBYTES] [TURNS]
//
// Encoding and decoding of a fragment against a copy of it: f32 bytes of the fragment a second,
// medians over turns in which all take their turn, with one thread and with two. Differences from a
// base, with error feedback where the encoding has it, as learners and syncer use them.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "core/random.h"
#include "kernels/wire.h"

namespace {

using archipelago::kernels::Encoding;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t count = (argc > 1 ? std::atoll(argv[1]) : 64) * (1 << 18);
  const int turns = argc > 2 ? std::atoi(argv[2]) : 9;
  const auto size = static_cast<std::size_t>(count);
  archipelago::Random random(1);
  std::vector<float> values(size), base(size), residual(size, 0), back(size, 0);
  for (std::size_t i = 0; i < size; ++i) {
    base[i] = static_cast<float>(random.uniform() - 0.5);
    values[i] = base[i] + static_cast<float>(0.01 * (random.uniform() - 0.5));
  }
  std::vector<std::byte> bytes(4 * size);
  constexpr struct {
    const char* name;
    Encoding encoding;
  } kEncodings[] = {{"f32", Encoding::f32},
                    {"bf16", Encoding::bf16},
                    {"int8", Encoding::int8},
                    {"e3m0", Encoding::e3m0}};
  for (const int threads : {1, 2}) {
    const auto kernels = archipelago::kernels::make_cpu_wire_kernels(threads);
    std::vector<double> copies;
    std::vector<double> encodes[4];
    std::vector<double> decodes[4];
    for (int turn = 0; turn < turns; ++turn) {
      copies.push_back(seconds_of([&] { std::memcpy(bytes.data(), values.data(), 4 * size); }));
      for (int i = 0; i < 4; ++i) {
        const Encoding encoding = kEncodings[i].encoding;
        const bool feedback = encoding == Encoding::int8 || encoding == Encoding::e3m0;
        encodes[i].push_back(seconds_of([&] {
          kernels->encode(encoding, bytes.data(), values.data(), base.data(),
                          feedback ? residual.data() : nullptr, count);
        }));
        decodes[i].push_back(seconds_of(
            [&] { kernels->decode(encoding, back.data(), base.data(), bytes.data(), count); }));
      }
    }
    const double gigabytes = 4e-9 * static_cast<double>(count);
    std::printf("%d threads: copy on one %.2f GB/s\n", threads, gigabytes / median(copies));
    for (int i = 0; i < 4; ++i) {
      std::printf("  %-5s encode %6.2f GB/s, decode %6.2f GB/s\n", kEncodings[i].name,
                  gigabytes / median(encodes[i]), gigabytes / median(decodes[i]));
    }
  }
}
