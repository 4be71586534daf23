#include "hdf5/library.h"

#include <hdf5.h>

#include <algorithm>

namespace archipelago::hdf5 {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// The walk starts at the innermost call, whose description says most.
herr_t keep_first(unsigned, const H5E_error2_t* entry, void* reason) {
  auto& text = *static_cast<std::string*>(reason);
  if (text.empty() && entry->desc != nullptr) text = entry->desc;
  std::ranges::replace(text, '\n', ' ');  // some have the time in them, with its end of line
  return 0;
}

}  // namespace

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  static const herr_t opened = H5open();
  static const herr_t silenced = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  check(opened, "start the HDF5 library");
  check(silenced, "silence HDF5's own error messages");
}

std::string library_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  check(H5get_libversion(&major, &minor, &release), "ask HDF5 for its version");
  return std::to_string(major) + '.' + std::to_string(minor) + '.' + std::to_string(release);
}

void fail(const std::string& doing) {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  H5Eclear2(H5E_DEFAULT);
  throw Failure("cannot " + doing + ": " + (reason.empty() ? "unknown HDF5 error" : reason));
}

}  // namespace archipelago::hdf5
