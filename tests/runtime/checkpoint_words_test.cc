#include "runtime/checkpoint_words.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace archipelago::runtime {
namespace {

TEST(CheckpointWords, OnAFileThatWasWritten) {
  EXPECT_EQ(words_on({"/run/checkpoints/global-0000000040.h5", 3 << 19, 0.25}),
            "wrote global-0000000040.h5: 1.5 MiB in 0.25 s");
}

TEST(CheckpointWords, OnAFileThatARunGoesOnFrom) {
  const auto file =
      std::filesystem::temp_directory_path() / ("words." + std::to_string(::getpid()));
  std::ofstream(file) << "x";
  std::filesystem::last_write_time(
      file, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(12));
  EXPECT_EQ(words_on_restored(40, file),
            "goes on from round 40: " + file.filename().string() + ", written 12 min ago");
  std::filesystem::last_write_time(
      file, std::filesystem::file_time_type::clock::now() + std::chrono::minutes(12));
  EXPECT_EQ(words_on_restored(40, file),
            "goes on from round 40: " + file.filename().string() + ", written 0.00 s ago");
  std::filesystem::remove(file);
  EXPECT_EQ(words_on_restored(40, file), "goes on from round 40: " + file.filename().string());
}

TEST(CheckpointWords, OnOptionsThatHaveChanged) {
  const Description before = {{"out", "a"},         {"resume", "no"},     {"train.steps", "100"},
                              {"train.seed", "1"},  {"train.lr", "0.1"},  {"chaos", "kill"},
                              {"data.path", "one"}, {"gone.option", "5"}, {"model.heads", "2"}};
  const Description now = {{"out", "b"},           {"resume", "yes"},
                           {"train.steps", "200"}, {"train.seed", "2"},
                           {"train.lr", "0.1"},    {"chaos", ""},
                           {"data.path", "one"},   {"learner.2.data.path", "two"},
                           {"model.heads", "4"}};
  const auto changes = changes_since(before, now);
  EXPECT_EQ(changes.harmless,
            "chaos kill -> not set, gone.option 5 -> not set, "
            "train.steps 100 -> 200");
  EXPECT_EQ(changes.of_data_order, "learner.2.data.path not set -> two, train.seed 1 -> 2");
  EXPECT_EQ(changes.of_model, "model.heads 2 -> 4");
  const auto none = changes_since(now, now);
  EXPECT_EQ(none.harmless + none.of_data_order + none.of_model, "");
}

}  // namespace
}  // namespace archipelago::runtime
