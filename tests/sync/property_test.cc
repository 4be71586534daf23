#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <variant>

#include "sync/tape.h"
#include "world.h"

namespace archipelago::sync {
namespace {

constexpr std::uint64_t kHistories = 10'000;

std::string play(const Plan& plan) { return World(plan).play(); }

// Removes faults, then shortens the history, as long as it still breaks.
Plan shrink(Plan plan) {
  for (std::size_t chunk = std::max<std::size_t>(plan.faults.size(), 1); chunk > 0; chunk /= 2) {
    for (std::size_t begin = 0; begin < plan.faults.size();) {
      Plan smaller = plan;
      const auto first = smaller.faults.begin() + static_cast<std::ptrdiff_t>(begin);
      const std::size_t count = std::min(chunk, plan.faults.size() - begin);
      smaller.faults.erase(first, first + static_cast<std::ptrdiff_t>(count));
      if (play(smaller).empty()) {
        begin += count;
      } else {
        plan = smaller;
      }
    }
  }
  return plan;
}

std::int64_t discards(const World& world, const std::string& reason) {
  std::int64_t count = 0;
  for (const Recorded& recorded : world.record()) {
    count += std::ranges::count_if(recorded.actions, [&](const Action& action) {
      const auto* discard = std::get_if<Discard>(&action);
      return discard != nullptr && discard->reason == reason;
    });
  }
  return count;
}

TEST(Histories, KeepEveryInvariant) {
  std::int64_t events = 0;
  std::int64_t merges = 0;
  std::int64_t losses = 0;
  std::map<std::string, std::int64_t> unsound = {
      {"diverged", 0}, {"not finite", 0}, {"outlier", 0}, {"too long alone", 0}};
  for (std::uint64_t seed = 1; seed <= kHistories; ++seed) {
    const Plan plan = make_plan(seed);
    World world(plan);
    const std::string broken = world.play();
    if (!broken.empty()) {
      const Plan small = shrink(plan);
      FAIL() << broken << "\n"
             << describe(plan) << "shrunk: " << play(small) << "\n"
             << describe(small);
    }
    events += static_cast<std::int64_t>(world.record().size());
    merges += world.merges();
    losses += world.machine().losses();
    for (auto& [reason, count] : unsound) count += discards(world, reason);
  }
  // The histories are not empty ones.
  EXPECT_GT(events, 300 * static_cast<std::int64_t>(kHistories));
  EXPECT_GT(merges, 20 * static_cast<std::int64_t>(kHistories));
  EXPECT_GT(losses, static_cast<std::int64_t>(kHistories));
  for (const auto& [reason, count] : unsound) EXPECT_GT(count, 10) << reason;
  RecordProperty("events", std::to_string(events));
  std::cout << events << " events, " << merges << " merges, " << losses << " losses\n";
  for (const auto& [reason, count] : unsound) std::cout << reason << " " << count << "\n";
}

TEST(Histories, TheSameEventsGiveTheSameActions) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Plan plan = make_plan(seed);
    World world(plan);
    ASSERT_EQ(world.play(), "");
    const TapeStart start = decode_start(encode_start({plan.settings, plan.restored}));
    Machine again(start.settings, start.restored);
    for (const Recorded& recorded : world.record()) {
      const TapeEntry entry =
          decode_entry(encode_entry(recorded.time, recorded.event, recorded.actions));
      std::vector<Action> actions;
      again.handle(entry.time, entry.event, actions);
      ASSERT_EQ(actions, recorded.actions) << describe(plan);
      ASSERT_EQ(entry.actions, recorded.actions);
    }
  }
}

}  // namespace
}  // namespace archipelago::sync
