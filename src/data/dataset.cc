#include "data/dataset.h"

#include "data/image_dataset.h"
#include "data/token_dataset.h"
#include "hdf5/attribute.h"
#include "hdf5/file.h"

namespace archipelago::data {
namespace {

// False also for what is no HDF5 file at all.
bool holds_images(const std::filesystem::path& path) {
  const hdf5::LibraryLock lock;
  try {
    if (!std::filesystem::exists(path)) return false;
    const hdf5::File file = hdf5::open_file(path);
    return hdf5::read_fixed_text(file.get(), "format") == kImageFormat;
  } catch (const hdf5::Failure&) {
    return false;
  }
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::filesystem::path& path) {
  if (holds_images(path)) return std::make_unique<ImageDataset>(path);
  return std::make_unique<TokenDataset>(path);
}

}  // namespace archipelago::data
