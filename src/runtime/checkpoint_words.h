#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/description.h"

namespace archipelago::runtime {

// A checkpoint that has been written.
struct SavedFile {
  std::filesystem::path path;
  std::uintmax_t bytes = 0;
  double seconds = 0;  // that it took
};

// The file as it is now.
SavedFile saved_file(std::filesystem::path path, double seconds);

// "wrote global-0000000040.h5: 12.3 MiB in 0.04 s"
std::string words_on(const SavedFile& file);

// "goes on from round 40: global-0000000040.h5, written 35 s ago"
std::string words_on_restored(std::int64_t round, const std::filesystem::path& file);

// What has changed of the options since the run that a checkpoint is of: "train.steps 100 -> 200,
// ...". Those that make the order of the data another one, and those under which the parameters
// mean another model, apart from all others; "" for none.
struct OptionChanges {
  std::string harmless;
  std::string of_data_order;
  std::string of_model;
};
OptionChanges changes_since(const Description& checkpoint, const Description& now);

}  // namespace archipelago::runtime
