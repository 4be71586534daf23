#include "data/token_file.h"

#include "attempt.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace archipelago;
  const MemoryFile file(as_text(data, size));
  attempt([&] {
    const data::TokenFile tokens = data::read_token_file(file.path());
    data::Tokenizer tokenizer(tokens.merges);
    if (!tokens.merges.empty()) tokenizer.decode(tokens.train);
  });
  return 0;
}
