// Training steps on demand, for step.py: each number that comes on standard input is a count of
// steps to run, and the wall and processor seconds that they took go out.
//
//   bench_step layers width heads context vocabulary batch threads
//
// "product" is answered by those of a large matrix product, "memory" by the bytes of memory that
// this process has used at most since before the model was made.

#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "core/random.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "model/optimizer.h"

namespace {

using archipelago::Random;
namespace kernels = archipelago::kernels;
namespace model = archipelago::model;

struct Seconds {
  double wall;
  double processor;
};

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Work>
Seconds seconds(const Work& work) {
  const double processor = processor_seconds();
  const auto start = std::chrono::steady_clock::now();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          processor_seconds() - processor};
}

std::ostream& operator<<(std::ostream& out, const Seconds& seconds) {
  return out << seconds.wall << " " << seconds.processor;
}

// The time of a product of two 2048 x 2048 matrices.
Seconds large_product(int threads) {
  constexpr std::int64_t kSize = 2048;
  const auto device = kernels::make_cpu_kernels(threads);
  const kernels::Buffer a(*device, kSize * kSize);
  const kernels::Buffer b(*device, kSize * kSize);
  const kernels::Buffer c(*device, kSize * kSize);
  const auto multiply = [&] {
    device->matmul(c.data(), a.data(), b.data(), kernels::Transpose::neither, false, kSize, kSize,
                   kSize);
  };
  multiply();
  return seconds(multiply);
}

std::int64_t peak_memory() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::cerr << "usage: bench_step layers width heads context vocabulary batch threads\n";
    return 64;
  }
  const std::int64_t memory_before = peak_memory();
  archipelago::config::Model config;
  config.layers = std::stol(argv[1]);
  config.width = std::stol(argv[2]);
  config.heads = std::stol(argv[3]);
  config.context = std::stol(argv[4]);
  config.vocabulary = std::stol(argv[5]);
  archipelago::config::Train settings;
  settings.batch = std::stol(argv[6]);
  settings.threads = std::stoi(argv[7]);
  const auto network = model::make_model(config, settings.batch, settings.threads);
  network->initialize(1);
  model::AdamW optimizer(network->tensors(), settings, network->kernels());

  Random random(2);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i <= settings.batch * config.context; ++i) {
    const auto bound = static_cast<std::uint64_t>(config.vocabulary);
    tokens.push_back(static_cast<std::int32_t>(random.below(bound)));
  }
  const std::span<const std::int32_t> all = tokens;
  const model::Batch batch{settings.batch, all.first(all.size() - 1), all.subspan(1)};

  for (std::string order; std::cin >> order;) {
    if (order == "product") {
      std::cout << large_product(settings.threads) << std::endl;
    } else if (order == "memory") {
      std::cout << peak_memory() - memory_before << std::endl;
    } else {
      std::cout << seconds([&] {
        for (int step = std::stoi(order); step > 0; --step) {
          network->forward_backward(batch);
          optimizer.step(network->parameters(), network->gradients(), settings.lr);
        }
      }) << std::endl;
    }
  }
}
