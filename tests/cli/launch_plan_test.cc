#include "cli/launch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/options.h"

namespace archipelago::cli {
namespace {

using Words = std::vector<std::string>;

config::RunConfig job(int learners, int ranks, int spares, int standby) {
  config::RunConfig config;
  config.sync.learners = learners;
  config.sync.ranks_per_learner = ranks;
  config.sync.spares = spares;
  config.sync.standby = standby;
  config.out = "runs/it's here";
  config.data.path = "data.h5";
  return config;
}

// Everything after the first `word`.
Words after(const Words& words, const std::string& word) {
  const auto found = std::ranges::find(words, word);
  EXPECT_NE(found, words.end()) << word;
  return found == words.end() ? Words{} : Words(found + 1, words.end());
}

TEST(LaunchPlan, WorldIsSyncersAndIslands) {
  EXPECT_EQ(world_size(job(3, 1, 1, 0)), 5);
  EXPECT_EQ(world_size(job(3, 2, 2, 1)), 12);
  EXPECT_EQ(world_size(job(1, 1, 0, 0)), 2);
  auto without_syncer = job(3, 2, 2, 1);
  without_syncer.method = "data-parallel";
  EXPECT_EQ(world_size(without_syncer), 6);
  EXPECT_EQ(place_ranks(without_syncer, Words{"a", "b", "c"}),
            (Words{"a", "a", "b", "b", "c", "c"}));
  auto with_coordinator = job(3, 2, 2, 1);
  with_coordinator.method = "elastic-data-parallel";
  EXPECT_EQ(world_size(with_coordinator), 11);
  EXPECT_EQ(part_of_rank(with_coordinator, 0), "the coordinator");
}

TEST(LaunchPlan, IslandsStayWholeAndStandbysLiveElsewhere) {
  const Words hosts = {"a", "b", "c"};
  // Syncer on a, standby on b, then the least loaded host for each island of two.
  EXPECT_EQ(place_ranks(job(3, 2, 1, 1), hosts),
            (Words{"a", "b", "c", "c", "a", "a", "b", "b", "c", "c"}));
  EXPECT_EQ(place_ranks(job(2, 1, 0, 0), Words{"a", "b"}), (Words{"a", "b", "a"}));
}

TEST(LaunchPlan, SyncersAreSpreadOverTheHosts) {
  auto config = job(3, 1, 0, 0);
  config.sync.syncers = 3;
  EXPECT_EQ(world_size(config), 6);
  EXPECT_EQ(place_ranks(config, Words{"a", "b", "c"}), (Words{"a", "b", "c", "a", "b", "c"}));
}

TEST(LaunchPlan, OneHostIsOversubscribed) {
  const LaunchPlan plan = make_plan(job(3, 1, 1, 0), Words{}, "/bin/archipelago", "/s", "/s/hosts");
  EXPECT_TRUE(plan.rank_hosts.empty());
  EXPECT_EQ(after(plan.command, "-n").front(), "5");
  EXPECT_EQ(std::ranges::count(plan.command, "--oversubscribe"), 1);
  EXPECT_EQ(std::ranges::count(plan.command, "--hostfile"), 0);
  EXPECT_EQ(after(plan.command, "--with-ft").front(), "ulfm");
  EXPECT_EQ(plan.environment.at("OMPI_ALLOW_RUN_AS_ROOT"), "1");
}

TEST(LaunchPlan, SeveralHostsTakeAPlaceForEachRank) {
  const LaunchPlan plan = make_plan(job(3, 1, 1, 1), Words{"a", "b"}, "/p", "/s", "/s/hosts");
  EXPECT_EQ(plan.rank_hosts.size(), 6U);
  EXPECT_EQ(after(plan.command, "--hostfile").front(), "/s/hosts");
  EXPECT_EQ(after(plan.command, "--map-by").front(), "seq:OVERSUBSCRIBE");
}

TEST(LaunchPlan, TheProgramGetsTheConfigurationInFull) {
  const config::RunConfig wanted = job(3, 2, 1, 1);
  const LaunchPlan plan = make_plan(wanted, Words{}, "/bin/archipelago", "/s", "/s/hosts");
  const Words arguments = after(plan.command, "train");
  EXPECT_EQ(config::to_map(config::parse_run_config(arguments)), config::to_map(wanted));
}

TEST(LaunchPlan, IsShownForShellsAndPrograms) {
  const LaunchPlan plan = make_plan(job(3, 1, 1, 0), Words{}, "/bin/archipelago", "/s", "/s/hosts");
  EXPECT_NE(to_shell(plan).find("'--out=runs/it'\\''s here'"), std::string::npos);
  const nlohmann::json object = to_json(plan);
  EXPECT_EQ(object.at("world"), 5);
  EXPECT_EQ(object.at("command"), plan.command);
}

}  // namespace
}  // namespace archipelago::cli
