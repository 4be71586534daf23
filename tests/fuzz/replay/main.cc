#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "core/file.h"
#include "core/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kVariants = 300;  // of each seed

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

// Runs a fuzz target on every file of a folder of seeds, and on damaged variants of each: cut off,
// bytes changed, dropped, repeated. Ends by a signal where one crashes the target.
int main(int count, char** words) {
  using namespace archipelago;
  if (count != 2) return 64;
  int seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(words[1])) {
    const std::string seed = read_file(entry.path());
    run(seed);
    Random random(++seeds);
    for (int i = 0; i < kVariants && !seed.empty(); ++i) {
      std::string bytes = seed;
      for (std::uint64_t change = 0; change <= random.below(4); ++change) {
        const auto at = static_cast<std::size_t>(random.below(bytes.size()));
        const auto kind = random.below(8);
        if (kind == 0) {
          bytes.resize(at + 1);
        } else if (kind == 1) {
          bytes.insert(at, bytes.substr(at, static_cast<std::size_t>(random.below(16))));
        } else if (kind == 2 && bytes.size() > at + 1) {
          bytes.erase(at, 1);
        } else {
          bytes[at] = static_cast<char>(random.below(256));
        }
      }
      run(bytes);
    }
  }
  std::printf("%d seeds, %d variants of each\n", seeds, kVariants);
  return seeds > 0 ? 0 : 1;
}
