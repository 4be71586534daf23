#include "core/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

namespace archipelago {
namespace {

[[noreturn]] void fail(const std::string& doing, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), doing + ' ' + path.string());
}

constexpr std::string_view kTemporarySuffix = ".tmp";

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.parent_path() /
         ('.' + path.filename().string() + '.' + host_name() + '.' + std::to_string(::getpid()) +
          '.' + std::to_string(counter++) + std::string(kTemporarySuffix));
}

// Cuts ".<number>" off the end of `name` and returns the number; nothing where there is none.
std::optional<int> cut_number(std::string_view& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(dot + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  name.remove_suffix(digits.size() + 1);
  return number;
}

// The process of this host that made a temporary_name(), nothing for any other name.
std::optional<int> maker_of(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return std::nullopt;
  name.remove_suffix(kTemporarySuffix.size());
  const std::optional<int> counter = cut_number(name);
  const std::optional<int> process = cut_number(name);
  if (!counter || !process || *process <= 0 || !name.ends_with('.' + host_name())) {
    return std::nullopt;
  }
  return process;
}

void flush_folder(const std::filesystem::path& folder) {
  const std::filesystem::path named = folder.empty() ? std::filesystem::path(".") : folder;
  const FileDescriptor fd(::open(named.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) fail("cannot open folder", named);
  if (::fsync(fd.get()) != 0 && errno != EINVAL) fail("cannot flush folder", named);
}

// Of pretend_full_disk().
std::atomic<std::chrono::steady_clock::time_point> full_until{};

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

  void write(std::span<const std::byte> bytes) { write_all(file_.get(), bytes, path_); }
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

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

std::string host_name() {
  char host[256] = "host";
  ::gethostname(host, sizeof host - 1);
  return host;
}

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

MappedFile::MappedFile(std::filesystem::path path, std::size_t capacity)
    : path_(std::move(path)),
      temporary_(temporary_name(path_)),
      file_(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (!file_.valid()) fail("cannot create", temporary_);
  if (!reserve(capacity)) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    fail("cannot take " + std::to_string(capacity) + " bytes for", path_);
  }
}

MappedFile::~MappedFile() {
  unmap();
  if (!committed_) ::unlink(temporary_.c_str());
}

bool MappedFile::reserve(std::size_t capacity) noexcept {
  if (capacity <= capacity_) return true;
  if (std::chrono::steady_clock::now() < full_until.load()) {
    errno = ENOSPC;
    return false;
  }
  const int error = ::posix_fallocate(file_.get(), 0, static_cast<off_t>(capacity));
  if (error != 0) {
    errno = error;
    return false;
  }
  void* mapped = data_ == nullptr
                     ? ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0)
                     : ::mremap(data_, capacity_, capacity, MREMAP_MAYMOVE);
  if (mapped == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(mapped);
  capacity_ = capacity;
  return true;
}

void pretend_full_disk(double seconds) {
  full_until = std::chrono::steady_clock::now() +
               std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                   std::chrono::duration<double>(seconds));
}

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) ::munmap(data_, capacity_);
  data_ = nullptr;
}

void MappedFile::commit(std::size_t size, Durability durability) {
  unmap();
  if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) fail("cannot cut", temporary_);
  if (durability == Durability::flushed && ::fsync(file_.get()) != 0) {
    fail("cannot flush", temporary_);
  }
  if (::close(file_.release()) != 0) fail("cannot close", temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename to", path_);
  committed_ = true;
  if (durability == Durability::flushed) flush_folder(path_.parent_path());
}

void remove_stale_temporaries(const std::filesystem::path& folder) {
  const auto minute_ago = std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::optional<int> maker = maker_of(entry.path().filename().string());
    if (!maker || ::kill(*maker, 0) == 0 || errno != ESRCH) continue;
    const auto written = std::filesystem::last_write_time(entry.path(), error);
    if (!error && written < minute_ago) std::filesystem::remove(entry.path(), error);
  }
}

std::size_t machine_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::string read_file(const std::filesystem::path& path, std::size_t at_most) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) fail("cannot open", path);
  std::string text;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read", path);
    if (n == 0) return text;
    if (text.size() + static_cast<std::size_t>(n) > at_most) {
      errno = EFBIG;
      fail("cannot read", path);
    }
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

std::optional<std::filesystem::path> AppendFile::whereabouts() const {
  struct stat opened {};
  struct stat named {};
  if (::fstat(file_.get(), &opened) != 0) fail("cannot stat", path_);
  if (::stat(path_.c_str(), &named) == 0 && named.st_dev == opened.st_dev &&
      named.st_ino == opened.st_ino) {
    return path_;
  }
  // A network file system may keep a removed file under another name in its folder.
  if (opened.st_nlink == 0) return std::nullopt;
  std::error_code error;
  const auto now =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file_.get()), error);
  if (error || !std::filesystem::exists(now, error)) return std::nullopt;
  return now;
}

void AppendFile::append(std::string_view lines) {
  struct stat before {};
  if (::fstat(file_.get(), &before) != 0) fail("cannot stat", path_);
  try {
    write_all(file_.get(), std::as_bytes(std::span(lines)), path_);
  } catch (const std::system_error&) {
    // Whoever tries again must not find a part of them there.
    static_cast<void>(::ftruncate(file_.get(), before.st_size));
    throw;
  }
}

}  // namespace archipelago
