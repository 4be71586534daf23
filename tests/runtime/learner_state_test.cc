#include "runtime/learner_state.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "core/random.h"
#include "data/image_file.h"
#include "tests/runtime/tiny_setup.h"
#include "tests/runtime/tiny_text.h"

namespace archipelago::runtime {
namespace {

// Where they are: nothing has to be copied on a processor.
checkpoint::LearnerArrays arrays_of(LearnerState& state) {
  std::vector<float> no_room;
  return state.arrays(no_room);
}

std::shared_ptr<kernels::Kernels> kernels() { return kernels::make_cpu_kernels(1); }

// Runs of a learner whose island has one rank, on data files of the test's own.
class LearnerStateTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("learner_state_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    write_tiny_text(folder_ / "a.h5", 1);
    write_tiny_text(folder_ / "b.h5", 2);
    write_images();
    config_.model.patch = 2;
    config_.data.path = (folder_ / "a.h5").string();
    config_.train.batch = 4;
    config_.train.warmup = 3;
    config_.sync.learners = 3;
    config_.sync.fragments = 2;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write_images() {
    Random random(3);
    data::ImageFile file;
    file.classes = 3;
    file.side = 4;
    file.mean = {0.5F};
    file.deviation = {0.25F};
    for (auto* split : {&file.train, &file.validation}) {
      for (int i = 0; i < 30; ++i) {
        split->labels.push_back(static_cast<std::uint16_t>(random.below(3)));
        for (int pixel = 0; pixel < 16; ++pixel) {
          split->pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
        }
      }
    }
    data::write_image_file(folder_ / "images.h5", file);
  }

  void use_images() {
    config_.model.kind = "vit";
    config_.data = {(folder_ / "images.h5").string(), 1, true};
  }

  struct Run {
    runtime::Setup setup;
    std::unique_ptr<data::Dataset> dataset;
  };
  Run make_run() const {
    auto dataset = data::open_dataset(config_.data.path);
    config::RunConfig fitted = config_;
    fitted.model = fit_model(config_.model, *dataset, config_.data.path);
    return {make_setup(fitted), std::move(dataset)};
  }

  static void receive(const Run& run, LearnerState& state, std::span<const float> parameters) {
    for (int p = 0; p < run.setup.fragment_count(); ++p) {
      const auto& fragment = run.setup.fragments[static_cast<std::size_t>(p)];
      std::vector<float> values(static_cast<std::size_t>(fragment.size));
      fragment::gather(fragment, parameters, values);
      state.receive(p, 1, values);
    }
  }

  static std::vector<float> initial(const Run& run) {
    std::vector<float> parameters(static_cast<std::size_t>(run.setup.parameters));
    model::initialize_parameters(run.setup.tensors, run.setup.config.model, 7, parameters);
    return parameters;
  }

  static std::vector<float> parameters_of(LearnerState& state) {
    const auto parameters = arrays_of(state).parameters;
    return {parameters.begin(), parameters.end()};
  }

  static void train(LearnerState& state, int steps) {
    for (int i = 0; i < steps; ++i) state.step([](std::span<float>) {});
  }

  // Trained through, and stopped after some steps, saved, and resumed by another process.
  void expect_resumed_is_uninterrupted(int learner) const {
    const Run run = make_run();
    LearnerState through(run.setup, *run.dataset, kernels(), learner, 0, 1);
    through.begin(0, 0, nullptr);
    through.take_fixed_share();
    receive(run, through, initial(run));
    train(through, 9);

    LearnerState first(run.setup, *run.dataset, kernels(), learner, 0, 1);
    first.begin(0, 0, nullptr);
    first.take_fixed_share();
    receive(run, first, initial(run));
    train(first, 4);
    checkpoint::LearnerFile(folder_ / "checkpoints", first.checkpoint(), arrays_of(first)).write(1);
    auto saved = checkpoint::newest_learner(folder_ / "checkpoints", learner);
    ASSERT_TRUE(saved);
    const std::vector<float> parameters = saved->common.parameters;

    LearnerState resumed(run.setup, *run.dataset, kernels(), learner, 0, 1);
    resumed.begin(1, saved->tokens, &*saved);
    resumed.take_fixed_share();
    receive(run, resumed, parameters);
    resumed.set_run_tokens(4 * run.setup.step_tokens);
    train(resumed, 5);
    EXPECT_EQ(resumed.tokens(), through.tokens());
    EXPECT_EQ(parameters_of(resumed), parameters_of(through));
    EXPECT_NE(parameters_of(first), parameters_of(through));
    std::filesystem::remove_all(folder_ / "checkpoints");
  }

  std::filesystem::path folder_;
  config::RunConfig config_ = tiny_config();
};

TEST_F(LearnerStateTest, AResumedRunTrainsOnWhatTheUninterruptedOneWouldHave) {
  expect_resumed_is_uninterrupted(1);
  config_.train.accumulate = 2;
  config_.learners[2] = {{"train.optimizer", "sgd"}, {"data.path", (folder_ / "b.h5").string()}};
  expect_resumed_is_uninterrupted(0);
  expect_resumed_is_uninterrupted(2);
  use_images();
  config_.learners.clear();
  expect_resumed_is_uninterrupted(1);  // 36 images of its shard's 10: augmented anew each epoch
}

TEST_F(LearnerStateTest, AReportTellsOfTheLastStep) {
  config_.train.accumulate = 2;
  const Run run = make_run();
  LearnerState state(run.setup, *run.dataset, kernels(), 1, 0, 1);
  state.begin(0, 0, nullptr);
  state.take_fixed_share();
  receive(run, state, initial(run));
  double squares = 0;
  const auto keep = [&](std::span<float> numbers) {
    if (numbers.data() != state.gradients().data()) return;
    squares = 0;
    for (const float value : numbers) squares += static_cast<double>(value) * value;
  };
  link::Report report;
  for (int step = 1; step <= 4; ++step) {
    state.step(keep);
    state.describe(report);
    EXPECT_EQ(report.step, step);
    // Of the mean of two parts, whose sum the gradients are.
    EXPECT_NEAR(report.gradient_norm, std::sqrt(squares) / 2, 1e-6 * report.gradient_norm);
    EXPECT_GT(report.gradient_norm, 0);
    EXPECT_NEAR(report.learning_rate, config_.train.lr * std::min(step, 3) / 3.0, 1e-12);
    EXPECT_GT(report.loss, 0);
  }
  state.begin(1, 0, nullptr);
  state.describe(report);
  EXPECT_EQ(report.gradient_norm, 0);
  EXPECT_EQ(report.loss, 0);
}

TEST_F(LearnerStateTest, AFragmentTellsTheHighestLossSinceItCame) {
  const Run run = make_run();
  LearnerState state(run.setup, *run.dataset, kernels(), 1, 0, 1);
  state.begin(0, 0, nullptr);
  state.take_fixed_share();
  receive(run, state, initial(run));
  EXPECT_EQ(state.header(0, 1).loss, 0);
  double highest = 0;
  for (int step = 0; step < 20; ++step) {
    train(state, 1);
    highest = std::max<double>(highest, state.last_step().loss);
  }
  ASSERT_LT(state.last_step().loss, highest);
  EXPECT_EQ(state.header(0, 1).loss, highest);
  EXPECT_EQ(state.header(1, 1).loss, highest);
}

TEST_F(LearnerStateTest, MomentsBeginAnewWhereTheLossTurnsUnsoundAndWhereItTurnsSound) {
  const Run run = make_run();
  LearnerState state(run.setup, *run.dataset, kernels(), 1, 0, 1);
  state.begin(0, 0, nullptr);
  state.take_fixed_share();
  const auto updates_after_step = [&](std::span<const float> parameters) {
    receive(run, state, parameters);
    train(state, 1);
    return state.checkpoint().adam_steps;
  };
  const std::vector<float> sound = initial(run);
  std::vector<float> unsound = sound;
  for (float& value : unsound) value *= 1000;
  EXPECT_EQ(updates_after_step(sound), 1);
  EXPECT_EQ(updates_after_step(sound), 2);
  EXPECT_EQ(updates_after_step(unsound), 1);
  ASSERT_GT(state.last_step().loss, loss_limit(run.setup.config.model));
  ASSERT_TRUE(std::isfinite(state.last_step().gradient_norm));
  EXPECT_EQ(updates_after_step(unsound), 2);
  EXPECT_EQ(updates_after_step(sound), 1);
}

// Of numbers so large a layer norm makes zeros, and every output is alike.
TEST_F(LearnerStateTest, AFiniteLossWithoutFiniteGradientsIsUnsound) {
  const Run run = make_run();
  LearnerState state(run.setup, *run.dataset, kernels(), 1, 0, 1);
  state.begin(0, 0, nullptr);
  state.take_fixed_share();
  std::vector<float> huge = initial(run);
  for (float& value : huge) value *= 1e25F;
  receive(run, state, huge);
  train(state, 1);
  ASSERT_LE(state.last_step().loss, loss_limit(run.setup.config.model));
  EXPECT_FALSE(state.is_sound());
  link::Report report;
  state.describe(report);
  EXPECT_TRUE(std::isnan(link::sound_loss(report)));

  receive(run, state, initial(run));
  train(state, 1);
  EXPECT_TRUE(state.is_sound());
  EXPECT_EQ(state.header(0, 1).loss, state.last_step().loss);
  const auto& first = run.setup.fragments[0];
  std::vector<float> values(static_cast<std::size_t>(first.size));
  fragment::gather(first, huge, values);
  state.receive(0, 2, values);
  train(state, 1);
  fragment::gather(first, initial(run), values);
  state.receive(0, 3, values);
  train(state, 1);
  EXPECT_EQ(state.header(0, 1).loss, state.last_step().loss);
  EXPECT_TRUE(std::isnan(state.header(1, 1).loss)) << "a step that diverged is in it";
}

TEST_F(LearnerStateTest, PartsOfABatchAddUpToTheWholeStep) {
  std::vector<std::vector<float>> results;
  for (const std::int64_t parts : {1, 2, 4}) {
    config_.train.accumulate = parts;
    const Run run = make_run();
    LearnerState state(run.setup, *run.dataset, kernels(), 0, 0, 1);
    state.begin(0, 0, nullptr);
    state.take_fixed_share();
    receive(run, state, initial(run));
    train(state, 3);
    results.push_back(parameters_of(state));
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_NEAR(results[1][i], results[0][i], 2e-5);
    EXPECT_NEAR(results[2][i], results[0][i], 2e-5);
  }
}

TEST_F(LearnerStateTest, EachLearnerHasItsOwnOptions) {
  config_.learners[1] = {{"train.batch", "2"}, {"train.lr", "0.1"}};
  config_.learners[2] = {{"data.path", (folder_ / "b.h5").string()}, {"train.optimizer", "sgd"}};
  const Run run = make_run();
  EXPECT_EQ(run.setup.step_tokens, (4 + 2 + 4) * 4);
  // Two learners share a file, the third has one for itself.
  EXPECT_EQ(run.setup.data.group_of_learner, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(run.setup.data.groups[0].learners, 2);
  EXPECT_EQ(run.setup.data.groups[1].learners, 1);
  std::vector<std::vector<float>> results;
  for (int learner = 0; learner < 3; ++learner) {
    LearnerState state(run.setup, *run.dataset, kernels(), learner, 0, 1);
    state.begin(0, 0, nullptr);
    state.take_fixed_share();
    receive(run, state, initial(run));
    train(state, 2);
    EXPECT_EQ(state.tokens(), 2 * 4 * (learner == 1 ? 2 : 4));
    EXPECT_EQ(arrays_of(state).adam_v.empty(), learner == 2);
    results.push_back(parameters_of(state));
  }
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
}

TEST_F(LearnerStateTest, NewMomentsInTheMiddleOfTheRunAreWarmedUp) {
  const Run run = make_run();
  const auto& train = run.setup.config.train;
  ASSERT_GT(train.warmup, 1);
  LearnerState state(run.setup, *run.dataset, kernels(), 0, 0, 1);
  state.begin(3, 0, nullptr);
  state.take_fixed_share();
  receive(run, state, initial(run));
  state.set_run_tokens((train.warmup + 5) * run.setup.step_tokens);
  link::Report report;
  this->train(state, 1);
  state.describe(report);
  EXPECT_DOUBLE_EQ(report.learning_rate, train.lr / static_cast<double>(train.warmup));
  this->train(state, static_cast<int>(train.warmup));
  state.describe(report);
  EXPECT_DOUBLE_EQ(report.learning_rate, model::learning_rate(train, 2 * train.warmup + 5));
}

TEST_F(LearnerStateTest, MomentsOfAnotherOptimizerAreNotTaken) {
  config_.learners[1] = {{"train.optimizer", "sgd"}};
  const Run run = make_run();
  LearnerState adam(run.setup, *run.dataset, kernels(), 0, 0, 1);
  adam.begin(0, 0, nullptr);
  adam.take_fixed_share();
  receive(run, adam, initial(run));
  train(adam, 2);
  checkpoint::Learner saved = adam.checkpoint();
  const auto arrays = arrays_of(adam);
  saved.adam_m.assign(arrays.adam_m.begin(), arrays.adam_m.end());
  saved.adam_v.assign(arrays.adam_v.begin(), arrays.adam_v.end());
  LearnerState sgd(run.setup, *run.dataset, kernels(), 1, 0, 1);
  sgd.begin(0, 0, &saved);
  sgd.take_fixed_share();
  for (const float moment : arrays_of(sgd).adam_m) EXPECT_EQ(moment, 0);
  LearnerState other(run.setup, *run.dataset, kernels(), 2, 0, 1);
  other.begin(0, 0, &saved);
  other.take_fixed_share();
  EXPECT_TRUE(std::ranges::equal(arrays_of(other).adam_m, arrays.adam_m));
}

}  // namespace
}  // namespace archipelago::runtime
