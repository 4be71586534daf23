#include "checkpoint/damage.h"

#include "checkpoint/seal.h"
#include "hdf5/dataset.h"
#include "hdf5/file.h"

namespace archipelago::checkpoint {
namespace {

std::vector<Damage> damaged_datasets(const std::filesystem::path& path) {
  std::vector<Damage> damage;
  try {
    const hdf5::File file = hdf5::open_file(path);
    for (const std::string& name : hdf5::dataset_paths(file.get())) {
      try {
        hdf5::read_through(file.get(), name);
      } catch (const hdf5::Failure& failure) {
        damage.push_back({name, failure.what()});
      }
    }
  } catch (const hdf5::Failure& failure) {
    damage.push_back({"", failure.what()});
  }
  return damage;
}

}  // namespace

std::vector<Damage> find_damage(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {{"", "there is no such file"}};
  if (!std::filesystem::is_regular_file(path)) return {{"", "it is no regular file"}};
  const Seal seal = check_seal(path);
  if (seal == Seal::intact) return {};
  const hdf5::LibraryLock lock;
  if (!hdf5::is_hdf5(path)) return {{"", "it is no HDF5 file"}};
  if (seal == Seal::missing) {
    return {{"",
             "it has no seal at its end: no archipelago checkpoint, cut off, or changed after it "
             "was written"}};
  }
  std::vector<Damage> damage = damaged_datasets(path);
  if (damage.empty()) {
    damage.push_back({"",
                      "its checksum does not match, though every dataset's does: an attribute "
                      "or unused space is damaged"});
  }
  return damage;
}

}  // namespace archipelago::checkpoint
