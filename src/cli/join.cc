#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cli/commands.h"
#include "cli/job.h"
#include "cli/job_signs.h"
#include "cli/launch_plan.h"
#include "cli/scratch.h"
#include "cli/train_arguments.h"
#include "config/options.h"
#include "core/error.h"
#include "core/log.h"
#include "core/program.h"
#include "runtime/invitation.h"
#include "runtime/refusal.h"
#include "runtime/run_folder.h"

namespace archipelago::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Usage kUsage{
    .synopsis = "archipelago join RUN [options] [-- TRAIN-OPTIONS]",
    .description =
        "One more island for the run in RUN, which has to be started with --sync.listen: a job of\n"
        "its own, on any host that reaches the syncer's. It trains until the run ends, and comes\n"
        "again by itself where the syncer dies and is replaced, or the run started again. It ends\n"
        "with 0 where the run is complete, with 75 where it was stopped before. SIGTERM,\n"
        "SIGUSR1 or Ctrl-C: it leaves, and the run goes on without it. Where RUN is on no shared\n"
        "file system, a folder with copies of its config.ini and join.json does; the address in\n"
        "the copy may be changed. TRAIN-OPTIONS may be those of this machine: --data.path,\n"
        "--train.threads, --device.",
    .positional = 1,
    .most_positional = 1};

constexpr std::chrono::milliseconds kPoll{500};
constexpr double kAnswerSeconds = 2;
constexpr double kTrained = 15;  // seconds after which an island was not turned away
constexpr int kCrashes = 3;      // in a row

struct JoinOptions {
  int ranks = 0;
  double patience = 60;
};

std::vector<config::Option> options_of(JoinOptions& o) {
  return {
      config::integer("ranks", o.ranks, 0, 4096, "MPI ranks; 0: as many as the run's islands have"),
      config::real("patience", o.patience, 0, 1e9,
                   "seconds to wait for a run that takes in nobody now"),
  };
}

// Why no island can come in now; nothing where the syncer answers.
std::optional<std::string> closed(const std::filesystem::path& file) {
  const auto invitation = runtime::read_invitation(file);
  if (!invitation) {
    return "there is no " + file.string() +
           ": the run has to train, and to be started with --sync.listen, which writes it; a copy "
           "of the run's folder needs one of it, too";
  }
  try {
    const auto silence = link::silence_of(invitation->address, kAnswerSeconds);
    if (!silence) return std::nullopt;
    return *silence + ", the address in " + file.string() +
           ": the run has to train, and this host to reach it";
  } catch (const Error& error) {
    throw Error(error.code(), file.string() + ": " + error.what());
  }
}

// Whether the run has trained all it is to train.
bool is_complete(const runtime::RunFolder& folder) {
  const auto summary = nlohmann::json::parse(std::ifstream(folder.summary()), nullptr, false);
  return summary.is_object() && summary.value("outcome", "") == "complete";
}

struct Attempt {
  int code = 0;
  bool asked = false;  // to leave
  double seconds = 0;
};

Attempt attempt(const LaunchPlan& plan, const std::filesystem::path& scratch) {
  const auto started = Clock::now();
  Attempt result;
  runtime::forget_refusal(scratch);
  Job job(plan.command, plan.environment);
  RanksWatch ranks(job.pid());
  const auto is_over = [&] { return runtime::refusal_in(scratch) || ranks.are_gone(); };
  const auto pass_on = [&](int) {
    result.asked = true;
    ::kill(job.pid(), SIGUSR1);  // mpirun hands this one on to its ranks
  };
  job.wait({is_over, pass_on});
  // Without a word of its ranks it has crashed: mpirun's code is no verdict.
  result.code = runtime::refusal_in(scratch).value_or(
      static_cast<int>(result.asked ? ExitCode::try_again : ExitCode::internal));
  result.seconds = Seconds(Clock::now() - started).count();
  return result;
}

std::string command_line(std::span<const std::string> arguments) {
  std::string line = "archipelago join";
  for (const std::string& word : arguments) line += ' ' + shell_word(word);
  return line;
}

// Refused for good: it would be so again.
bool is_final(int code) {
  return code == static_cast<int>(ExitCode::usage) ||
         code == static_cast<int>(ExitCode::bad_data) ||
         code == static_cast<int>(ExitCode::configuration);
}

}  // namespace

int run_join(std::span<const std::string> arguments) {
  const auto separator = std::ranges::find(arguments, "--");
  JoinOptions options;
  const std::vector<std::string> own(arguments.begin(), separator);
  require_separator(own, separator != arguments.end(), kUsage.synopsis);
  const auto positional = read_arguments(kUsage, options_of(options), own);
  if (!positional) return 0;
  const runtime::RunFolder folder(positional->front());
  if (!std::filesystem::exists(folder.config())) {
    throw Error(ExitCode::configuration,
                folder.path().string() +
                    " holds no run (no config.ini); name the folder of one, or of "
                    "copies of its config.ini and join.json");
  }
  std::vector<std::string> words = {"--config=" + folder.config().string(),
                                    "--out=" + folder.path().string()};
  if (separator != arguments.end()) words.insert(words.end(), separator + 1, arguments.end());
  if (options.ranks > 0) {
    words.push_back("--sync.ranks_per_learner=" + std::to_string(options.ranks));
  }
  config::clear_environment();  // the run's options are in its config.ini
  const config::RunConfig config = parse_train_arguments(words, {});
  ::setenv("HOME", "/", 0);  // mpirun does not start without one
  const Scratch scratch;
  const LaunchPlan plan = make_guest_plan(config, words, program_file(), scratch.path());
  auto deadline = Clock::now() + Seconds(options.patience);
  int crashes = 0;
  const std::string patience = std::to_string(std::lround(options.patience)) + " s";
  bool waits = false;
  for (;;) {
    Attempt last{.code = static_cast<int>(ExitCode::try_again)};
    const auto why = closed(folder.invitation());
    if (!why) {
      last = attempt(plan, scratch.path());
      waits = false;
    } else if (!std::exchange(waits, true)) {
      log_info(*why + "; waiting for " + patience);
    }
    if (last.code == 0 || is_complete(folder)) {
      log_info("the run is complete");
      return 0;
    }
    if (last.code == runtime::kRunEndedEarly) {
      log_info("the run has ended before all is trained; once it goes on, take part again: " +
               command_line(arguments));
      return static_cast<int>(ExitCode::try_again);
    }
    if (last.asked || is_final(last.code)) return last.code;
    if (last.seconds > kTrained) deadline = Clock::now() + Seconds(options.patience);
    const bool has_crashed = last.code != static_cast<int>(ExitCode::try_again);
    crashes = has_crashed ? crashes + 1 : 0;
    if (has_crashed) log_warning("the island has died; it is started again");
    if (crashes >= kCrashes) {
      log_error("the island has failed " + std::to_string(crashes) + " times in a row");
      return static_cast<int>(ExitCode::internal);
    }
    if (Clock::now() > deadline) {
      log_error(why.value_or("the run in " + folder.path().string() + " takes in no islands") +
                " (waited " + patience + ")");
      return static_cast<int>(ExitCode::try_again);
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace archipelago::cli
