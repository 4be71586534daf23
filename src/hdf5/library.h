#pragma once

#include <mutex>
#include <stdexcept>
#include <string>

namespace archipelago::hdf5 {

// An HDF5 call that failed. `what()` is "cannot <doing>: <HDF5's innermost reason>".
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Debian's serial HDF5 is not thread-safe. Everything in this folder, and every handle's whole
// life, must lie within the life of a LibraryLock of the same thread; one thread may hold several.
// The public functions of data/ and checkpoint/ take it themselves and leave no handle behind.
class LibraryLock {
 public:
  LibraryLock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

// "1.10.8"
std::string library_version();

// Throws Failure(`doing`, the reason on HDF5's error stack).
[[noreturn]] void fail(const std::string& doing);

// `result`, the return value of an HDF5 call; throws Failure where it is negative.
template <class Result>
Result check(Result result, const std::string& doing) {
  if (result < 0) fail(doing);
  return result;
}

}  // namespace archipelago::hdf5
