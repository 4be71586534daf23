#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hdf5/handle.h"
#include "hdf5/types.h"

namespace archipelago::hdf5 {

// Untyped parts of the templates below.
Dataset create_dataset(hid_t parent, const std::string& name, hid_t type, std::size_t element_bytes,
                       std::span<const std::int64_t> shape);
void write_all(const Dataset& dataset, hid_t type, const void* data, std::size_t count,
               const std::string& name);
void read_all(const Dataset& dataset, hid_t type, void* data, std::size_t count,
              const std::string& name);

// Writes a row-major array of `shape`, in chunks of about 1 MiB of whole rows that each carry
// HDF5's own checksum (fletcher32), so that any HDF5 program notices damage. `data` has as many
// elements as `shape` says. An empty array carries none. Returns the dataset, for attributes.
template <class T>
Dataset write_dataset(hid_t parent, const std::string& name, std::span<const std::int64_t> shape,
                      std::span<const T> data) {
  Dataset dataset = create_dataset(parent, name, file_type<T>(), sizeof(T), shape);
  write_all(dataset, memory_type<T>(), data.data(), data.size(), name);
  return dataset;
}

template <class T>
Dataset write_dataset(hid_t parent, const std::string& name, std::span<const T> data) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(data.size())};
  return write_dataset<T>(parent, name, shape, data);
}

// Opens a dataset of numbers; throws Failure where it is missing or something else.
Dataset open_dataset(hid_t parent, const std::string& name);

std::vector<std::int64_t> shape_of(const Dataset& dataset);

// Elements of all dimensions. Throws Failure where the file can't hold that many, so that a damaged
// shape makes nobody allocate for it.
std::size_t element_count(const Dataset& dataset, const std::string& name);

// Reads a whole dataset, whose element count must be data.size(). Integers and floats of other
// widths are converted; integers are not read as floats nor the reverse.
template <class T>
void read_dataset(const Dataset& dataset, const std::string& name, std::span<T> data) {
  read_all(dataset, memory_type<T>(), data.data(), data.size(), name);
}

// Reads a dataset of any type and drops it, so that HDF5 checks its checksums. Throws Failure.
void read_through(hid_t parent, const std::string& name);

template <class T>
std::vector<T> read_vector(hid_t parent, const std::string& name) {
  const Dataset dataset = open_dataset(parent, name);
  std::vector<T> data(element_count(dataset, name));
  read_dataset<T>(dataset, name, data);
  return data;
}

}  // namespace archipelago::hdf5
