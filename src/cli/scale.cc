#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include "cli/commands.h"
#include "cli/live_run.h"
#include "core/error.h"
#include "core/file.h"
#include "report/settings.h"
#include "runtime/run_folder.h"

namespace archipelago::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Usage kUsage{
    .synopsis = "archipelago scale RUN --learners N",
    .description =
        "Adds learners to a running job, or retires some, while it trains: new ones are its spare\n"
        "islands (or spawned ones, sync.refill), retired ones become spares. Waits until the run\n"
        "has followed, or says why it does not. By hand: echo N > RUN/scale",
    .positional = 1,
    .most_positional = 1};

constexpr std::chrono::milliseconds kPoll{100};
constexpr std::chrono::seconds kAnswer{20};     // until the request is taken
constexpr std::chrono::seconds kPatience{120};  // without any learner more or less

std::int64_t requests(const nlohmann::json& status) {
  return status.value("/scale/requests"_json_pointer, std::int64_t{0});
}

int count(const nlohmann::json& status, const std::string& state) {
  int learners = 0;
  for (const auto& learner : status["learners"]) {
    learners += !learner["id"].is_null() && learner["state"] == state;
  }
  return learners;
}

int learners_in(const nlohmann::json& status) {
  int learners = 0;
  for (const auto& learner : status["learners"]) learners += !learner["id"].is_null();
  return learners;
}

nlohmann::json wait_for_answer(const LiveRun& run, std::int64_t before) {
  const auto deadline = Clock::now() + kAnswer;
  for (;;) {
    auto status = run.status();
    if (requests(status) > before) return status;
    if (Clock::now() > deadline) {
      throw Error(ExitCode::try_again,
                  "the run in " + run.folder().string() + " does not take requests (state " +
                      status["state"].get<std::string>() + "); try again when it trains");
    }
    std::this_thread::sleep_for(kPoll);
  }
}

// What the run has answered. A request that it did not take is taken back: a later start would
// follow it.
nlohmann::json request(const LiveRun& run, int learners, std::int64_t before) {
  const auto file = run.folder() / "scale";
  write_file(file, std::to_string(learners) + '\n', Durability::unflushed);
  try {
    return wait_for_answer(run, before);
  } catch (const Error&) {
    std::error_code error;
    std::filesystem::remove(file, error);
    throw;
  }
}

// Waits until just `wanted` learners train.
void wait_until_followed(const LiveRun& run, int wanted) {
  auto deadline = Clock::now() + kPatience;
  for (int last = -1;;) {
    const auto status = run.status();
    const int active = count(status, "active");
    if (active == wanted && learners_in(status) == wanted) return;
    if (active != last) deadline = Clock::now() + kPatience;
    last = active;
    if (Clock::now() > deadline) {
      throw Error(ExitCode::try_again, std::to_string(active) + " of " + std::to_string(wanted) +
                                           " learners train; the run goes on, and takes in more "
                                           "as islands come");
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void require_scalable(const std::filesystem::path& folder) {
  const std::string why = runtime::RunFolder(folder).holds_emulation() ? "it is emulated"
                          : !report::has_syncer(report::read_settings(folder))
                              ? "its method has no syncer"
                              : "";
  if (why.empty()) return;
  throw Error(ExitCode::configuration,
              "the learners of the run in " + folder.string() + " stay the same: " + why);
}

}  // namespace

int run_scale(std::span<const std::string> arguments) {
  int learners = 0;
  const std::vector<config::Option> options = {config::integer(
      "learners", learners, 0, 1 << 20, "learners wanted from now on; 0: not given")};
  const auto positional = read_arguments(kUsage, options, arguments);
  if (!positional) return 0;
  if (learners < 1) throw Error(ExitCode::usage, "how many? add --learners N");

  const LiveRun run(positional->front());
  require_scalable(run.folder());
  const auto before = run.status();
  const auto answer = request(run, learners, requests(before));
  const auto& refused = answer["scale"]["refused"];
  if (refused.is_string()) throw Error(ExitCode::configuration, refused.get<std::string>());
  wait_until_followed(run, learners);
  std::cout << learners << (learners == 1 ? " learner trains" : " learners train") << ", before "
            << learners_in(before) << '\n';
  return 0;
}

}  // namespace archipelago::cli
