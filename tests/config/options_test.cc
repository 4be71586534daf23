#include "config/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "core/error.h"

namespace archipelago::config {
namespace {

using Arguments = std::vector<std::string>;

// A folder of its own for each test, removed afterwards.
class OptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("archipelago-options-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    for (const std::string& name : variables_) ::unsetenv(name.c_str());
  }

  std::string file(const std::string& name, const std::string& content) {
    const auto path = folder_ / name;
    std::ofstream(path) << content;
    return path.string();
  }
  void set_variable(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  std::filesystem::path folder_;

 private:
  std::vector<std::string> variables_;
};

// The error that parsing ends with; a test failure if there is none.
struct Failure {
  ExitCode code = ExitCode::done;
  std::string message;
};
Failure failure_of(const Arguments& arguments) {
  try {
    parse_run_config(arguments);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "accepted";
  return {};
}

// Another valid value for each option, so that a field that is not carried over shows. Several
// syncers go with no standby and no record of fragments.
RunConfig unlike_default() {
  RunConfig c;
  c.model = {"moe", "124M", 7, 96, 6, 33, 300, 4, 3, 20, 0.5, 0.25, 28, 1, 7, true};
  c.data = {"/data set/tokens.h5", 3, true};
  c.train = {18, 3, 12345678901234, "sgd", "linear", 0.1, 0.3, 3, 1.0 / 3.0, 0.8, 0.85, 0.5, 0.0,
             99, 5, 1000,           "f32", true};
  c.sync = {5,   2,    4, 1,   1,   false,  "[::1]:4711",         7.5,
            6,   1.25, 2, 0.5, 2.5, "mean", 0.123456789012345678, 0.1,
            1.5, 9.75, 0};
  c.wire = {"e3m0", "bf16"};
  c.checkpoint = {11, 13, 14, 17, 19, true};
  c.chaos = "kill learner=1 at=20s";
  c.record = "fragments";
  c.device = "auto";
  c.out = "runs/a b";
  c.resume = true;
  c.profile = true;
  c.learners = {{0, {{"data.path", "/other/a.h5"}}},
                {4, {{"train.batch", "36"}, {"device", "cuda"}}}};
  return c;
}

TEST_F(OptionsTest, DefaultsAreTheStructs) {
  const RunConfig defaults;
  EXPECT_EQ(to_map(parse_run_config({})), to_map(defaults));
}

TEST_F(OptionsTest, EveryOptionDiffersInTheUnlikeConfig) {
  const auto changed = to_map(unlike_default());
  const RunConfig defaults;
  EXPECT_EQ(changed.at("learner.4.train.batch"), "36");
  for (const auto& [name, value] : to_map(defaults)) {
    if (name == "method") continue;  // has one value only
    if (name == "sync.syncers") continue;
    EXPECT_NE(changed.at(name), value) << name;
  }
}

TEST_F(OptionsTest, IniReadsBackToTheSameConfig) {
  const std::string ini = write_ini(unlike_default());
  const RunConfig read = parse_run_config(Arguments{"--config", file("config.ini", ini)});
  auto written = to_map(unlike_default());
  EXPECT_EQ(std::exchange(written.at("resume"), "false"), "true");  // of that start alone
  EXPECT_EQ(to_map(read), written);
  EXPECT_EQ(read.sync.outer_lr, 0.123456789012345678);
  EXPECT_EQ(read.train.weight_decay, 1.0 / 3.0);
  EXPECT_EQ(read.train.steps, 12345678901234);
  EXPECT_EQ(read.data.path, "/data set/tokens.h5");
  EXPECT_FALSE(read.sync.refill);
  EXPECT_EQ(write_ini(read), ini);
}

TEST_F(OptionsTest, MapReadsBackToTheSameConfig) {
  const auto map = to_map(unlike_default());
  EXPECT_EQ(map.at("sync.learners"), "5");
  EXPECT_EQ(to_map(from_map(map, "x.h5")), map);
}

TEST_F(OptionsTest, MapWithAWrongValueNamesItsSource) {
  try {
    from_map({{"model.width", "wide"}}, "x.h5");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_EQ(std::string(error.what()),
              "x.h5: model.width = wide: must be a whole number from 1 to 1048576");
  }
}

TEST_F(OptionsTest, CommandLineOverEnvironmentOverLaterFileOverEarlierFileOverDefault) {
  const std::string first =
      file("first.ini",
           "out = from first\n"
           "[sync]\nfragments = 1\nspares = 1\nlearners = 10 # ten\nquorum=1\n");
  const std::string second =
      file("second.ini", "# a comment\n\n[sync]\n  spares = 2\nlearners = 20\nquorum = 2\n");
  set_variable("ARCHIPELAGO_SYNC_LEARNERS", "30");
  set_variable("ARCHIPELAGO_SYNC_QUORUM", "3");
  const RunConfig defaults;
  const RunConfig c = parse_run_config(
      Arguments{"--config", first, "--config=" + second, "--sync.quorum", "4", "--sync.refill=no"});
  EXPECT_EQ(c.train.batch, defaults.train.batch);
  EXPECT_EQ(c.sync.fragments, 1);
  EXPECT_EQ(c.sync.spares, 2);
  EXPECT_EQ(c.sync.learners, 30);
  EXPECT_EQ(c.sync.quorum, 4);
  EXPECT_FALSE(c.sync.refill);
  EXPECT_EQ(c.out, "from first");
}

TEST_F(OptionsTest, ResumeAloneTakesTheRunsOwnConfiguration) {
  file("config.ini", "out = elsewhere\n[train]\nsteps = 77\nbatch = 6\n");
  const RunConfig defaults;
  const RunConfig c =
      parse_run_config(Arguments{"--out", folder_.string(), "--resume", "--train.batch", "9"});
  EXPECT_EQ(c.train.steps, 77);
  EXPECT_EQ(c.train.batch, 9);
  EXPECT_EQ(c.out, folder_.string());
  EXPECT_TRUE(c.resume);
  EXPECT_EQ(parse_run_config(Arguments{"--out", folder_.string()}).train.steps,
            defaults.train.steps);
}

TEST_F(OptionsTest, LearnersHaveOptionsOfTheirOwnFromEverySource) {
  const std::string path = file("some.ini",
                                "[train]\nbatch = 16\nlr = 0.5\n"
                                "[learner.2]\ntrain.batch = 8\ntrain.optimizer = sgd\n"
                                "[learner.1]\ndata.path = austen.h5\ntrain.batch = 4\n");
  set_variable("ARCHIPELAGO_LEARNER_2_TRAIN_LR", "0.25");
  set_variable("ARCHIPELAGO_LEARNER_1_TRAIN_BATCH", "2");
  const RunConfig c = parse_run_config(Arguments{"--config", path, "--learner.1.train.batch=12"});
  const RunConfig shared = for_learner(c, 0);
  EXPECT_EQ(to_map(shared), to_map(for_learner(c, 3000)));
  EXPECT_EQ(shared.train.batch, 16);
  EXPECT_EQ(for_learner(c, 1).train.batch, 12);
  EXPECT_EQ(for_learner(c, 1).data.path, "austen.h5");
  EXPECT_EQ(for_learner(c, 1).train.lr, 0.5);
  EXPECT_EQ(for_learner(c, 2).train.batch, 8);
  EXPECT_EQ(for_learner(c, 2).train.optimizer, "sgd");
  EXPECT_EQ(for_learner(c, 2).train.lr, 0.25);
}

TEST_F(OptionsTest, WrongOptionsOfALearnerAreNamedWithFileAndLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[learner.2]\ntrain.batch = many\n",
       "line 2: learner.2.train.batch = many: must be a whole number from 1 to 16777216"},
      {"[learner.2]\ntrain.optimiser = sgd\n",
       "line 2: unknown key learner.2.train.optimiser; the nearest is learner.2.train.optimizer"},
      {"[learner.2]\n\ntrain.steps = 4\n",
       "line 3: unknown key learner.2.train.steps; the nearest is learner.2.train.clip"},
      {"[learner.02]\ntrain.batch = 4\n",
       "line 2: unknown key learner.02.train.batch; the nearest is train.batch"},
  };
  for (const auto& [content, message] : cases) {
    const std::string path = file("bad.ini", content);
    EXPECT_EQ(failure_of({"--config", path}).message, path + ", " + message);
  }
  EXPECT_EQ(failure_of({"--learner.1.train.lr", "0"}).message,
            "option --learner.1.train.lr 0: must be a number above 0, up to 100");
  EXPECT_EQ(
      failure_of(
          {"--learner.3.train.lr", "1", "--learner.1.train.batch", "9", "--train.accumulate", "2"})
          .message,
      "[learner.1] train.batch (9) must be a multiple of sync.ranks_per_learner (1) times "
      "train.accumulate (2); [learner.3] is for none of the learners, which are numbered from "
      "0; sync.learners (3)");
}

TEST_F(OptionsTest, ASizeSetsFiveOptionsThatLaterOnesChange) {
  const RunConfig named = parse_run_config(Arguments{"--model.size", "774M"});
  EXPECT_EQ(named.model.layers, 36);
  EXPECT_EQ(named.model.width, 1280);
  EXPECT_EQ(named.model.heads, 20);
  EXPECT_EQ(named.model.context, 1024);
  EXPECT_EQ(named.model.vocabulary, 50257);
  const std::string path = file("size.ini", "[model]\nlayers = 3\nsize = 124M\ncontext = 64\n");
  const RunConfig changed =
      parse_run_config(Arguments{"--config", path, "--model.vocabulary", "0"});
  EXPECT_EQ(changed.model.layers, 12);
  EXPECT_EQ(changed.model.context, 64);
  EXPECT_EQ(changed.model.vocabulary, 0);
  const RunConfig again =
      parse_run_config(Arguments{"--config", file("again.ini", write_ini(changed))});
  EXPECT_EQ(to_map(again), to_map(changed));
}

struct BadLine {
  Arguments arguments;
  ExitCode code;
  std::string message;
};

TEST_F(OptionsTest, TheRunMayBeNamedInTheEnvironment) {
  RunConfig earlier;
  earlier.out = folder_.string();
  earlier.sync.learners = 7;
  file("config.ini", write_ini(earlier));
  set_variable("ARCHIPELAGO_OUT", folder_.string());
  EXPECT_EQ(parse_run_config(Arguments{"--resume"}).sync.learners, 7);
}

TEST_F(OptionsTest, ResumeWithoutAFolderReadsNoFile) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  file("config.ini", "[sync]\nlearners = 7\n");
  const RunConfig config = parse_run_config(Arguments{"--resume"});
  EXPECT_NE(config.sync.learners, 7);
  std::filesystem::current_path(before);
}

