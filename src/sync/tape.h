#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sync/messages.h"

namespace archipelago::sync {

// The event tape: the machine's whole input and output as one JSON object a line. Replaying the
// events of a tape through a Machine made from its start gives its actions again. Numbers keep
// every bit; a double that is not finite is a string of its 16 hexadecimal digits.

// The first line: {"settings": {...}, "restored": {...}}.
struct TapeStart {
  Settings settings;
  Restored restored;
  bool operator==(const TapeStart&) const = default;
};

// {"t": nanoseconds, "event": {"type": "report", ...}, "actions": [{"type": "ask", ...}, ...]}
struct TapeEntry {
  Nanoseconds time = 0;
  Event event;
  std::vector<Action> actions;
};

// One line each, without its end.
std::string encode_start(const TapeStart& start);
std::string encode_entry(Nanoseconds time, const Event& event, std::span<const Action> actions);

// Throw Error(bad_data) naming what is wrong with the line.
TapeStart decode_start(std::string_view line);
TapeEntry decode_entry(std::string_view line);

}  // namespace archipelago::sync
