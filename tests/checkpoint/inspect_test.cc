#include "checkpoint/inspect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "example_state.h"

namespace archipelago::checkpoint {
namespace {

const DatasetReport& dataset(const Report& report, const std::string& path) {
  for (const DatasetReport& each : report.datasets) {
    if (each.path == path) return each;
  }
  throw std::out_of_range(path);
}

const Difference& difference(const std::vector<Difference>& differences, const std::string& path) {
  for (const Difference& each : differences) {
    if (each.path == path) return each;
  }
  throw std::out_of_range(path);
}

TEST(Inspect, ReportsWhatTheFileHolds) {
  const TemporaryFolder folder;
  Global state = example_global(7);
  state.common.parameters[280'700] = 3;
  state.common.parameters[280'701] = 4;
  for (std::size_t i = 280'702; i < 280'732; ++i) state.common.parameters[i] = 0;
  state.common.parameters[280'710] = std::numeric_limits<float>::quiet_NaN();
  state.common.parameters[280'711] = std::numeric_limits<float>::infinity();
  save(folder.path(), state, 1);
  const Report report = inspect(folder.path() / global_name(7));

  EXPECT_EQ(report.bytes, std::filesystem::file_size(folder.path() / global_name(7)));
  EXPECT_EQ(report.texts.at("kind"), "global");
  EXPECT_EQ(report.texts.at("format"), "archipelago-checkpoint");
  EXPECT_EQ(report.numbers.at("round"), 7);
  EXPECT_EQ(report.numbers.at("tokens"), 123'456'789'012);
  EXPECT_EQ(report.config, state.common.config);
  const DatasetReport& bias = dataset(report, "/params/h.0.ln_1.bias");
  EXPECT_EQ(bias.shape, (std::vector<std::int64_t>{32}));
  EXPECT_EQ(bias.type, "f32");
  EXPECT_EQ(bias.fragment, 1);
  EXPECT_EQ(bias.version, 3);
  EXPECT_EQ(bias.norm, 5);
  EXPECT_EQ(bias.not_finite, 2);
  EXPECT_EQ(dataset(report, "/clock/merged_tokens").type, "i64");
  EXPECT_FALSE(dataset(report, "/clock/merged_tokens").fragment);
  EXPECT_EQ(report.datasets.size(), 3u + 3u + 3u);
}

TEST(Compare, EqualStatesDoNotDiffer) {
  const TemporaryFolder folder;
  save(folder.path(), example_learner(0, 5), 9);
  save(folder.path(), example_learner(1, 5), 9);
  for (const Difference& each :
       compare(folder.path() / learner_name(0, 5), folder.path() / learner_name(1, 5))) {
    EXPECT_EQ(each.largest_absolute, 0) << each.path;
    EXPECT_EQ(each.note, "");
  }
}

TEST(Compare, FindsTheLargestDifferences) {
  const TemporaryFolder folder;
  Global state = example_global(1);
  state.common.parameters[0] = 100;
  state.common.parameters[1] = 2;
  save(folder.path(), state, 9);
  state.round = 2;
  state.common.parameters[0] = 101;
  state.common.parameters[1] = 2.5;
  state.momentum[5] = std::numeric_limits<float>::quiet_NaN();
  state.common.versions = {5, 3};
  save(folder.path(), state, 9);
  const auto differences = compare(folder.path() / global_name(1), folder.path() / global_name(2));
  EXPECT_EQ(difference(differences, "/params/wte.weight").largest_absolute, 1);
  EXPECT_EQ(difference(differences, "/params/wte.weight").largest_relative, 0.2);
  EXPECT_EQ(difference(differences, "/params/h.0.ln_1.bias").largest_absolute, 0);
  EXPECT_TRUE(std::isinf(difference(differences, "/outer/momentum/wte.weight").largest_absolute));
  EXPECT_EQ(difference(differences, "/clock/version").largest_absolute, 1);
}

TEST(Compare, SaysWhatCannotBeCompared) {
  const TemporaryFolder folder;
  save(folder.path(), example_global(1), 9);
  Learner learner = example_learner(0, 1);
  learner.common.tensors[0].shape = {401, 700};
  save(folder.path(), learner, 9);
  const auto differences =
      compare(folder.path() / global_name(1), folder.path() / learner_name(0, 1));
  EXPECT_EQ(difference(differences, "/outer/momentum/wte.weight").note, "only in the first file");
  EXPECT_EQ(difference(differences, "/data/cursor").note, "only in the second file");
  EXPECT_EQ(difference(differences, "/params/wte.weight").note, "of another shape");
}

}  // namespace
}  // namespace archipelago::checkpoint
