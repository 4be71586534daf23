#include "checkpoint/damage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/random.h"
#include "example_state.h"

namespace archipelago::checkpoint {
namespace {

class DamageTest : public testing::Test {
 protected:
  void SetUp() override {
    save(folder_.path(), example_global(1), 1);
    path_ = folder_.path() / global_name(1);
    whole_ = read_file(path_);
  }

  void overwrite(const std::string& bytes) { write_file(path_, bytes, Durability::unflushed); }

  std::string refusal() const {
    try {
      load_global(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "accepted";
  }

  TemporaryFolder folder_;
  std::filesystem::path path_;
  std::string whole_;
};

TEST_F(DamageTest, IntactFileHasNone) {
  EXPECT_TRUE(find_damage(path_).empty());
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(DamageTest, AnyFlippedBitIsFound) {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    std::string bytes = whole_;
    // Every second flip among the first bytes, where HDF5 keeps its structures.
    const std::size_t at = random.below(i % 2 == 0 ? bytes.size() : 20'000);
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
    overwrite(bytes);
    EXPECT_FALSE(find_damage(path_).empty()) << "byte " << at;
    EXPECT_NE(refusal(), "accepted") << "byte " << at;
  }
}

TEST_F(DamageTest, DamagedDatasetIsNamed) {
  const Global state = example_global(1);
  // The momentum's first elements as they lie in the file.
  const std::string needle(reinterpret_cast<const char*>(state.momentum.data()), 64);
  std::string bytes = whole_;
  const std::size_t at = bytes.find(needle);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 9] ^= 1;
  overwrite(bytes);
  const std::vector<Damage> damage = find_damage(path_);
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_EQ(damage[0].dataset, "/outer/momentum/wte.weight");
  EXPECT_NE(refusal().find("/outer/momentum/wte.weight"), std::string::npos) << refusal();
}

TEST_F(DamageTest, DamagedConfigurationIsFound) {
  std::string bytes = whole_;
  const std::size_t at = bytes.find("0.003");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = '1';
  overwrite(bytes);
  EXPECT_NE(refusal().find("attribute"), std::string::npos) << refusal();
}

TEST_F(DamageTest, EveryTruncationIsRefused) {
  for (std::size_t size = 0; size < whole_.size(); size += 1 + size / 3) {
    overwrite(whole_.substr(0, size));
    EXPECT_NE(refusal(), "accepted") << size;
  }
  overwrite(whole_.substr(0, whole_.size() - 1));
  EXPECT_NE(refusal().find("cut off"), std::string::npos) << refusal();
}

TEST_F(DamageTest, ForeignFilesAreRefused) {
  overwrite(std::string(5000, 'x'));
  EXPECT_NE(refusal().find("no HDF5 file"), std::string::npos) << refusal();
  std::filesystem::remove(path_);
  EXPECT_NE(refusal().find("no such file"), std::string::npos) << refusal();
  std::filesystem::create_directory(path_);
  EXPECT_NE(refusal(), "accepted");
  save(folder_.path(), example_learner(0, 5), 1);
  try {
    load_global(folder_.path() / learner_name(0, 5));
    FAIL() << "a learner's checkpoint passed for a global one";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a learner checkpoint, not a global one"),
              std::string::npos);
  }
}

// Sound files, sealed as they are.
TEST_F(DamageTest, CountsThatNothingCanCountAreRefused) {
  constexpr std::int64_t kHuge = 1LL << 62;
  const std::pair<const char*, std::function<void(Global&)>> cases[] = {
      {"round is -1", [](Global& state) { state.round = -1; }},
      {"round is 4611686018427387904", [](Global& state) { state.round = kHuge; }},
      {"tokens is -5", [](Global& state) { state.tokens = -5; }},
      {"/clock/version is -1", [](Global& state) { state.common.versions.back() = -1; }},
      {"/clock/incarnation is 2147483647",
       [](Global& state) { state.incarnations.front() = 2147483647; }},
      {"/clock/incarnation is -2", [](Global& state) { state.incarnations.back() = -2; }},
      {"/clock/merged_tokens is 4611686018427387904",
       [](Global& state) { state.merged_tokens.front() = kHuge; }},
      {"/data/shards is 4611686018427387904",
       [](Global& state) {
         state.shards = {0, kHuge};
       }},
  };
  for (const auto& [what, change] : cases) {
    Global state = example_global(7);
    change(state);
    save_as(path_, state);
    EXPECT_NE(refusal().find(what), std::string::npos) << what << ": " << refusal();
    EXPECT_THROW(require_readable(path_), Error) << what;
  }
  Global sound = example_global(7);
  sound.incarnations.front() = -1;  // nobody has had that place
  save_as(path_, sound);
  require_readable(path_);
}

TEST_F(DamageTest, MomentsThatNoStepLeavesAreRefused) {
  const std::pair<const char*, std::function<void(Learner&)>> cases[] = {
      {"adam_m holds nan", [](Learner& state) { state.adam_m.back() = NAN; }},
      {"adam_v holds inf", [](Learner& state) { state.adam_v.front() = INFINITY; }},
      {"adam_v holds -1", [](Learner& state) { state.adam_v.front() = -1; }},
      {"adam_steps is -1", [](Learner& state) { state.adam_steps = -1; }},
      {"step is -1", [](Learner& state) { state.step = -1; }},
  };
  for (const auto& [what, change] : cases) {
    Learner state = example_learner(0, 5);
    change(state);
    save(folder_.path(), state, 1);
    try {
      load_learner(folder_.path() / learner_name(0, state.step));
      FAIL() << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace archipelago::checkpoint
