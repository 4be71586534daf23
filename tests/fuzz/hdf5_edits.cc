#include "hdf5_edits.h"

#include <hdf5.h>

#include <algorithm>
#include <vector>

#include "hdf5/file.h"
#include "hdf5/handle.h"

namespace archipelago::fuzz {
namespace {

using hdf5::Attribute;
using hdf5::Dataset;
using hdf5::Dataspace;
using hdf5::Datatype;
using hdf5::PropertyList;

Datatype some_type(Choices& choices) {
  const hid_t plain[] = {H5T_STD_I8LE,  H5T_STD_U8LE,    H5T_STD_U16LE,  H5T_STD_I32BE,
                         H5T_STD_I64LE, H5T_STD_U64LE,   H5T_IEEE_F32LE, H5T_IEEE_F64BE,
                         H5T_C_S1,      H5T_STD_REF_OBJ, H5T_STD_B32LE,  H5T_UNIX_D32LE};
  const std::size_t kinds = std::size(plain) + 6;
  const std::size_t kind = choices.below(kinds);
  if (kind < std::size(plain)) return {H5Tcopy(plain[kind]), "copy a type"};
  const std::size_t bytes = 1 + choices.below(64);
  switch (kind - std::size(plain)) {
    case 0: {
      Datatype type(H5Tcopy(H5T_C_S1), "copy a type");
      H5Tset_size(type.get(), H5T_VARIABLE);
      return type;
    }
    case 1: {
      Datatype type(H5Tcopy(H5T_C_S1), "copy a type");
      H5Tset_size(type.get(), bytes);
      return type;
    }
    case 2:
      return {H5Tcreate(H5T_OPAQUE, bytes), "make a type"};
    case 3: {
      Datatype type(H5Tcreate(H5T_COMPOUND, 8), "make a type");
      H5Tinsert(type.get(), "a", 0, H5T_STD_I32LE);
      return type;
    }
    case 4:
      return {H5Tvlen_create(H5T_STD_U16LE), "make a type"};
    default: {
      Datatype type(H5Tenum_create(H5T_STD_I16LE), "make a type");
      const short values[] = {0, 7};
      H5Tenum_insert(type.get(), "FALSE", &values[0]);
      H5Tenum_insert(type.get(), "SEVEN", &values[1]);
      return type;
    }
  }
}

Dataspace some_space(Choices& choices) {
  const std::size_t rank = choices.below(6);
  if (rank == 5) return {H5Screate(H5S_NULL), "make a space"};
  if (rank == 0) return {H5Screate(H5S_SCALAR), "make a space"};
  std::vector<hsize_t> extents(rank);
  for (hsize_t& extent : extents) extent = choices.number();
  return {H5Screate_simple(static_cast<int>(rank), extents.data(), nullptr), "make a space"};
}

// Whether a buffer for all elements in memory is small enough to fill, and its size in bytes.
std::size_t fillable_bytes(const Dataspace& space, const Datatype& type) {
  constexpr std::size_t kMost = 4096;
  if (H5Sget_simple_extent_npoints(space.get()) < 1) return 0;
  std::vector<hsize_t> extents(
      static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.get()))));
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  std::size_t bytes = H5Tget_size(type.get());
  for (const hsize_t extent : extents) {
    if (extent > kMost) return 0;  // HDF5's own count of points may overflow
    bytes *= extent;
  }
  const H5T_class_t kind = H5Tget_class(type.get());
  const bool pointers = kind == H5T_VLEN || H5Tis_variable_str(type.get()) > 0;
  return bytes > kMost || pointers ? 0 : bytes;
}

std::vector<std::uint8_t> some_bytes(std::size_t count, Choices& choices) {
  std::vector<std::uint8_t> bytes(count, choices.byte());
  const std::size_t own = choices.below(33);
  for (std::size_t i = 0; i < std::min(own, count); ++i) bytes[i] = choices.byte();
  return bytes;
}

void make_dataset(hid_t file, const std::string& path, Choices& choices) {
  const Datatype type = some_type(choices);
  const Dataspace space = some_space(choices);
  const PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "make a list");
  const std::size_t layout = choices.below(3);
  hsize_t ones[8];
  std::fill(std::begin(ones), std::end(ones), 1 + choices.below(4));
  if (layout == 1) H5Pset_layout(creation.get(), H5D_COMPACT);
  if (layout == 2) H5Pset_chunk(creation.get(), H5Sget_simple_extent_ndims(space.get()), ones);
  if (layout == 2 && choices.below(2) == 1) H5Pset_deflate(creation.get(), 1);
  const std::size_t bytes = fillable_bytes(space, type);
  const Dataset dataset(H5Dcreate2(file, path.c_str(), type.get(), space.get(), H5P_DEFAULT,
                                   creation.get(), H5P_DEFAULT),
                        "make a dataset");
  if (bytes == 0) return;
  const auto values = some_bytes(bytes, choices);
  H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
}

