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

// Cut off, bytes changed, dropped, repeated.
std::string damaged(std::string bytes, archipelago::Random& random) {
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
  return bytes;
}

int run_each(const char* folder, int variants) {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string input = archipelago::read_file(entry.path());
    run(input);
    archipelago::Random random(++inputs);
    for (int i = 0; i < variants && !input.empty(); ++i) run(damaged(input, random));
  }
  return inputs;
}

}  // namespace

// Runs a fuzz target on every file of a folder of seeds and on damaged variants of each, then on
// those of a folder of inputs. Ends by a signal where one crashes the target.
int main(int count, char** words) {
  if (count != 3) return 64;
  const int seeds = run_each(words[1], kVariants);
  const int inputs = run_each(words[2], 0);
  std::printf("%d seeds, %d variants of each, %d inputs\n", seeds, kVariants, inputs);
  return seeds > 0 && inputs > 0 ? 0 : 1;
}
