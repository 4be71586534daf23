#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/file.h"
#include "hdf5/handle.h"

namespace archipelago::hdf5 {

// An HDF5 file that is built in mapped memory whose room on the disk is taken beforehand: HDF5 1.10
// crashes when it writes to a full disk. Written with checksums on all of HDF5's own structures
// (format 1.10 and later).
class ImageFile {
 public:
  // `output`: its data() becomes the file's bytes; must outlive this.
  explicit ImageFile(MappedFile& output);

  hid_t id() const { return file_.get(); }

  // Closes the file and returns its size in bytes. Every handle into it must be closed before.
  std::size_t finish() &&;

 private:
  File file_;
};

// Room for a file with so many bytes of data in so many datasets.
std::size_t image_capacity(std::size_t data_bytes, std::size_t datasets);

// Whether it begins as HDF5 files do.
bool is_hdf5(const std::filesystem::path& path);

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
