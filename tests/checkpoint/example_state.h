#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "core/random.h"

namespace archipelago::checkpoint {

// A folder of its own that is gone after the test.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("checkpoint_test." + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

// Tensors whose order is not the alphabet's; the first needs two chunks.
inline Common example_common(std::uint64_t seed) {
  using model::TensorRole;
  Common common;
  common.tensors = {{"wte.weight", {700, 401}, 0, 280'700, TensorRole::table},
                    {"h.0.ln_1.bias", {32}, 280'700, 32, TensorRole::vector},
                    {"h.0.attn.c_attn.weight", {32, 96}, 280'732, 3072, TensorRole::matrix}};
  common.parameters = random_floats(283'804, seed);
  common.fragment_of_tensor = {0, 1, 1};
  common.versions = {4, 3};
  common.config = {{"model.kind", "gpt"}, {"train.lr", "0.003"}, {"data.path", "höhle.h5"}};
  return common;
}

inline Global example_global(std::int64_t round, std::uint64_t seed = 1) {
  Global state;
  state.common = example_common(seed);
  state.momentum = random_floats(state.common.parameters.size(), seed + 100);
  state.round = round;
  state.incarnations = {0, 2, 1};
  state.merged_tokens = {1, 2, 3, 4, 5, std::int64_t{1} << 40};
  state.tokens = 123'456'789'012;
  return state;
}

inline Learner example_learner(int learner, std::int64_t step, std::uint64_t seed = 1) {
  Learner state;
  state.common = example_common(seed);
  state.learner = learner;
  state.incarnation = 3;
  state.step = step;
  state.tokens = step * 2048;
  state.cursor = 4711;
  state.adam_steps = step - 1;
  state.adam_m = random_floats(state.common.parameters.size(), seed + 200);
  state.adam_v = random_floats(state.common.parameters.size(), seed + 300);
  for (float& moment : state.adam_v) moment = std::abs(moment);
  state.random_state = 0xFEDCBA9876543210;
  state.steps_since = {7, 9};
  state.tokens_since = {14'336, 18'432};
  return state;
}

inline void expect_same(const Common& a, const Common& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].name, b.tensors[i].name);
    EXPECT_EQ(a.tensors[i].shape, b.tensors[i].shape);
    EXPECT_EQ(a.tensors[i].offset, b.tensors[i].offset);
    EXPECT_EQ(a.tensors[i].size, b.tensors[i].size);
    EXPECT_EQ(a.tensors[i].role, b.tensors[i].role);
  }
  EXPECT_EQ(a.parameters, b.parameters);
  EXPECT_EQ(a.fragment_of_tensor, b.fragment_of_tensor);
  EXPECT_EQ(a.versions, b.versions);
  EXPECT_EQ(a.config, b.config);
}

inline void expect_same(const Global& a, const Global& b) {
  expect_same(a.common, b.common);
  EXPECT_EQ(a.momentum, b.momentum);
  EXPECT_EQ(a.round, b.round);
  EXPECT_EQ(a.incarnations, b.incarnations);
  EXPECT_EQ(a.merged_tokens, b.merged_tokens);
  EXPECT_EQ(a.tokens, b.tokens);
}

inline void expect_same(const Learner& a, const Learner& b) {
  expect_same(a.common, b.common);
  EXPECT_EQ(a.learner, b.learner);
  EXPECT_EQ(a.incarnation, b.incarnation);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.cursor, b.cursor);
  EXPECT_EQ(a.adam_steps, b.adam_steps);
  EXPECT_EQ(a.adam_m, b.adam_m);
  EXPECT_EQ(a.adam_v, b.adam_v);
  EXPECT_EQ(a.random_state, b.random_state);
  EXPECT_EQ(a.steps_since, b.steps_since);
  EXPECT_EQ(a.tokens_since, b.tokens_since);
}

// Names of what is in a folder, sorted.
inline std::vector<std::string> listing(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace archipelago::checkpoint
