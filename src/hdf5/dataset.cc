#include "hdf5/dataset.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace archipelago::hdf5 {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
// No compression that HDF5 has does better (deflate's limit).
constexpr double kLargestCompression = 1032;

std::vector<hsize_t> extents_of(const Dataset& dataset, const std::string& doing) {
  const Dataspace space(H5Dget_space(dataset.get()), doing);
  std::vector<hsize_t> extents(
      static_cast<std::size_t>(check(H5Sget_simple_extent_ndims(space.get()), doing)));
  check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), doing);
  return extents;
}

// The largest number where there are more.
hsize_t count_of(const std::vector<hsize_t>& extents) {
  if (std::ranges::find(extents, 0U) != extents.end()) return 0;
  hsize_t count = 1;
  for (const hsize_t extent : extents) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::numeric_limits<hsize_t>::max();
  }
  return count;
}

// What the dataset's elements take in its file, at most.
double bytes_in_file(const Dataset& dataset, const std::string& doing) {
  const File file(H5Iget_file_id(dataset.get()), doing);
  hsize_t file_bytes = 0;
  check(H5Fget_filesize(file.get(), &file_bytes), doing);
  return static_cast<double>(std::min(H5Dget_storage_size(dataset.get()), file_bytes));
}

// Whole rows, spread evenly so that little of the last chunk is padding.
std::vector<hsize_t> chunk_extents(const std::vector<hsize_t>& extents, std::size_t element_bytes) {
  std::vector<hsize_t> chunk = extents;
  const hsize_t bytes = count_of(extents) * element_bytes;
  const hsize_t chunks =
      std::clamp<hsize_t>((bytes + kChunkBytes - 1) / kChunkBytes, 1, extents[0]);
  chunk[0] = (extents[0] + chunks - 1) / chunks;
  return chunk;
}

void require_filters(const Dataset& dataset, const std::string& doing) {
  const PropertyList creation(H5Dget_create_plist(dataset.get()), doing);
  const int filters = check(H5Pget_nfilters(creation.get()), doing);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t values = 0;
    std::array<char, 80> name{};
    const H5Z_filter_t filter = H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags,
                                               &values, nullptr, name.size(), name.data(), &config);
    if (H5Zfilter_avail(filter) > 0) continue;
    name.back() = '\0';
    throw Failure("cannot " + doing + ": it was compressed by the filter " + name.data() + " (" +
                  std::to_string(filter) +
                  "), which is not here; write it again with gzip, or without compression");
  }
}

// HDF5's own conversion makes the nearest number that there is of one that is out of range.
H5T_conv_ret_t refuse_out_of_range(H5T_conv_except_t exception, hid_t, hid_t, void*, void*,
                                   void* is_out_of_range) {
  if (exception != H5T_CONV_EXCEPT_RANGE_HI && exception != H5T_CONV_EXCEPT_RANGE_LOW) {
    return H5T_CONV_UNHANDLED;
  }
  *static_cast<bool*>(is_out_of_range) = true;
  return H5T_CONV_ABORT;
}

}  // namespace

Dataset create_dataset(hid_t parent, const std::string& name, hid_t type, std::size_t element_bytes,
                       std::span<const std::int64_t> shape) {
  const std::string doing = "create dataset " + name;
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const int rank = static_cast<int>(extents.size());
  const Dataspace space(H5Screate_simple(rank, extents.data(), nullptr), doing);
  const PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), doing);
  check(H5Pset_obj_track_times(creation.get(), false), doing);
  // Padding of the last chunk is zero, so that equal states make equal files.
  check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_ALLOC), doing);
  if (count_of(extents) > 0) {
    const std::vector<hsize_t> chunk = chunk_extents(extents, element_bytes);
    check(H5Pset_chunk(creation.get(), rank, chunk.data()), doing);
    check(H5Pset_fletcher32(creation.get()), doing);
  }
  return {
      H5Dcreate2(parent, name.c_str(), type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      doing};
}

void write_all(const Dataset& dataset, hid_t type, const void* data, std::size_t count,
               const std::string& name) {
  const std::string doing = "write dataset " + name;
  if (count_of(extents_of(dataset, doing)) != count) {
    throw Failure("cannot " + doing + ": shape and number of elements differ");
  }
  if (count == 0) return;
  check(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), doing);
}

void read_all(const Dataset& dataset, hid_t type, void* data, std::size_t count,
              const std::string& name) {
  const std::string doing = "read dataset " + name;
  if (count_of(extents_of(dataset, doing)) != count) {
    throw Failure("cannot " + doing + ": it has another number of elements than expected");
  }
  const Datatype stored(H5Dget_type(dataset.get()), doing);
  if (H5Tget_class(stored.get()) != H5Tget_class(type)) {
    throw Failure("cannot " + doing + ": it holds another type of numbers than expected");
  }
  if (count == 0) return;
  require_filters(dataset, doing);
  const PropertyList transfer(H5Pcreate(H5P_DATASET_XFER), doing);
  bool is_out_of_range = false;
  check(H5Pset_type_conv_cb(transfer.get(), refuse_out_of_range, &is_out_of_range), doing);
  const herr_t status = H5Dread(dataset.get(), type, H5S_ALL, H5S_ALL, transfer.get(), data);
  if (is_out_of_range) {
    H5Eclear2(H5E_DEFAULT);
    throw Failure("cannot " + doing + ": it holds numbers that " +
                  std::to_string(8 * H5Tget_size(type)) + " bits" +
                  (H5Tget_sign(type) == H5T_SGN_NONE ? " without a sign" : "") +
                  " have no room for");
  }
  check(status, doing);
}

void read_through(hid_t parent, const std::string& name) {
  const Dataset dataset = open_dataset(parent, name);
  const std::string doing = "read dataset " + name;
  const Datatype type(H5Dget_type(dataset.get()), doing);
  std::vector<std::byte> bytes(element_count(dataset, name) * H5Tget_size(type.get()));
  if (bytes.empty()) return;
  require_filters(dataset, doing);
  check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), doing);
}

Dataset open_dataset(hid_t parent, const std::string& name) {
  const htri_t exists = H5Lexists(parent, name.c_str(), H5P_DEFAULT);
  if (exists == 0) throw Failure("cannot open dataset " + name + ": it is missing");
  return {H5Dopen2(parent, name.c_str(), H5P_DEFAULT), "open dataset " + name};
}

std::size_t element_count(const Dataset& dataset, const std::string& name) {
  const std::string doing = "read dataset " + name;
  const hsize_t count = count_of(extents_of(dataset, doing));
  if (static_cast<double>(count) > bytes_in_file(dataset, doing) * kLargestCompression) {
    throw Failure("cannot " + doing + ": its elements are not in the file");
  }
  return count;
}

std::vector<std::int64_t> shape_of(const Dataset& dataset) {
  const std::string doing = "read a dataset's shape";
  const std::vector<hsize_t> extents = extents_of(dataset, doing);
  if (std::ranges::any_of(extents,
                          [](hsize_t extent) { return !std::in_range<std::int64_t>(extent); })) {
    throw Failure("cannot " + doing + ": it is larger than can be true");
  }
  return {extents.begin(), extents.end()};
}

}  // namespace archipelago::hdf5
