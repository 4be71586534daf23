#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "hdf5/handle.h"

namespace archipelago::data {

// A kind of HDF5 file that `archipelago prepare` makes. All of them carry the attributes format,
// format_version and digest (docs/data.md).
struct FileKind {
  const char* name;  // as messages call it
  const char* command;
  const char* contents;
  const char* format;
  const char* version;
};

// Writes a file whole or not at all. `write` fills it in, `data_bytes` of data in a few datasets;
// `digest` is theirs.
void write_data_file(const std::filesystem::path& path, const FileKind& kind,
                     std::size_t data_bytes, std::uint64_t digest,
                     const std::function<void(hid_t file)>& write);

// Opens the file and has `read` take what it needs, once the file is known to be of this kind.
// `read` returns the digest of what it took, and throws hdf5::Failure for what is wrong in the
// file. Throws Error(bad_data) naming the file, what is wrong and the command that makes one.
void read_data_file(const std::filesystem::path& path, const FileKind& kind,
                    const std::function<std::uint64_t(hid_t file)>& read);

}  // namespace archipelago::data
