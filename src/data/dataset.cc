#include "data/dataset.h"

#include <optional>
#include <string>

#include "data/image_dataset.h"
#include "data/token_dataset.h"
#include "data/token_file.h"
#include "hdf5/attribute.h"
#include "hdf5/file.h"

namespace archipelago::data {
namespace {

// Nothing also for what is no HDF5 file at all.
std::optional<Kind> kind_of(const std::filesystem::path& path) {
  const hdf5::LibraryLock lock;
  try {
    if (!std::filesystem::exists(path)) return std::nullopt;
    const hdf5::File file = hdf5::open_file(path);
    const std::string format = hdf5::read_fixed_text(file.get(), "format");
    if (format == kImageFormat) return Kind::images;
    if (format == kTokenFormat) return Kind::text;
  } catch (const hdf5::Failure&) {
    // What reads it says better what is wrong.
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::filesystem::path& path, Kind wanted) {
  if (kind_of(path).value_or(wanted) == Kind::images) return std::make_unique<ImageDataset>(path);
  return std::make_unique<TokenDataset>(path);
}

}  // namespace archipelago::data
