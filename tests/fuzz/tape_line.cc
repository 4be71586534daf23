#include <cstdlib>

#include "core/error.h"
#include "memory_file.h"
#include "sync/tape.h"

// The input as a line of the event tape: what is accepted is written as a line that says the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace archipelago;
  const std::string_view line = as_text(data, size);
  try {
    const sync::TapeEntry entry = sync::decode_entry(line);
    const std::string written = sync::encode_entry(entry.time, entry.event, entry.actions);
    const sync::TapeEntry again = sync::decode_entry(written);
    if (sync::encode_entry(again.time, again.event, again.actions) != written) std::abort();
  } catch (const Error&) {
  }
  try {
    const std::string written = sync::encode_start(sync::decode_start(line));
    if (sync::encode_start(sync::decode_start(written)) != written) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
