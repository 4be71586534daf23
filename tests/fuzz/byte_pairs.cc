#include "data/byte_pairs.h"

#include <cstdlib>

// The first byte says how many merges to learn from the rest; whatever they are, encoding and
// decoding give the text back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace archipelago::data;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  Tokenizer tokenizer(train_merges(text, kByteIds + data[0]));
  if (tokenizer.decode(tokenizer.encode(text)) != text) std::abort();
  return 0;
}
