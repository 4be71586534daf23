#pragma once

#include <filesystem>
#include <functional>

#include "hdf5/handle.h"

namespace archipelago::checkpoint {

// Opens a checkpoint file whose seal and header are good, calls `read` with it and closes it, all
// under one LibraryLock. Throws Error(bad_data), one line naming the file and what is wrong with
// it, for a file that is not good and for whatever hdf5::Failure `read` throws.
void with_opened(const std::filesystem::path& path, const std::function<void(hid_t)>& read);

}  // namespace archipelago::checkpoint
