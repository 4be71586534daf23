#include "runtime/refusal.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

#include "core/file.h"

namespace archipelago::runtime {
namespace {

constexpr const char* kFile = "refused";

}  // namespace

void leave_refusal(int rank, int code) noexcept {
  const char* const folder = std::getenv("OMPI_MCA_btl_sm_backing_directory");
  if (folder == nullptr || rank != 0) return;
  try {
    write_file(std::filesystem::path(folder) / kFile, std::to_string(code) + '\n',
               Durability::unflushed);
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
