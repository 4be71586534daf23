#pragma once

#include <hdf5.h>

#include <utility>

#include "hdf5/library.h"

namespace archipelago::hdf5 {

// An HDF5 identifier, closed when it goes out of scope. Each `Close` makes a type of its own.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  // Takes the result of an HDF5 call that makes an identifier; throws Failure("cannot `doing`:
  // ...") where that call failed.
  Handle(hid_t id, const std::string& doing) : id_(check(id, doing)) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) Close(id_);
  }

  hid_t get() const { return id_; }

  // Closes now, so that a failure is seen.
  void close(const std::string& doing) {
    if (id_ >= 0) check(Close(std::exchange(id_, H5I_INVALID_HID)), doing);
  }

 private:
  hid_t id_;
};

using File = Handle<H5Fclose>;
using Group = Handle<H5Gclose>;
using Object = Handle<H5Oclose>;
using Dataset = Handle<H5Dclose>;
using Dataspace = Handle<H5Sclose>;
using Datatype = Handle<H5Tclose>;
using Attribute = Handle<H5Aclose>;
using PropertyList = Handle<H5Pclose>;

}  // namespace archipelago::hdf5
