#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <optional>
#include <thread>

#include "cli/commands.h"
#include "cli/live_run.h"
#include "cli/run_view.h"
#include "core/error.h"
#include "report/settings.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage{
    .synopsis = "archipelago watch RUN [options]",
    .description =
        "A running job, learner by learner: state, tokens, speed, loss. On a terminal the view is\n"
        "renewed until the run is over (Ctrl-C ends only the view); elsewhere it is printed once,\n"
        "with exit code 75 where nothing is heard of a run that is not over.",
    .positional = 1,
    .most_positional = 1};

constexpr std::streamoff kTail = 1 << 18;  // bytes of metrics.jsonl that hold the newest rows
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

std::optional<Size> terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    return std::nullopt;
  }
  return Size{size.ws_row, size.ws_col};
}

// A write to a terminal whose window was closed may fail, or go nowhere.
bool terminal_is_gone() {
  pollfd terminal{STDOUT_FILENO, 0, 0};
  return poll(&terminal, 1, 0) > 0 && (terminal.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace

int run_watch(std::span<const std::string> arguments) {
  double every = 1;
  const std::vector<config::Option> options = {
      config::positive("every", every, 3600, "seconds between two views")};
  const auto positional = read_arguments(kUsage, options, arguments);
  if (!positional) return 0;

  const LiveRun run(positional->front());
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  for (;;) {
    const auto reading = run.read();
    const auto rows = newest_rows(tail_of(run.folder() / "metrics.jsonl"));
    const bool has_syncer = report::has_syncer(report::read_settings(run.folder()));
    if (terminal) std::cout << kClearScreen;
    std::cout << view_of(run, reading, rows, has_syncer, terminal_size()) << std::flush;
    if (!terminal && reading.silent()) return static_cast<int>(ExitCode::try_again);
    if (!terminal || reading.over() || !std::cout || terminal_is_gone()) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(every));
  }
}

}  // namespace archipelago::cli