TEST_F(OptionsTest, FilesOfOtherSystems) {
  const std::string path =
      file("windows.ini", "\xEF\xBB\xBF[sync]\r\n\tlearners\t=\t5\t\r\n\r\nquorum=2 # two\r\n");
  const RunConfig config = parse_run_config(Arguments{"--config", path});
  EXPECT_EQ(config.sync.learners, 5);
  EXPECT_EQ(config.sync.quorum, 2);
  const std::string own = file("own.ini", "\xEF\xBB\xBF[learner.1]\r\ntrain.batch = 4\r\n");
  EXPECT_EQ(for_learner(parse_run_config(Arguments{"--config", own}), 1).train.batch, 4);
}

TEST_F(OptionsTest, AFileMayBeAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string text = "[sync]\nlearners = 5\n[learner.1]\ntrain.batch = 4\n";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  for (int time = 0; time < 2; ++time) {  // as for several hosts
    const RunConfig config =
        parse_run_config(Arguments{"--config", "/proc/self/fd/" + std::to_string(ends[0])});
    EXPECT_EQ(config.sync.learners, 5);
    EXPECT_EQ(for_learner(config, 1).train.batch, 4);
  }
  ::close(ends[0]);
}

TEST_F(OptionsTest, BadCommandLines) {
  const std::vector<BadLine> cases = {
      {{"--sync.quorom", "2"},
       ExitCode::usage,
       "unknown option --sync.quorom; the nearest is --sync.quorum"},
      {{"--lr", "2"}, ExitCode::usage, "unknown option --lr; the nearest is --out"},
      {{"--sync.quorum"}, ExitCode::usage, "option --sync.quorum needs a value"},
      {{"--sync.quorum", "0"},
       ExitCode::usage,
       "option --sync.quorum 0: must be a whole number from 1 to 4096"},
      {{"--sync.quorum", "1.5"},
       ExitCode::usage,
       "option --sync.quorum 1.5: must be a whole number from 1 to 4096"},
      {{"--sync.quorum", "99999999999999999999"},
       ExitCode::usage,
       "option --sync.quorum 99999999999999999999: must be a whole number from 1 to 4096"},
      {{"--sync.quorum="}, ExitCode::usage, "option --sync.quorum needs a value"},
      {{"--a%canonical_option%="}, ExitCode::usage, "option --a%canonical_option% needs a value"},
      {{"--="}, ExitCode::usage, "option -- needs a value"},
      {{"--sync.quorum", "1", "--sync.quorum", "1"},
       ExitCode::usage,
       "option --sync.quorum is given twice"},
      {{"--train.lr", "nan"},
       ExitCode::usage,
       "option --train.lr nan: must be a number above 0, up to 100"},
      {{"--train.lr", "0"},
       ExitCode::usage,
       "option --train.lr 0: must be a number above 0, up to 100"},
      {{"--train.lr", "1e"},
       ExitCode::usage,
       "option --train.lr 1e: must be a number above 0, up to 100"},
      {{"--train.clip", "-1"},
       ExitCode::usage,
       "option --train.clip -1: must be a number from 0 on"},
      {{"--sync.merge", "median"},
       ExitCode::usage,
       "option --sync.merge median: must be one of rda, mean"},
      {{"--sync.refill", "maybe"},
       ExitCode::usage,
       "option --sync.refill maybe: must be true or false"},
      {{"--chaos", "a#b"}, ExitCode::usage, "option --chaos a#b: must be one line without '#'"},
      {{"stray"}, ExitCode::usage, "unexpected argument 'stray'"},
      {{"--config", "/dev/zero"}, ExitCode::configuration, "cannot read /dev/zero: File too large"},
      {{"--config", "/nonexistent/x.ini"},
       ExitCode::configuration,
       "cannot open /nonexistent/x.ini: No such file or directory"},
  };
  for (const auto& bad : cases) {
    const Failure failure = failure_of(bad.arguments);
    EXPECT_EQ(failure.message, bad.message);
    EXPECT_EQ(failure.code, bad.code) << bad.message;
  }
}

