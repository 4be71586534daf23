#pragma once

#include <cstdint>
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

// Throw Error(bad_data) naming what is wrong with the line. A checksum in it is passed over.
TapeStart decode_start(std::string_view line);
TapeEntry decode_entry(std::string_view line);

// {"type": "ask", ...}
std::string encode_action(const Action& action);

// The checksum that ends every line, "sum": of the line and of all lines that were chained before
// it. So a changed line is found where it is, and a missing one at the line behind it. A start
// begins a chain that its entries go on with; a line of any other kind is a chain of its own.
class TapeChain {
 public:
  // The line with its checksum, which later lines go on from.
  std::string seal(const std::string& line);

  enum class Fit {
    fits,      // and the chain goes on from it
    unsealed,  // no checksum at its end: no whole line
    differs,
  };
  Fit follow(std::string_view line);

 private:
  std::uint64_t sum_ = 0;
};

}  // namespace archipelago::sync
