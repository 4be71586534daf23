#include "replay/replay.h"

#include <iostream>

#include "cli/commands.h"
#include "core/error.h"

namespace archipelago::cli {

int run_replay(std::span<const std::string> given) {
  bool json = false;
  const std::vector<config::Option> options = {config::flag("json", json, "print one JSON object")};
  const auto positional = read_arguments(
      {"archipelago replay RUN [options]",
       "Tells the run's events to the state machine again and checks that it decides the same, "
       "line\n"
       "by line of RUN/events.jsonl; for a run with --record fragments, also that the merges give\n"
       "the same Theta, bit for bit, at each snapshot. A tape that a crash cut off is followed to\n"
       "its end. Exit code 65: something differs; the line of the tape is named.",
       1, 1},
      options, given);
  if (!positional) return 0;
  config::clear_environment();  // the run's own options count
  const replay::Replayed replayed = replay::replay(positional->front());
  std::cout << (json ? replay::replayed_json(replayed) + "\n" : replay::replayed_text(replayed));
  if (!replayed.difference.empty()) throw Error(ExitCode::bad_data, replayed.difference);
  return 0;
}

}  // namespace archipelago::cli
