#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hdf5/handle.h"

namespace archipelago::hdf5 {

// A complete HDF5 file in memory.
class Image {
 public:
  Image() = default;
  // Takes over memory from malloc.
  Image(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  void resize(std::size_t size) { size_ = size; }  // within the memory taken over
  // Adds bytes after the end of the HDF5 file proper, which readers of HDF5 do not look at.
  void append(std::span<const std::byte> bytes);

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

// An HDF5 file that is built in memory and never touches a disk: HDF5 1.10 crashes when it writes
// to a full one. Written with checksums on all of HDF5's own structures (format 1.10 and later).
class ImageFile {
 public:
  ImageFile();

  hid_t id() const { return file_.get(); }

  // Closes the file and hands over its bytes without copying them. Every handle into the file must
  // be closed before.
  Image finish() &&;

 private:
  std::unique_ptr<Image>
      image_;  // gets the driver's memory when the file is closed; outlives file_
  File file_;
};

// Opens for reading, without a lock: this project's files are complete when they get their name and
// never change after.
File open_file(const std::filesystem::path& path);

// Makes a group that keeps the order in which its members are made, as h5ls and h5py show it.
Group create_group(hid_t parent, const std::string& name);
Group open_group(hid_t parent, const std::string& name);

// Whether `parent` has a direct member of that name.
bool has_member(hid_t parent, const std::string& name);

// Names of the group's members, sorted.
std::vector<std::string> member_names(hid_t group);

// Full paths of all datasets in the file, sorted.
std::vector<std::string> dataset_paths(hid_t file);

}  // namespace archipelago::hdf5
