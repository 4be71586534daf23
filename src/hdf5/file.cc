#include "hdf5/file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace archipelago::hdf5 {
namespace {

// The core driver grows its memory by this many bytes.
constexpr std::size_t kGrowth = std::size_t{64} << 10;

// HDF5's core driver takes its memory through these; `udata` is the MappedFile.
void* resize_memory(void*, size_t size, H5FD_file_image_op_t, void* udata) {
  auto* output = static_cast<MappedFile*>(udata);
  return output->reserve(size) ? output->data() : nullptr;
}
void* take_memory(size_t size, H5FD_file_image_op_t operation, void* udata) {
  return resize_memory(nullptr, size, operation, udata);
}
herr_t keep_memory(void*, H5FD_file_image_op_t, void*) { return 0; }

// The MappedFile outlives the file's property lists, which therefore share it.
void* share(void* udata) { return udata; }
herr_t unshare(void*) { return 0; }

File create_image_file(MappedFile& output) {
  PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "create a file access list");
  check(H5Pset_fapl_core(access.get(), kGrowth, false), "choose HDF5's core driver");
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110),
        "choose HDF5's file format");
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_malloc = take_memory;
  callbacks.image_realloc = resize_memory;
  callbacks.image_free = keep_memory;
  callbacks.udata_copy = share;
  callbacks.udata_free = unshare;
  callbacks.udata = &output;
  check(H5Pset_file_image_callbacks(access.get(), &callbacks), "set HDF5's memory callbacks");
  PropertyList creation(H5Pcreate(H5P_FILE_CREATE), "create a file creation list");
  check(H5Pset_link_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
        "keep the order of members");
  check(H5Pset_obj_track_times(creation.get(), false), "leave times out");
  return {H5Fcreate("image", H5F_ACC_TRUNC, creation.get(), access.get()),
          "create an HDF5 file in memory"};
}

}  // namespace

ImageFile::ImageFile(MappedFile& output) : file_(create_image_file(output)) {}

std::size_t ImageFile::finish() && {
  check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "flush an HDF5 file in memory");
  const ssize_t size = check(H5Fget_file_image(file_.get(), nullptr, 0), "measure an HDF5 file");
  file_.close("close an HDF5 file in memory");
  return static_cast<std::size_t>(size);
}

std::size_t image_capacity(std::size_t data_bytes, std::size_t datasets) {
  constexpr std::size_t kDatasetBytes = std::size_t{4}
                                        << 10;  // header, attributes, chunk index, padding
  return data_bytes + data_bytes / 64 + datasets * kDatasetBytes + 2 * kGrowth;
}

bool is_hdf5(const std::filesystem::path& path) { return H5Fis_hdf5(path.c_str()) > 0; }

File open_file(const std::filesystem::path& path) {
  // HDF5 would wait for ever at a pipe, and tell of a folder over several lines.
  if (::access(path.c_str(), R_OK) != 0) throw Failure(std::strerror(errno));
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw Failure("it is no regular file");
  if (!is_hdf5(path)) throw Failure("it is no HDF5 file");
  const PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "create a file access list");
  check(H5Pset_file_locking(access.get(), false, true), "turn file locking off");
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "open"};
}

Group create_group(hid_t parent, const std::string& name) {
  const PropertyList creation(H5Pcreate(H5P_GROUP_CREATE), "create a group creation list");
  check(H5Pset_link_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
        "keep the order of members");
  check(H5Pset_obj_track_times(creation.get(), false), "leave times out");
  return {H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
          "create group " + name};
}

Group open_group(hid_t parent, const std::string& name) {
  return {H5Gopen2(parent, name.c_str(), H5P_DEFAULT), "open group " + name};
}

bool has_member(hid_t parent, const std::string& name) {
  return check(H5Lexists(parent, name.c_str(), H5P_DEFAULT), "look for " + name) > 0;
}

std::vector<std::string> member_names(hid_t group) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* list) -> herr_t {
    static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return 0;
  };
  check(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names), "list a group");
  return names;
}

std::vector<std::string> dataset_paths(hid_t file) {
  std::vector<std::string> paths;
  const auto add = [](hid_t, const char* name, const H5O_info_t* info, void* list) -> herr_t {
    if (info->type == H5O_TYPE_DATASET) {
      static_cast<std::vector<std::string>*>(list)->push_back(std::string("/") + name);
    }
    return 0;
  };
  check(H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, add, &paths, H5O_INFO_BASIC),
        "list the datasets");
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace archipelago::hdf5
