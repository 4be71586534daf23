#include "fragment/contributions.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "core/checksum.h"
#include "core/error.h"

namespace archipelago::fragment {
namespace {

constexpr std::uint64_t kLargestFile = 64 << 20;
constexpr std::uint64_t kMagic = 0x3142'4952'5443'5241ULL;  // the bytes "ARCTRIB1"

// Before the values of each contribution.
struct Header {
  std::uint64_t magic;
  ContributionKey key;
  std::uint64_t elements;
  std::uint64_t sum;  // of the header with sum 0, then of the values
};

std::filesystem::path file_name(const std::filesystem::path& folder, int life, int number) {
  return folder / (std::to_string(life) + '-' + std::to_string(number) + ".contributions");
}

std::uint64_t sum_of(Header header, std::span<const float> values) {
  header.sum = 0;
  const auto head = std::as_bytes(std::span(&header, 1));
  return checksum(std::as_bytes(values), checksum(head));
}

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& problem) {
  throw Error(ExitCode::bad_data, file.string() + ": " + problem);
}

bool read_header(std::ifstream& input, Header& header) {
  return static_cast<bool>(input.read(reinterpret_cast<char*>(&header), sizeof header));
}

}  // namespace

int next_life(const std::filesystem::path& folder) {
  int life = 0;
  while (std::filesystem::exists(file_name(folder, life, 0))) ++life;
  return life;
}

ContributionWriter::ContributionWriter(std::filesystem::path folder, int life)
    : folder_(std::move(folder)), life_(life) {}

void ContributionWriter::add(const ContributionKey& key, std::span<const float> values) {
  const std::uint64_t bytes = sizeof(Header) + values.size_bytes();
  if (file_.valid() && size_ + bytes > kLargestFile) file_.reset();
  const bool fresh = !file_.valid();
  const auto path = file_name(folder_, life_, fresh ? number_ : number_ - 1);
  if (fresh) {
    std::filesystem::create_directories(folder_);
    file_ = FileDescriptor(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    ++number_;
    if (!file_.valid()) {
      throw std::system_error(errno, std::generic_category(), "cannot create " + path.string());
    }
    size_ = 0;
  }
  Header header{kMagic, key, values.size(), 0};
  header.sum = sum_of(header, values);
  try {
    write_all(file_.get(), std::as_bytes(std::span(&header, 1)), path);
    write_all(file_.get(), std::as_bytes(values), path);
  } catch (...) {
    file_.reset();
    throw;
  }
  size_ += bytes;
}

ContributionReader::ContributionReader(const std::filesystem::path& folder, int life) {
  // Where a file could not be made, its number is missing.
  std::error_code error;
  const std::string begin = std::to_string(life) + '-';
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(begin)) index(entry.path());
  }
}

void ContributionReader::index(const std::filesystem::path& file) {
  const std::uint64_t size = std::filesystem::file_size(file);
  std::ifstream input(file, std::ios::binary);
  if (!input) fail(file, "cannot be read");
  Header header{};
  for (std::uint64_t offset = 0; read_header(input, header);) {
    if (header.magic != kMagic) fail(file, "no contribution at byte " + std::to_string(offset));
    const std::uint64_t room = size - offset - sizeof header;
    if (header.elements > room / sizeof(float)) return;  // cut off
    places_[header.key] = {file, offset};
    offset += sizeof header + header.elements * sizeof(float);
    input.seekg(static_cast<std::streamoff>(offset));
  }
}

std::optional<std::vector<float>> ContributionReader::find(const ContributionKey& key) const {
  const auto place = places_.find(key);
  if (place == places_.end()) return std::nullopt;
  std::ifstream input(place->second.file, std::ios::binary);
  input.seekg(static_cast<std::streamoff>(place->second.offset));
  Header header{};
  if (!read_header(input, header)) fail(place->second.file, "cannot be read");
  std::vector<float> values(header.elements);
  if (!input.read(reinterpret_cast<char*>(values.data()),
                  static_cast<std::streamsize>(values.size() * sizeof(float))) ||
      header.sum != sum_of(header, values)) {
    fail(place->second.file, "the contribution of learner " + std::to_string(key.learner) +
                                 " to round " + std::to_string(key.round) +
                                 " does not fit its checksum");
  }
  return values;
}

}  // namespace archipelago::fragment
