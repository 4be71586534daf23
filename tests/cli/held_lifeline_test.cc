#include "cli/held_lifeline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/file.h"
#include "runtime/lifeline.h"

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

class HeldLifelineTest : public testing::Test {
 protected:
  HeldLifelineTest() { fs::create_directories(run_); }
  ~HeldLifelineTest() override { fs::remove_all(run_); }

  std::optional<runtime::Beat> beat() const {
    return runtime::read_beat(runtime::lifeline_file(run_, scratch_));
  }
  void write_status(const std::string& text) {
    write_file(run_ / "status.json", text, Durability::unflushed);
  }
  void say_that_it_goes_on() { write_status(R"({"state": "training", "launcher": "gone"})"); }

  fs::path scratch_ = "archipelago.h1.17";
  fs::path run_ = fs::temp_directory_path() / ("held_lifeline." + std::to_string(::getpid()));
};

TEST_F(HeldLifelineTest, BeatsOnceASecondUntilReleased) {
  HeldLifeline lifeline(run_, scratch_);
  const auto first = beat();
  ASSERT_TRUE(first);
  lifeline.beat(10);
  lifeline.beat(10.5);
  EXPECT_EQ(beat()->count, first->count + 1);
  EXPECT_EQ(beat()->launcher, first->launcher);
  lifeline.beat(11);
  EXPECT_EQ(beat()->count, first->count + 2);
  lifeline.release();
  EXPECT_FALSE(beat());
  lifeline.beat(20);
  EXPECT_FALSE(beat());
}

TEST_F(HeldLifelineTest, EachStartHasItsOwnName) {
  std::string name;
  {
    const HeldLifeline lifeline(run_, scratch_);
    name = beat()->launcher;
  }
  EXPECT_FALSE(beat());
  const HeldLifeline lifeline(run_, scratch_);
  EXPECT_NE(beat()->launcher, name);
}

TEST_F(HeldLifelineTest, ARunThatSaysNothingIsOverAfterTenSeconds) {
  write_status(R"({"state": "training"})");
  HeldLifeline lifeline(run_, scratch_);
  EXPECT_TRUE(lifeline.run_goes_on(100));
  EXPECT_TRUE(lifeline.run_goes_on(109));
  write_status(R"({"state": "training", "round": 2})");  // written before mpirun ended
  EXPECT_TRUE(lifeline.run_goes_on(109.5));
  EXPECT_FALSE(lifeline.run_goes_on(110));
}

TEST_F(HeldLifelineTest, ARunThatGoesOnIsFollowedUntilItsStatusStandsStill) {
  HeldLifeline lifeline(run_, scratch_);
  EXPECT_TRUE(lifeline.run_goes_on(100));
  for (double now = 105; now < 500; now += 20) {
    say_that_it_goes_on();
    EXPECT_TRUE(lifeline.run_goes_on(now)) << now;
  }
  EXPECT_TRUE(lifeline.run_goes_on(514));
  EXPECT_FALSE(lifeline.run_goes_on(516));
}

TEST_F(HeldLifelineTest, OnceReleasedNothingGoesOn) {
  HeldLifeline lifeline(run_, scratch_);
  say_that_it_goes_on();
  EXPECT_TRUE(lifeline.run_goes_on(100));
  lifeline.release();
  EXPECT_FALSE(lifeline.run_goes_on(100));
}

TEST_F(HeldLifelineTest, ShowsWhatRanksSayMeanwhileOnce) {
  HeldLifeline lifeline(run_, scratch_);
  const auto shown = [&](double now) {
    testing::internal::CaptureStderr();
    lifeline.run_goes_on(now);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(shown(1), "");
  std::ofstream log(runtime::lifeline_log(run_));
  log << "one\ntwo\n" << std::flush;
  EXPECT_EQ(shown(2), "one\ntwo\n");
  log << "three\n" << std::flush;
  EXPECT_EQ(shown(3), "three\n");
  EXPECT_EQ(shown(4), "");
}

}  // namespace
}  // namespace archipelago::cli
