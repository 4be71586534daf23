#include "hdf5/file.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace archipelago::hdf5 {
namespace {

// The core driver grows its memory by this many bytes; large blocks are remapped, not copied.
constexpr std::size_t kGrowth = std::size_t{4} << 20;

// HDF5's core driver frees the file's memory through this when the file is closed; `udata` is the
// Image that keeps it instead. Its size is known only to the file, see stored_size().
herr_t keep_memory(void* memory, H5FD_file_image_op_t, void* udata) {
  *static_cast<Image*>(udata) = Image(static_cast<std::byte*>(memory), 0);
  return 0;
}

// The Image outlives the file's property lists, which therefore share it.
void* share(void* udata) { return udata; }
herr_t unshare(void*) { return 0; }

PropertyList image_access(Image& image) {
  PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "create a file access list");
  check(H5Pset_fapl_core(access.get(), kGrowth, false), "choose HDF5's core driver");
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110),
        "choose HDF5's file format");
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_free = keep_memory;
  callbacks.udata_copy = share;
  callbacks.udata_free = unshare;
  callbacks.udata = &image;
  check(H5Pset_file_image_callbacks(access.get(), &callbacks), "set HDF5's memory callbacks");
  return access;
}

File create_image_file(Image& image) {
  const PropertyList access = image_access(image);
  PropertyList creation(H5Pcreate(H5P_FILE_CREATE), "create a file creation list");
  check(H5Pset_link_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
        "keep the order of members");
  check(H5Pset_obj_track_times(creation.get(), false), "leave times out");
  return {H5Fcreate("image", H5F_ACC_TRUNC, creation.get(), access.get()),
          "create an HDF5 file in memory"};
}

}  // namespace

void Image::append(std::span<const std::byte> bytes) {
  void* larger = std::realloc(data_.get(), size_ + bytes.size());
  if (larger == nullptr) throw std::bad_alloc();
  (void)data_.release();
  data_.reset(static_cast<std::byte*>(larger));
  std::memcpy(data_.get() + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

ImageFile::ImageFile() : image_(std::make_unique<Image>()), file_(create_image_file(*image_)) {}

Image ImageFile::finish() && {
  check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "flush an HDF5 file in memory");
  const ssize_t size = check(H5Fget_file_image(file_.get(), nullptr, 0), "measure an HDF5 file");
  file_.close("close an HDF5 file in memory");
  image_->resize(static_cast<std::size_t>(size));
  return std::move(*image_);
}

File open_file(const std::filesystem::path& path) {
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
