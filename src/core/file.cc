#include "core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

namespace archipelago {
namespace {

[[noreturn]] void fail(const std::string& doing, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), doing + ' ' + path.string());
}

void write_all(int fd, const char* data, std::size_t size, const std::filesystem::path& path) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write", path);
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  char host[256] = "host";
  ::gethostname(host, sizeof host - 1);
  return path.parent_path() / ('.' + path.filename().string() + '.' + host + '.' +
                               std::to_string(::getpid()) + '.' + std::to_string(counter++) +
                               ".tmp");
}

void flush_folder(const std::filesystem::path& folder) {
  const std::filesystem::path named = folder.empty() ? std::filesystem::path(".") : folder;
  const FileDescriptor fd(::open(named.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) fail("cannot open folder", named);
  if (::fsync(fd.get()) != 0 && errno != EINVAL) fail("cannot flush folder", named);
}

// Removes the temporary file unless it took its final name.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path)
      : path_(std::move(path)),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (!file_.valid()) fail("cannot create", path_);
  }
  ~TemporaryFile() {
    if (!renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    write_all(file_.get(), reinterpret_cast<const char*>(bytes.data()), bytes.size(), path_);
  }
  void flush() {
    if (::fsync(file_.get()) != 0) fail("cannot flush", path_);
  }
  void close_as(const std::filesystem::path& target) {
    if (::close(file_.release()) != 0) fail("cannot close", path_);
    if (::rename(path_.c_str(), target.c_str()) != 0) fail("cannot rename to", target);
    renamed_ = true;
  }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  bool renamed_ = false;
};

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() noexcept { return std::exchange(fd_, -1); }

void FileDescriptor::reset() noexcept {
  if (fd_ >= 0) ::close(release());
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                Durability durability) {
  TemporaryFile file(temporary_name(path));
  file.write(bytes);
  if (durability == Durability::flushed) file.flush();
  file.close_as(path);
  if (durability == Durability::flushed) flush_folder(path.parent_path());
}

void write_file(const std::filesystem::path& path, std::string_view text, Durability durability) {
  write_file(path, std::as_bytes(std::span(text)), durability);
}

std::string read_file(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) fail("cannot open", path);
  std::string text;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read", path);
    if (n == 0) return text;
    text.append(chunk, static_cast<std::size_t>(n));
  }
}

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (!file_.valid()) fail("cannot open", path_);
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail("cannot stat", path_);
  char last = '\n';
  if (status.st_size > 0 && ::pread(file_.get(), &last, 1, status.st_size - 1) != 1) {
    fail("cannot read the end of", path_);
  }
  if (last != '\n') append("\n");
}

void AppendFile::append(std::string_view lines) {
  write_all(file_.get(), lines.data(), lines.size(), path_);
}

}  // namespace archipelago
