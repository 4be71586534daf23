#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace archipelago {

// An open file descriptor, closed when it goes out of scope.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() noexcept;
  void reset() noexcept;

 private:
  int fd_ = -1;
};

// Whether the file and its folder are flushed to the disk before it takes its name.
enum class Durability { flushed, unflushed };

// Replaces `path` by `bytes` as a whole: writes `.<name>.<host>.<pid>.<counter>.tmp` in the same
// folder, flushes it when asked, renames it, flushes the folder. Readers see the old file or the
// new one, never a part. Throws std::system_error naming the path and the step that failed; the old
// file is then untouched and the temporary one removed.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                Durability durability);
void write_file(const std::filesystem::path& path, std::string_view text, Durability durability);

// A file that is built through a mapping of its memory and takes its name only when it is complete,
// like write_file() does. Its room on the disk is taken before anything is written, and its pages
// are the disk's cache, not this process's own memory.
class MappedFile {
 public:
  // Reserves `capacity` bytes. Throws std::system_error naming the path, e.g. when the disk is
  // full.
  MappedFile(std::filesystem::path path, std::size_t capacity);
  ~MappedFile();  // removes what was not committed
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }

  // Makes room for so many bytes, which may move data(). False when the disk has none.
  bool reserve(std::size_t capacity) noexcept;

  // Cuts the file to `size`, flushes it when asked, gives it its name. May run on another thread.
  void commit(std::size_t size, Durability durability);

 private:
  void unmap() noexcept;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileDescriptor file_;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  bool committed_ = false;
};

// Writes all of it. Throws std::system_error naming the path.
void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

// This machine's name as MPI and the launcher know it.
std::string host_name();

// For so many seconds no MappedFile of this process gets any room, as on a full disk: to try out
// what happens then.
void pretend_full_disk(double seconds);

// Removes temporary files that write_file() left in `folder` in processes of this host that are
// dead (killed while writing), once they are a minute old. What can't be removed stays.
void remove_stale_temporaries(const std::filesystem::path& folder);

// The memory of this machine in bytes.
std::size_t machine_memory();

// The whole file, if it ends within `at_most` bytes (a device may never end). Throws
// std::system_error naming the path.
std::string read_file(const std::filesystem::path& path,
                      std::size_t at_most = machine_memory() / 4);

// A line-oriented file that only grows (metrics, event tape). Each append is one write(2) of whole
// lines, so a crash leaves at most one cut line at the end.
class AppendFile {
 public:
  // Opens or creates `path`; an unfinished last line (of a run that was cut off) is closed with a
  // newline first. Throws std::system_error naming the path.
  explicit AppendFile(std::filesystem::path path);

  // Adds `lines`, which end in '\n', all or none. Throws std::system_error naming the path.
  void append(std::string_view lines);

  const std::filesystem::path& path() const { return path_; }

  // Where the file is now: path() unless it, or its folder, was moved away; nothing once it was
  // removed.
  std::optional<std::filesystem::path> whereabouts() const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace archipelago
