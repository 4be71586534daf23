#include "runtime/layout.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace archipelago::runtime {
namespace {

config::RunConfig options(int learners, int spares, int ranks, int standby) {
  config::RunConfig config;
  auto& sync = config.sync;
  sync.learners = learners;
  sync.spares = spares;
  sync.ranks_per_learner = ranks;
  sync.standby = standby;
  return config;
}

TEST(LayoutTest, SyncerThenStandbyThenIslands) {
  const Layout layout = make_layout(options(2, 1, 2, 1), 8);
  EXPECT_EQ(layout.islands, 3);
  EXPECT_EQ(layout.world_size(), 8);
  const int islands[] = {-1, -1, 0, 0, 1, 1, 2, 2};
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(layout.island_of(rank), islands[rank]) << rank;
    EXPECT_EQ(layout.is_leader(rank), rank == 2 || rank == 4 || rank == 6) << rank;
  }
  EXPECT_EQ(layout.first_rank(1), 4);
}

TEST(LayoutTest, SyncersThatMergeComeFirst) {
  auto config = options(2, 0, 1, 0);
  config.sync.syncers = 3;
  const Layout layout = make_layout(config, 5);
  EXPECT_EQ(layout.merging, 3);
  EXPECT_EQ(layout.standbys(), 0);
  const int islands[] = {-1, -1, -1, 0, 1};
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(layout.island_of(rank), islands[rank]) << rank;
}

TEST(LayoutTest, WithoutSparesAndStandby) {
  const Layout layout = make_layout(options(3, 0, 1, 0), 4);
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(layout.island_of(rank), rank - 1);
}

TEST(LayoutTest, MethodsWithoutASyncerHaveLearnersOnly) {
  auto config = options(3, 1, 2, 1);
  config.method = "diloco";
  const Layout layout = make_layout(config, 6);
  EXPECT_EQ(layout.islands, 3);
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(layout.island_of(rank), rank / 2) << rank;
  EXPECT_TRUE(layout.is_leader(0));
  EXPECT_THROW(make_layout(config, 10), Error);
}

TEST(LayoutTest, ElasticDataParallelHasACoordinatorAndSpares) {
  auto config = options(3, 1, 2, 1);
  config.method = "elastic-data-parallel";
  const Layout layout = make_layout(config, 9);
  EXPECT_EQ(layout.islands, 4);
  EXPECT_EQ(layout.standbys(), 0);
  EXPECT_EQ(layout.island_of(0), -1);
  EXPECT_TRUE(layout.is_leader(7));
}

TEST(LayoutTest, AnotherWorldIsRefused) {
  try {
    make_layout(options(3, 1, 2, 1), 9);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    const std::string what = error.what();
    EXPECT_NE(what.find("9 ranks"), std::string::npos);
    EXPECT_NE(what.find("need 10"), std::string::npos);
  }
}

}  // namespace
}  // namespace archipelago::runtime
