#include "runtime/refusal.h"

#include <fstream>
#include <string>
#include <system_error>

#include "core/file.h"
#include "runtime/scratch_folder.h"

namespace archipelago::runtime {
namespace {

constexpr const char* kFile = "refused";

}  // namespace

void leave_refusal(int rank, int code) noexcept {
  const auto folder = scratch_folder();
  if (!folder || rank != 0) return;
  try {
    write_file(*folder / kFile, std::to_string(code) + '\n', Durability::unflushed);
  } catch (const std::exception&) {
    // mpirun's own exit code is left.
  }
}

std::optional<int> refusal_in(const std::filesystem::path& folder) {
  std::ifstream file(folder / kFile);
  int code = 0;
  if (!(file >> code)) return std::nullopt;
  return code;
}

void forget_refusal(const std::filesystem::path& folder) noexcept {
  std::error_code error;  // there is none
  std::filesystem::remove(folder / kFile, error);
}

}  // namespace archipelago::runtime
