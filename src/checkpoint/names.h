#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

// The one place that makes, parses and removes names of checkpoint files.
namespace archipelago::checkpoint {

struct NamedFile {
  std::filesystem::path path;
  int learner = -1;         // -1: a global checkpoint
  std::int64_t number = 0;  // its round or inner step
};

// Files in the folder that carry a checkpoint's name exactly, newest (highest number) first. Empty
// when there is no such folder.
std::vector<NamedFile> list_global(const std::filesystem::path& folder);
// Of one learner, or of all for -1.
std::vector<NamedFile> list_learner(const std::filesystem::path& folder, int learner);

// Removes all but the newest `keep` (at least one) of those files up to `number`, and, where
// `keep_every` is not 0, the first of each so many numbers from there on. Higher numbers are a
// damaged future that a resumed run has gone back from; they neither count nor go. A file that
// can't be removed is named in a log warning.
void remove_older(const std::vector<NamedFile>& newest_first, std::int64_t number, int keep,
                  std::int64_t keep_every = 0);

}  // namespace archipelago::checkpoint