TEST_F(OptionsTest, BadFilesNameFileLineAndNearestKey) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[sync]\nlearners = 3\nquorom = 2\n",
       "line 3: unknown key sync.quorom; the nearest is sync.quorum"},
      {"\n# comment\nlearners = 3\n", "line 3: unknown key learners; the nearest is sync.learners"},
      {"[sync]\nlearners = 3\n[train]\nlr = 1\n[sync]\nlearners = 4\n",
       "line 6: sync.learners is already set in line 2"},
      {"[sync]\nlearners = many\n",
       "line 2: sync.learners = many: must be a whole number from 1 to 4096"},
      {"[sync]\nlearners =\n", "line 2: sync.learners = : must be a whole number from 1 to 4096"},
      {"[sync]\nlearners\n", "line 2: is neither a [section] nor a line 'name = value'"},
      {"[sync\n", "line 1: is neither a [section] nor a line 'name = value'"},
  };
  for (const auto& [content, message] : cases) {
    const std::string path = file("bad.ini", content);
    const Failure failure = failure_of({"--config", path});
    EXPECT_EQ(failure.message, path + ", " + message);
    EXPECT_EQ(failure.code, ExitCode::configuration);
  }
}

TEST_F(OptionsTest, BadEnvironmentNamesTheVariable) {
  set_variable("ARCHIPELAGO_SYNC_OUTERLR", "1");
  Failure failure = failure_of({});
  EXPECT_EQ(failure.code, ExitCode::configuration);
  EXPECT_EQ(failure.message,
            "environment variable ARCHIPELAGO_SYNC_OUTERLR names no option; the nearest is "
            "ARCHIPELAGO_SYNC_OUTER_LR");
  ::unsetenv("ARCHIPELAGO_SYNC_OUTERLR");
  set_variable("ARCHIPELAGO_SYNC_OUTER_LR", "fast");
  failure = failure_of({});
  EXPECT_EQ(failure.code, ExitCode::configuration);
  EXPECT_EQ(
      failure.message,
      "environment variable ARCHIPELAGO_SYNC_OUTER_LR=fast: must be a number above 0, up to 100");
}

