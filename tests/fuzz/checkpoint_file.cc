#include "attempt.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/inspect.h"
#include "memory_file.h"

// The input with a seal that does not match, as of a file that was damaged: the readers look for
// what is damaged. (With a matching seal they would trust the text attributes, and HDF5 1.10 itself
// hangs on crafted ones; the seal is there to keep damaged ones from it.)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace archipelago;
  std::string bytes(as_text(data, size));
  bytes += "archipelago-seal0000000000000000";
  const MemoryFile file(bytes);
  attempt([&] { checkpoint::load_global(file.path()); });
  attempt([&] { checkpoint::load_learner(file.path()); });
  attempt([&] { checkpoint::inspect(file.path()); });
  return 0;
}
