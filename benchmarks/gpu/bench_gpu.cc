// Training steps on a GPU, for gpu.py:
//
//   bench_gpu layers width heads context vocabulary batch steps precision
//
// Writes one JSON object: median seconds a step, the same of steps that each also take and put a
// twenty-fourth of the parameters, as a learner does at step boundaries, operations a step as
// model/size.h counts them, tokens a step. Exit code 78 without a GPU.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "model/optimizer.h"
#include "model/size.h"

namespace {

namespace kernels = archipelago::kernels;
namespace model = archipelago::model;
using Clock = std::chrono::steady_clock;

constexpr int kFragments = 24;
constexpr int kWarmUp = 10;

struct Settings {
  archipelago::config::Model model;
  std::int64_t batch;
  int steps;
  kernels::Precision precision;
};

struct StepSeconds {
  double plain;
  double exchanging;
};

// What a learner does with a fragment at each boundary.
class Exchange {
 public:
  Exchange(kernels::Kernels& kernels, std::span<float> parameters)
      : parameters_(parameters),
        mover_(kernels.make_mover({})),
        part_{{0, static_cast<std::int64_t>(parameters.size()) / kFragments}} {}

  void at_boundary() {
    if (const auto taken = mover_->taken()) {
      mover_->put(0, parameters_.data(), part_, kernels::Encoding::f32, taken->bytes());
      under_way_ = false;
    }
    if (under_way_) return;
    mover_->take(0, parameters_.data(), part_, false);
    under_way_ = true;
  }

 private:
  std::span<float> parameters_;
  std::unique_ptr<kernels::Mover> mover_;
  std::vector<kernels::Part> part_;
  bool under_way_ = false;
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

StepSeconds median_step_seconds(const Settings& settings) {
  const std::shared_ptr<kernels::Kernels> kernels = kernels::make_cuda_kernels(
      {.kind = kernels::Device::Kind::cuda, .precision = settings.precision});
  const auto network = model::make_model(settings.model, settings.batch, kernels);
  network->initialize(1);
  model::AdamW optimizer(network->tensors(), {}, *kernels);
  Exchange exchange(*kernels, network->parameters());

  archipelago::Random random(2);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i <= settings.batch * settings.model.context; ++i) {
    const auto bound = static_cast<std::uint64_t>(settings.model.vocabulary);
    tokens.push_back(static_cast<std::int32_t>(random.below(bound)));
  }
  const std::span<const std::int32_t> all = tokens;
  const model::Batch batch{settings.batch, all.first(all.size() - 1), all.subspan(1)};

  // Plain and exchanging steps in turn, so that both meet the same clocks and temperature.
  std::array<std::vector<double>, 2> seconds;
  for (int step = 0; step < 2 * (kWarmUp + settings.steps); ++step) {
    const bool exchanging = step % 2 == 1;
    // Each step ends with the gradients' norm on the host; the next one's start ends its kernels.
    const auto started = Clock::now();
    if (exchanging) exchange.at_boundary();
    network->forward_backward(batch);
    optimizer.step(network->parameters(), network->gradients(), 1e-4);
    if (step >= 2 * kWarmUp) {
      seconds[exchanging].push_back(std::chrono::duration<double>(Clock::now() - started).count());
    }
  }
  return {median(seconds[0]), median(seconds[1])};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 9) {
    std::cerr << "usage: bench_gpu layers width heads context vocabulary batch steps f32|bf16\n";
    return 64;
  }
  Settings settings;
  settings.model.layers = std::stol(argv[1]);
  settings.model.width = std::stol(argv[2]);
  settings.model.heads = std::stol(argv[3]);
  settings.model.context = std::stol(argv[4]);
  settings.model.vocabulary = std::stol(argv[5]);
  settings.batch = std::stol(argv[6]);
  settings.steps = std::stoi(argv[7]);
  settings.precision =
      std::string(argv[8]) == "f32" ? kernels::Precision::f32 : kernels::Precision::bf16;
  const StepSeconds seconds = median_step_seconds(settings);
  const auto step_tokens = static_cast<double>(settings.batch * settings.model.context);
  std::cout << "{\"step_s\": " << seconds.plain << ", \"exchanging_step_s\": " << seconds.exchanging
            << ", \"tokens\": " << step_tokens
            << ", \"operations\": " << step_tokens * model::size_of(settings.model).flops << "}\n";
  return 0;
} catch (const archipelago::Error& error) {
  std::cerr << "bench_gpu: " << error.what() << "\n";
  return static_cast<int>(error.code());
}
