#include "runtime/memory_table.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace archipelago::runtime {
namespace {

std::string mib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::int64_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t value = 0;
    if (words >> key >> value && (key == "RssAnon:" || key == "RssShmem:")) kib += value;
  }
  return kib * 1024;
}

std::string memory_table(const LearnerMemory& memory, std::int64_t before, std::int64_t resident) {
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2f", memory_ratio(memory, before, resident));
  return "memory in MiB: parameters " + mib(memory.parameters) + ", gradients " +
         mib(memory.gradients) + ", moments " + mib(memory.moments) + ", activations " +
         mib(memory.activations) + ", kept for differences " + mib(memory.exchange) +
         ", two fragments " + mib(memory.fragments) + ", together " + mib(memory.total()) +
         "; before the model (program, MPI, token data " + mib(memory.data) + ") " + mib(before) +
         "; resident now " + mib(resident) + ": the model's part is " + ratio + " times its parts";
}

double memory_ratio(const LearnerMemory& memory, std::int64_t before, std::int64_t resident) {
  return static_cast<double>(resident - before) / static_cast<double>(memory.total());
}

}  // namespace archipelago::runtime
