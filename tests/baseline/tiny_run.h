#pragma once

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "baseline/method.h"
#include "baseline/train.h"
#include "core/random.h"
#include "data/token_dataset.h"
#include "data/token_file.h"
#include "kernels/kernels.h"
#include "runtime/global_state.h"
#include "runtime/learner_state.h"
#include "runtime/setup.h"
#include "shared_mean.h"

namespace archipelago::baseline {

inline config::RunConfig tiny_config(const std::string& method, int learners) {
  config::RunConfig config;
  config.method = method;
  config.model.layers = 1;
  config.model.width = 6;
  config.model.heads = 2;
  config.model.context = 5;
  config.train.batch = 2;
  config.train.warmup = 3;
  config.train.steps = 40;
  config.train.lr = 0.02;
  config.sync.learners = learners;
  return resolved(config);
}

inline data::TokenDataset tiny_dataset() {
  const auto path = std::filesystem::temp_directory_path() /
                    ("baseline_test." + std::to_string(::getpid()) + ".h5");
  data::TokenFile file;
  file.vocabulary = 11;
  Random random(5);
  for (int i = 0; i < 1000; ++i) {
    file.train.push_back(static_cast<std::uint16_t>(random.below(file.vocabulary)));
  }
  file.validation = {1, 2, 3};
  file.train_bytes = 1000;
  file.validation_bytes = 3;
  data::write_token_file(path, file);
  data::TokenDataset dataset(path);
  std::filesystem::remove(path);
  return dataset;
}

inline runtime::Setup setup_of(config::RunConfig config, const data::Dataset& dataset) {
  config.model = runtime::fit_model(config.model, dataset, "the test's data");
  return runtime::make_setup(config);
}

using MakeMethod = std::function<std::unique_ptr<Method>(const runtime::Setup&,
                                                         runtime::LearnerState&, Averager&)>;

// A first life that holds the initial parameters.
inline void begin(const runtime::Setup& setup, runtime::LearnerState& state) {
  state.begin(0, 0, nullptr);
  state.take_fixed_share();
  const runtime::GlobalState initial(setup);
  for (int p = 0; p < setup.fragment_count(); ++p) state.receive(p, 0, *initial.theta(p));
}

// One learner a thread, each `steps` inner steps by the method and its finish(); what learner 0
// ends with.
inline checkpoint::Global train(const runtime::Setup& setup, const data::TokenDataset& dataset,
                                std::int64_t steps, const MakeMethod& make) {
  SharedMean mean(setup.config.sync.learners);
  checkpoint::Global result;
  std::vector<std::thread> threads;
  for (int learner = 0; learner < setup.config.sync.learners; ++learner) {
    threads.emplace_back([&, learner] {
      SharedAverager averager(mean);
      runtime::LearnerState state(setup, dataset, kernels::make_cpu_kernels(1), learner, 0, 1);
      begin(setup, state);
      const auto method = make(setup, state, averager);
      for (std::int64_t step = 1; step <= steps; ++step) method->step(step);
      method->finish();
      if (learner == 0) result = method->result();
    });
  }
  for (auto& thread : threads) thread.join();
  return result;
}

// ||a - b|| / ||b - origin||.
template <typename A, typename B, typename C>
double relative_distance(const A& a, const B& b, const C& origin) {
  double difference = 0;
  double movement = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    movement += std::pow(static_cast<double>(b[i]) - static_cast<double>(origin[i]), 2);
  }
  return std::sqrt(difference / movement);
}

}  // namespace archipelago::baseline
