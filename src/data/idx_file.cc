#include "data/idx_file.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/error.h"

namespace archipelago::data {
namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;
constexpr std::size_t kBlock = 1 << 20;  // a damaged header makes nobody allocate for it
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::bad_data, "cannot use " + path.string() + ": " + why);
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) refuse(path, "there is no such file, or it can't be opened");
  }

  // Bytes read, fewer than `count` only at the end of the file.
  std::size_t read(std::uint8_t* out, std::size_t count) {
    const int got = gzread(file_.get(), out, static_cast<unsigned>(count));
    int code = Z_OK;
    const char* const message = gzerror(file_.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      refuse(path_, std::string("it is damaged: ") + message);
    }
    return static_cast<std::size_t>(got);
  }

 private:
  const std::filesystem::path& path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace

IdxArray read_idx(const std::filesystem::path& path) {
  Reader reader(path);
  std::uint8_t magic[4];
  if (reader.read(magic, 4) != 4 || magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedBytes ||
      magic[3] == 0) {
    refuse(path, "it is no IDX file of unsigned bytes");
  }
  IdxArray array;
  std::int64_t size = 1;
  for (int dimension = 0; dimension < magic[3]; ++dimension) {
    std::uint8_t word[4];
    if (reader.read(word, 4) != 4) refuse(path, "it ends within its header");
    array.shape.push_back((std::int64_t{word[0]} << 24) | (word[1] << 16) | (word[2] << 8) |
                          word[3]);
    if (array.shape.back() > kLargest / std::max<std::int64_t>(size, 1)) {
      refuse(path, "its header says it is larger than can be true");
    }
    size *= array.shape.back();
  }
  for (auto missing = static_cast<std::size_t>(size); missing > 0;) {
    const std::size_t wanted = std::min(missing, kBlock);
    const std::size_t before = array.values.size();
    array.values.resize(before + wanted);
    if (reader.read(array.values.data() + before, wanted) != wanted) {
      refuse(path, "it is shorter than its header says");
    }
    missing -= wanted;
  }
  std::uint8_t beyond = 0;
  if (reader.read(&beyond, 1) != 0) refuse(path, "it is longer than its header says");
  return array;
}

}  // namespace archipelago::data
