#include "checkpoint/seal.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/checksum.h"

namespace archipelago::checkpoint {
namespace {

constexpr std::string_view kMark = "archipelago-seal";  // followed by 16 hexadecimal digits
constexpr std::size_t kSealBytes = 32;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

std::string seal_text(std::uint64_t sum) { return std::string(kMark) + to_hex(sum); }

std::ifstream open_binary(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::system_error(errno, std::generic_category(), "open " + path.string());
  return file;
}

void read_exactly(std::ifstream& file, std::span<char> bytes, const std::filesystem::path& path) {
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::system_error(errno, std::generic_category(), "read " + path.string());
}

}  // namespace

// XXH3-64 of blocks of 1 MiB, each seeded by the sum before it, so that a reader needs one block.
std::string seal_of(std::span<const std::byte> file) {
  std::uint64_t sum = 0;
  for (auto rest = file; !rest.empty();) {
    const auto block = rest.first(std::min(rest.size(), kBlockBytes));
    sum = checksum(block, sum);
    rest = rest.subspan(block.size());
  }
  return seal_text(sum);
}

Seal check_seal(const std::filesystem::path& path) {
  const std::uintmax_t size = std::filesystem::file_size(path);
  if (size < kSealBytes) return Seal::missing;
  std::ifstream file = open_binary(path);
  std::vector<char> block(kBlockBytes);
  std::uint64_t sum = 0;
  for (std::uintmax_t left = size - kSealBytes; left > 0;) {
    const std::span<char> part(block.data(), std::min<std::uintmax_t>(left, kBlockBytes));
    read_exactly(file, part, path);
    sum = checksum(std::as_bytes(part), sum);
    left -= part.size();
  }
  const std::span<char> tail(block.data(), kSealBytes);
  read_exactly(file, tail, path);
  const std::string_view text(tail.data(), tail.size());
  if (text == seal_text(sum)) return Seal::intact;
  return text.starts_with(kMark) ? Seal::broken : Seal::missing;
}

}  // namespace archipelago::checkpoint