TEST_F(OptionsTest, OptionsThatDoNotFitTogetherAreAllNamedInOneLine) {
  const Failure failure = failure_of(
      {"--model.width", "130", "--sync.quorum", "4", "--sync.suspect", "30", "--train.batch", "15",
       "--sync.ranks_per_learner", "2", "--sync.overlap", "25", "--sync.outlier", "0.5"});
  EXPECT_EQ(failure.code, ExitCode::configuration);
  EXPECT_EQ(
      failure.message,
      "model.width (130) must be a multiple of model.heads (4); train.batch (15) must be a "
      "multiple of sync.ranks_per_learner (2); sync.quorum (4) must not be above sync.learners "
      "(3); sync.overlap (25) must not be above sync.interval (24); sync.suspect (30) must be "
      "below sync.expel (30); sync.outlier (0.5) must be 0 or above 1");
}

TEST_F(OptionsTest, SeveralSyncersHaveNoStandbyAndKeepNoFragments) {
  const RunConfig config = parse_run_config(Arguments{"--sync.syncers", "3"});
  EXPECT_EQ(config.sync.syncers, 3);
  EXPECT_EQ(to_map(config).at("sync.syncers"), "3");
  EXPECT_EQ(syncers_of(config), 3);
  EXPECT_FALSE(can_refill(config.sync));
  EXPECT_TRUE(can_refill(RunConfig().sync));
  const Failure failure =
      failure_of({"--sync.syncers", "3", "--sync.standby", "1", "--record", "fragments"});
  EXPECT_EQ(failure.code, ExitCode::configuration);
  EXPECT_EQ(failure.message,
            "sync.syncers (3) can't have a standby: leave sync.standby out, or have one syncer; "
            "sync.syncers (3) can't be used with record fragments: no syncer has them all");
  for (const char* const name : {"sync.syncers", "sync.standby"}) {
    const Arguments arguments = {"--method", "diloco", std::string("--") + name,
                                 name == std::string("sync.syncers") ? "2" : "1"};
    EXPECT_NE(failure_of(arguments).message.find(name), std::string::npos);
  }
}

