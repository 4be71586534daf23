#include "sync/tape.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "core/error.h"

namespace archipelago::sync {
namespace {

std::vector<Event> all_events() {
  return {IslandReady{3},
          IslandLost{4, "host \"b\" is gone\n"},
          Report{1, 2, 1'000'000'000'000, -5, 0.1 + 0.2, 1e-310, {1, -1, 7}},
          Delivery{1, 2, 3, 4, 5, 6, 7, 8, 2.0 / 3, 1.0 / 3},
          Merged{9, -0.0},
          Tick{},
          LeaseFollowed{1, 2, 3, 4},
          StopRequested{"SIGTERM"},
          NobodyLeft{"all are dead"},
          ScaleRequested{5},
          GuestReady{9}};
}

std::vector<Action> all_actions() {
  return {Assign{1, 2, 3, 4},
          Refresh{1, 2},
          Lease{1, 2, 3, {4, 5}, {6, std::int64_t{1} << 40}},
          Ask{1, 2, 3, 4},
          Merge{1, 2, {{3, 4, 1e300}, {5, 6, 0.1}}},
          Publish{1, 2, 3},
          Discard{1, 2, 3, 4, "late"},
          Expel{1, 2, 3, "silent"},
          Retire{1, 2, 3},
          Pause{},
          SaveGlobal{7},
          Refill{2},
          Finish{Outcome::stopped, "SIGTERM"}};
}

TEST(Tape, EveryEventAndActionComesBack) {
  for (const Event& event : all_events()) {
    const std::string line = encode_entry(1234567890123456789, event, all_actions());
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const TapeEntry entry = decode_entry(line);
    EXPECT_EQ(entry.time, 1234567890123456789);
    EXPECT_EQ(entry.event, event) << line;
    EXPECT_EQ(entry.actions, all_actions());
  }
}

TEST(Tape, DoublesKeepEveryBit) {
  for (const double value :
       {0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 2.0, 1e22, 123456789012345678.0,
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN(), std::bit_cast<double>(0xFFF8000000001234ULL)}) {
    const TapeEntry entry = decode_entry(encode_entry(0, Merged{1, value}, {}));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(std::get<Merged>(entry.event).seconds),
              std::bit_cast<std::uint64_t>(value))
        << value;
  }
}

TEST(Tape, TheStartComesBack) {
  TapeStart start;
  start.settings.learners = 8;
  start.settings.grace = 0.3;
  start.settings.grace_cap = 77;
  start.restored = {50, {12, 13}, {2}, {100, 110}, {7, 8, 9}};
  EXPECT_EQ(decode_start(encode_start(start)), start);
}

TEST(Tape, TheStartOfAMethodWithoutASyncerIsNone) {
  try {
    decode_start(R"({"settings":{"learners":3,"method":"elastic-data-parallel"},"t":1})");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_NE(std::string(error.what()).find("without a syncer"), std::string::npos);
  }
}

TEST(Tape, ALineOfTheFormat) {
  EXPECT_EQ(encode_entry(5, Merged{1, 0.25}, std::vector<Action>{Publish{1, 0, 2}}),
            R"({"t":5,"event":{"type":"merged","round":1,"seconds":0.25},)"
            R"("actions":[{"type":"publish","round":1,"fragment":0,"version":2}]})");
}

TEST(Tape, ForeignLinesAreNamed) {
  for (
      const char* line :
      {"", "{", "[]", "{}", R"({"t":1,"event":{"type":"tick"}})",
       R"({"t":1,"event":{"type":"tock"},"actions":[]})", R"({"t":1,"event":3,"actions":[]})",
       R"({"t":1.5,"event":{"type":"tick"},"actions":[]})",
       R"({"t":1,"event":{"type":"tick"},"actions":{}})",
       R"({"t":1,"event":{"type":"island_ready","island":3000000000},"actions":[]})",
       R"({"t":1,"event":{"type":"merged","round":1,"seconds":"xyz"},"actions":[]})",
       R"({"t":1,"event":{"type":"stop_requested","reason":4},"actions":[]})",
       R"({"t":1,"event":{"type":"tick"},"actions":[{"type":"finish","outcome":"won","reason":""}]})"}) {
    try {
      decode_entry(line);
      FAIL() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
    }
  }
}

TEST(Tape, LinesThatAreNestedDeeplyAreNamed) {
  constexpr std::size_t kLevels = 100'000;
  const std::string nested = std::string(kLevels, '[') + std::string(kLevels, ']');
  EXPECT_THROW(decode_entry(nested), Error);
  EXPECT_THROW(decode_entry("{\"t\":" + nested + "}"), Error);
  EXPECT_THROW(decode_start("{\"settings\":" + nested + "}"), Error);
}

TEST(TapeChain, FindsChangesGapsAndCuts) {
  using Fit = TapeChain::Fit;
  TapeChain writer;
  std::vector<std::string> lines;
  for (int i = 0; i < 3; ++i) lines.push_back(writer.seal(encode_entry(i, Tick{}, {})));
  TapeChain reader;
  for (const std::string& line : lines) {
    EXPECT_EQ(reader.follow(line), Fit::fits);
    EXPECT_EQ(decode_entry(line).event, Event(Tick{}));
  }
  TapeChain other;
  EXPECT_EQ(other.follow(lines[1]), Fit::differs);  // a line is missing before it
  EXPECT_EQ(other.follow(lines[0].substr(0, lines[0].size() - 1)), Fit::unsealed);
  std::string changed = lines[0];
  changed[5] = changed[5] == '1' ? '2' : '1';
  EXPECT_EQ(other.follow(changed), Fit::differs);
  EXPECT_EQ(other.follow(encode_entry(0, Tick{}, {})), Fit::unsealed);
  EXPECT_EQ(other.follow(lines[0]), Fit::fits);  // and none of that has moved it
}

}  // namespace
}  // namespace archipelago::sync
