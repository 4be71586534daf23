#include "runtime/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"

namespace archipelago::runtime {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "run_folder_test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    base_ = name;
  }
  void TearDown() override { fs::remove_all(base_); }

  static std::string refusal(RunFolder& folder, bool resume) {
    try {
      folder.open_for_writing(resume);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      return error.what();
    }
    ADD_FAILURE() << "not refused";
    return "";
  }

  fs::path base_;
};

TEST_F(RunFolderTest, MakesItsFolders) {
  RunFolder folder(base_ / "a" / "b");
  folder.open_for_writing(false);
  EXPECT_TRUE(fs::is_directory(base_ / "a" / "b" / "checkpoints"));
  EXPECT_EQ(read_file(folder.lock()).rfind("pid " + std::to_string(::getpid()), 0), 0U);
  EXPECT_FALSE(fs::exists(base_ / "a" / "b" / ".probe"));
}

TEST_F(RunFolderTest, RefusesAnEarlierRunUnlessResumed) {
  std::ofstream(base_ / "metrics.jsonl") << "{}\n";
  RunFolder folder(base_);
  EXPECT_NE(refusal(folder, false).find("--resume"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder.lock()));
  folder.open_for_writing(true);
}

TEST_F(RunFolderTest, RefusesCheckpointsUnlessResumed) {
  fs::create_directory(base_ / "checkpoints");
  RunFolder(base_).open_for_writing(false);
  std::ofstream(base_ / "checkpoints" / "global-0000000000.h5") << "imported\n";
  RunFolder folder(base_);
  EXPECT_NE(refusal(folder, false).find("--resume"), std::string::npos);
  folder.open_for_writing(true);
}

TEST_F(RunFolderTest, SendsARunThatCannotGoOnElsewhere) {
  std::ofstream(base_ / "metrics.jsonl") << "{}\n";
  RunFolder folder(base_);
  try {
    folder.open_for_one_start();
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("name another folder"), std::string::npos);
    EXPECT_EQ(what.find("--resume"), std::string::npos);
  }
  RunFolder(base_ / "new").open_for_one_start();
}

TEST_F(RunFolderTest, MixesNothingIntoAnEmulatedRun) {
  std::ofstream(base_ / "conditions.ini").close();
  RunFolder folder(base_);
  for (const bool resume : {false, true}) {
    const std::string what = refusal(folder, resume);
    EXPECT_NE(what.find("emulated"), std::string::npos);
    EXPECT_EQ(what.find("--resume"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(folder.lock()));
}

TEST_F(RunFolderTest, RefusesCheckpointsThatCannotBeWritten) {
  // Not even root can make a file there.
  fs::create_symlink("/proc/self", base_ / "checkpoints");
  RunFolder folder(base_);
  EXPECT_NE(refusal(folder, true).find("cannot write there"), std::string::npos);
}

TEST_F(RunFolderTest, RefusesASecondRunAndNamesTheFirst) {
  RunFolder first(base_);
  first.open_for_writing(false);
  RunFolder second(base_);
  const std::string what = refusal(second, true);
  EXPECT_NE(what.find("pid " + std::to_string(::getpid())), std::string::npos);
  EXPECT_NE(what.find("another run uses it"), std::string::npos);
}

TEST_F(RunFolderTest, TellsThatItIsUsedWithoutTakingAnything) {
  RunFolder(base_ / "none").require_unused();
  EXPECT_FALSE(fs::exists(base_ / "none"));
  {
    RunFolder first(base_);
    first.open_for_writing(false);
    EXPECT_THROW(RunFolder(base_).require_unused(), Error);
  }
  RunFolder(base_).require_unused();
}

TEST_F(RunFolderTest, IsFreeAgainWhenTheFirstHasGone) {
  { RunFolder(base_).open_for_writing(false); }
  RunFolder second(base_);
  second.open_for_writing(true);
}

TEST_F(RunFolderTest, RefusesWhatIsNoFolder) {
  std::ofstream(base_ / "file") << "text\n";
  RunFolder folder(base_ / "file");
  EXPECT_NE(refusal(folder, false).find((base_ / "file").string()), std::string::npos);
  EXPECT_EQ(read_file(base_ / "file"), "text\n");
}

TEST_F(RunFolderTest, TakesTheStopFileAndTellsWhoseItWas) {
  const RunFolder folder(base_);
  EXPECT_EQ(folder.take_stop(), std::nullopt);
  std::ofstream(folder.stop()).close();
  EXPECT_EQ(folder.take_stop(), kStopOfUser);
  EXPECT_FALSE(fs::exists(folder.stop()));
  std::ofstream(folder.stop()) << kStopOfLauncher << '\n';
  EXPECT_EQ(folder.take_stop(), kStopOfLauncher);
  EXPECT_EQ(folder.take_stop(), std::nullopt);
  std::ofstream(folder.stop()) << "please\n";
  EXPECT_EQ(folder.take_stop(), kStopOfUser);
}

}  // namespace
}  // namespace archipelago::runtime