TEST_F(OptionsTest, MoreTokensThanCanBeCounted) {
  const Failure failure = failure_of({"--train.steps", "9223372036854775807"});
  EXPECT_EQ(failure.code, ExitCode::configuration);
  EXPECT_NE(failure.message.find("train.steps (9223372036854775807)"), std::string::npos);
}

TEST_F(OptionsTest, HelpShowsEveryOptionOnceWithItsDefault) {
  RunConfig config;
  const auto options = run_options(config);
  const std::string help = help_text(options, ConfigFiles::allowed);
  std::set<std::string> names;
  for (const Option& option : options) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    const auto at = help.find("--" + option.name + ' ');
    ASSERT_NE(at, std::string::npos) << option.name;
    EXPECT_EQ(help.find("--" + option.name + ' ', at + 1), std::string::npos) << option.name;
  }
  EXPECT_NE(help.find("--config FILE"), std::string::npos);
  EXPECT_NE(help.find("[0.7]"), std::string::npos);
}

TEST(Flag, TakesNoneOfTheArgumentsAroundIt) {
  bool verify = false;
  std::string other;
  const std::vector<Option> options = {flag("verify", verify, ""), text("diff", other, "F", "")};
  for (const Arguments& arguments :
       {Arguments{"--verify", "a", "b"}, Arguments{"a", "--verify", "b"},
        Arguments{"a", "b", "--verify"}, Arguments{"--verify=true", "a", "b"},
        Arguments{"--verify", "--diff", "c", "a", "b"}}) {
    verify = false;
    EXPECT_EQ(read_command_line(options, arguments).positional, (Arguments{"a", "b"}));
    EXPECT_TRUE(verify);
  }
  verify = true;
  read_command_line(options, Arguments{"--verify=false"});
  EXPECT_FALSE(verify);
}

TEST(VerbatimText, IsTakenAsItStands) {
  std::string value;
  const std::vector<Option> options = {verbatim_text("prompt", value, "TEXT", "")};
  read_command_line(options, Arguments{"--prompt", " # 1\nIn the "});
  EXPECT_EQ(value, " # 1\nIn the ");
}

TEST(Nearest, IsTheSmallestEditDistance) {
  const std::vector<std::string> words = {"kitten", "sitting", "mitten"};
  EXPECT_EQ(nearest("kittens", words), "kitten");
  EXPECT_EQ(nearest("sittin", words), "sitting");
  EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace archipelago::config
