#include <unistd.h>

#include <chrono>
#include <deque>
#include <fstream>
#include <iostream>
#include <thread>

#include "cli/commands.h"
#include "cli/live_run.h"
#include "cli/run_view.h"
#include "core/error.h"
#include "report/json_field.h"

namespace archipelago::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Usage kUsage{
    .synopsis = "archipelago watch RUN [options]",
    .description =
        "A running job, learner by learner: state, tokens, speed, loss. On a terminal the view is\n"
        "renewed until the run is over (Ctrl-C ends only the view); elsewhere it is printed once.",
    .positional = 1,
    .most_positional = 1};

constexpr std::streamoff kTail = 1 << 16;  // bytes of metrics.jsonl that hold the newest rows
constexpr std::chrono::seconds kSpeedWindow{10};
constexpr const char* kClearScreen = "\x1b[H\x1b[J";

std::string tail_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  const std::streamoff length = std::min(size, kTail);
  std::string tail(static_cast<std::size_t>(length), '\0');
  in.seekg(size - length);
  in.read(tail.data(), length);
  tail.resize(static_cast<std::size_t>(in.gcount()));
  return tail;
}

// Tokens a second over the last readings.
class Speed {
 public:
  double after(double tokens) {
    const auto now = Clock::now();
    readings_.push_back({now, tokens});
    while (readings_.size() > 2 && now - readings_.front().at > kSpeedWindow) readings_.pop_front();
    const std::chrono::duration<double> seconds = now - readings_.front().at;
    if (seconds.count() <= 0) return 0;
    return (tokens - readings_.front().tokens) / seconds.count();
  }

 private:
  struct Reading {
    Clock::time_point at;
    double tokens;
  };
  std::deque<Reading> readings_;
};

}  // namespace

int run_watch(std::span<const std::string> arguments) {
  double every = 1;
  const std::vector<config::Option> options = {
      config::positive("every", every, 3600, "seconds between two views")};
  const auto positional = read_arguments(kUsage, options, arguments);
  if (!positional) return 0;

  const LiveRun run(positional->front());
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  Speed speed;
  for (;;) {
    const auto reading = run.read();
    const double tokens = report::field(reading.status, "tokens", 0.0);
    const auto steps = last_steps(tail_of(run.folder() / "metrics.jsonl"));
    if (terminal) std::cout << kClearScreen;
    std::cout << view_of(run, reading, steps, speed.after(tokens)) << std::flush;
    if (!terminal || reading.over() || !std::cout) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(every));
  }
}

}  // namespace archipelago::cli
