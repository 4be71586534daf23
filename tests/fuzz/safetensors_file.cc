#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace archipelago;
  const MemoryFile file(as_text(data, size));
  try {
    checkpoint::read_safetensors(file.path());
  } catch (const Error&) {
  }
  return 0;
}
