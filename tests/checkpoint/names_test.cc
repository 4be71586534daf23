#include "checkpoint/names.h"

#include <gtest/gtest.h>

#include "core/file.h"
#include "example_state.h"

namespace archipelago::checkpoint {
namespace {

void touch(const std::filesystem::path& path) { write_file(path, "", Durability::unflushed); }

TEST(Names, NumbersSortAsText) {
  EXPECT_EQ(global_name(7), "global-0000000007.h5");
  EXPECT_EQ(learner_name(12, 3000), "learner-12-0000003000.h5");
}

TEST(Names, OnlyExactNamesAreCheckpoints) {
  const TemporaryFolder folder;
  for (const char* name :
       {"global-0000000007.h5", "global-7.h5", "global-0000000007.h5.bak", "global-000000000x.h5",
        "global--000000001.h5", ".global-0000000007.h5.host.1.0.tmp", "learner-1-0000000003.h5",
        "learner-01-0000000003.h5", "learner-x-0000000003.h5", "notes.txt"}) {
    touch(folder.path() / name);
  }
  const auto globals = list_global(folder.path());
  ASSERT_EQ(globals.size(), 1u);
  EXPECT_EQ(globals[0].number, 7);
  const auto learners = list_learner(folder.path(), -1);
  ASSERT_EQ(learners.size(), 1u);
  EXPECT_EQ(learners[0].learner, 1);
  EXPECT_EQ(learners[0].number, 3);
}

TEST(Retention, KeepsTheNewestOfEachKindAndLearnerAndAllForeignFiles) {
  const TemporaryFolder folder;
  const std::vector<std::string> foreign = {"global-0000000001.h5.bak", "global-best.h5",
                                            "learner-1-best.h5", "notes.txt"};
  for (const std::string& name : foreign) touch(folder.path() / name);
  for (int i = 1; i <= 4; ++i) {
    save(folder.path(), example_global(i), 2);
    save(folder.path(), example_learner(0, i), 2);
    save(folder.path(), example_learner(1, i), 2);
  }
  std::vector<std::string> expected = foreign;
  for (const int i : {3, 4}) {
    expected.push_back(global_name(i));
    expected.push_back(learner_name(0, i));
    expected.push_back(learner_name(1, i));
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(listing(folder.path()), expected);
}

TEST(Retention, KeepsTheFirstOfEachSoManyRounds) {
  const TemporaryFolder folder;
  // Every third round, and not those of a future that the run has gone back from.
  touch(folder.path() / global_name(31));
  for (int round = 3; round <= 30; round += 3) save(folder.path(), example_global(round), 2, 10);
  std::vector<std::string> expected;
  for (const int round : {12, 21, 27, 30, 31}) expected.push_back(global_name(round));
  EXPECT_EQ(listing(folder.path()), expected);
  save(folder.path(), example_global(33), 1, 10);
  EXPECT_EQ(listing(folder.path()), (std::vector<std::string>{global_name(12), global_name(21),
                                                              global_name(30), global_name(33)}));
}

TEST(Retention, NeverRemovesWhatWasJustWritten) {
  const TemporaryFolder folder;
  for (const int damaged : {100, 150, 200}) touch(folder.path() / global_name(damaged));
  save(folder.path(), example_global(51), 0);
  EXPECT_EQ(newest_global(folder.path())->round, 51);
}

}  // namespace
}  // namespace archipelago::checkpoint