void make_attribute(hid_t object, const std::string& name, Choices& choices) {
  const Datatype type = some_type(choices);
  const Dataspace space = some_space(choices);
  const std::size_t bytes = fillable_bytes(space, type);
  const bool text = H5Tis_variable_str(type.get()) > 0 && choices.below(4) > 0;
  if (bytes == 0 && !text) return;
  const Dataspace scalar(H5Screate(H5S_SCALAR), "make a space");
  const Attribute attribute(H5Acreate2(object, name.c_str(), type.get(),
                                       text ? scalar.get() : space.get(), H5P_DEFAULT, H5P_DEFAULT),
                            "make an attribute");
  if (text) {
    const std::string value = choices.text();
    const char* pointer = value.c_str();
    H5Awrite(attribute.get(), type.get(), &pointer);
  } else {
    H5Awrite(attribute.get(), type.get(), some_bytes(bytes, choices).data());
  }
}

std::vector<std::string> object_paths(hid_t file) {
  std::vector<std::string> paths;
  const auto add = [](hid_t, const char* name, const H5O_info_t*, void* list) -> herr_t {
    static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return 0;
  };
  H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, add, &paths, H5O_INFO_BASIC);
  return paths;
}

std::string some_attribute(hid_t object, Choices& choices) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* list) -> herr_t {
    static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return 0;
  };
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names);
  return names.empty() ? "fragment" : names[choices.below(names.size())];
}

// Elements of what is there, with its type and shape kept.
void change_values(hid_t file, const std::string& path, Choices& choices) {
  const Dataset dataset(H5Dopen2(file, path.c_str(), H5P_DEFAULT), "open a dataset");
  const Datatype type(H5Dget_type(dataset.get()), "look at a type");
  const Dataspace space(H5Dget_space(dataset.get()), "look at a space");
  const std::size_t bytes = fillable_bytes(space, type);
  if (bytes == 0) return;
  const auto values = some_bytes(bytes, choices);
  H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
}

void edit_attribute(hid_t file, const std::string& path, bool replace, Choices& choices) {
  const hdf5::Object object(H5Oopen(file, path.c_str(), H5P_DEFAULT), "open an object");
  const std::string name = some_attribute(object.get(), choices);
  H5Adelete(object.get(), name.c_str());
  if (replace) make_attribute(object.get(), name, choices);
}

void edit_once(hid_t file, Choices& choices) {
  const std::vector<std::string> paths = object_paths(file);
  if (paths.empty()) return;
  const std::string path = paths[choices.below(paths.size())];
  const bool root = path == ".";
  switch (choices.below(9)) {
    case 0:
      if (!root) H5Ldelete(file, path.c_str(), H5P_DEFAULT);
      break;
    case 1:
    case 2:
      if (root) break;
      H5Ldelete(file, path.c_str(), H5P_DEFAULT);
      make_dataset(file, path, choices);
      break;
    case 3:
      edit_attribute(file, path, false, choices);
      break;
    case 4:
      edit_attribute(file, path, true, choices);
      break;
    case 5:
      change_values(file, path, choices);
      break;
    case 6: {
      // Of datasets only: HDF5 1.10 crashes where groups hold one another.
      const std::string& other = paths[choices.below(paths.size())];
      const Dataset dataset(H5Dopen2(file, other.c_str(), H5P_DEFAULT), "open a dataset");
      if (root) break;
      H5Ldelete(file, path.c_str(), H5P_DEFAULT);
      H5Olink(dataset.get(), file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
      break;
    }
    case 7:
      if (root) break;
      H5Ldelete(file, path.c_str(), H5P_DEFAULT);
      H5Lcreate_soft(paths[choices.below(paths.size())].c_str(), file, path.c_str(), H5P_DEFAULT,
                     H5P_DEFAULT);
      break;
    default:
      H5Lmove(file, path.c_str(), file, ("params/of " + choices.text()).c_str(), H5P_DEFAULT,
              H5P_DEFAULT);
  }
}

}  // namespace

std::string edited(const std::string& original, Choices& choices) {
  const hdf5::LibraryLock lock;
  const PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "make a list");
  hdf5::check(H5Pset_fapl_core(access.get(), 4096, false), "choose a driver");
  std::string copy = original;
  hdf5::check(H5Pset_file_image(access.get(), copy.data(), copy.size()), "set an image");
  const hdf5::File file(H5Fopen("edited", H5F_ACC_RDWR, access.get()), "open an image");
  for (int edits = 0; edits < 16 && !choices.empty(); ++edits) {
    try {
      edit_once(file.get(), choices);
    } catch (const hdf5::Failure&) {
    }
  }
  hdf5::check(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "flush an image");
  std::string bytes(
      static_cast<std::size_t>(hdf5::check(H5Fget_file_image(file.get(), nullptr, 0), "measure")),
      '\0');
  hdf5::check(H5Fget_file_image(file.get(), bytes.data(), bytes.size()), "take an image");
  return bytes;
}

}  // namespace archipelago::fuzz
