#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "hdf5/handle.h"
#include "hdf5/types.h"

namespace archipelago::hdf5 {

// Scalar attributes. Text is stored as a variable-length UTF-8 string (h5py: str), truth values as
// the enumeration FALSE, TRUE (h5py: bool). Writing replaces nothing: the name must be new.
void write_attribute(hid_t object, const std::string& name, std::string_view text);
void write_flag(hid_t object, const std::string& name, bool value);

template <class T>
void write_number(hid_t object, const std::string& name, T value) {
  const std::string doing = "write attribute " + name;
  const Dataspace space(H5Screate(H5S_SCALAR), doing);
  const Attribute attribute(
      H5Acreate2(object, name.c_str(), file_type<T>(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      doing);
  check(H5Awrite(attribute.get(), memory_type<T>(), &value), doing);
}

// Text of fixed length (h5py: bytes). HDF5 keeps it where its own checksums cover it, while
// variable-length text stands in a heap that has none and whose damage can hang HDF5 1.10 for ever:
// the form for files that carry no checksum of their own.
void write_fixed_text(hid_t object, const std::string& name, std::string_view text);

bool has_attribute(hid_t object, const std::string& name);

// Throw Failure where the attribute is missing, of another kind (text, flag, number) or no scalar.
std::string read_text(hid_t object, const std::string& name);
std::string read_fixed_text(hid_t object, const std::string& name);
bool read_flag(hid_t object, const std::string& name);

// Opens a scalar attribute of that type class (H5T_INTEGER, H5T_FLOAT ...).
Attribute open_scalar(hid_t object, const std::string& name, H5T_class_t type_class);

bool is_unsigned(const Attribute& attribute, const std::string& name);

template <class T>
T read_as(const Attribute& attribute, const std::string& name) {
  T value{};
  check(H5Aread(attribute.get(), memory_type<T>(), &value), "read attribute " + name);
  return value;
}

// Failure too where T has no room for a whole number: HDF5 itself makes the nearest of it.
template <class T>
T read_number(hid_t object, const std::string& name) {
  if constexpr (std::is_floating_point_v<T>) {
    return read_as<T>(open_scalar(object, name, H5T_FLOAT), name);
  } else {
    const Attribute attribute = open_scalar(object, name, H5T_INTEGER);
    const auto fit = [&name](auto value) {
      if (!std::in_range<T>(value)) {
        throw Failure("cannot read attribute " + name + ": " + std::to_string(value) +
                      " is out of range");
      }
      return static_cast<T>(value);
    };
    return is_unsigned(attribute, name) ? fit(read_as<std::uint64_t>(attribute, name))
                                        : fit(read_as<std::int64_t>(attribute, name));
  }
}

// All text attributes of an object by name; other ones are left out.
std::map<std::string, std::string> read_texts(hid_t object);

}  // namespace archipelago::hdf5
