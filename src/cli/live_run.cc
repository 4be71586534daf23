#include "cli/live_run.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

// The syncer writes about every second; a standby takes a few to follow it.
constexpr std::chrono::seconds kSilence{15};

}  // namespace

LiveRun::LiveRun(fs::path folder) : folder_(std::move(folder)) {}

bool LiveRun::Reading::over() const {
  const std::string state = status["state"].get<std::string>();
  return state == "done" || state == "failed" || state == "stopping" || state == "stopped";
}

bool LiveRun::Reading::silent() const { return !over() && age > kSilence; }

LiveRun::Reading LiveRun::read() const {
  const fs::path file = folder_ / "status.json";
  std::error_code error;
  const auto written = fs::last_write_time(file, error);
  if (error) {
    throw Error(ExitCode::configuration,
                folder_.string() + " holds no run that has begun: there is no status.json");
  }
  auto status = nlohmann::json::parse(read_file(file), nullptr, false);
  if (!status.is_object() || !status.contains("state") || !status["state"].is_string() ||
      !status.contains("learners") || !status["learners"].is_array()) {
    throw Error(ExitCode::bad_data, file.string() + " is no run's status");
  }
  return {std::move(status), std::chrono::duration_cast<std::chrono::seconds>(
                                 fs::file_time_type::clock::now() - written)};
}

nlohmann::json LiveRun::status() const {
  Reading reading = read();
  if (reading.over()) {
    const auto state = reading.status["state"].get<std::string>();
    throw Error(ExitCode::try_again,
                "the run in " + folder_.string() + " is over (" + state +
                    "); start it again with " +
                    (state == "done" ? "--resume and a higher --train.steps" : "--resume"));
  }
  if (reading.silent()) {
    throw Error(ExitCode::try_again, "the run in " + folder_.string() + " has said nothing for " +
                                         std::to_string(reading.age.count()) +
                                         " s: its syncer is dead or hangs");
  }
  return std::move(reading.status);
}

}  // namespace archipelago::cli
