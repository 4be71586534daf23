#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/file.h"

namespace archipelago::fragment {

// What learners gave to merges, kept in a folder of files so that the merges can be done again. A
// "life" is the files of one syncer process; a run that was taken up again, or taken over by a
// standby, has several.

struct ContributionKey {
  std::int64_t round;
  std::int32_t learner;
  std::int32_t incarnation;
  auto operator<=>(const ContributionKey&) const = default;
};

// A life that the folder has no files of.
int next_life(const std::filesystem::path& folder);

// Adds to files <life>-<number>.contributions of at most 64 MiB (or one contribution) each. Makes
// the folder. Throws std::system_error naming the file; the next add() then begins another file.
class ContributionWriter {
 public:
  ContributionWriter(std::filesystem::path folder, int life);

  void add(const ContributionKey& key, std::span<const float> values);

 private:
  std::filesystem::path folder_;
  int life_;
  int number_ = 0;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

// Finds contributions of one life. What was cut off at a file's end is not there.
class ContributionReader {
 public:
  // Throws Error(bad_data) for a file that cannot be read or is none of these.
  ContributionReader(const std::filesystem::path& folder, int life);

  // Nothing where it is not there. Throws Error(bad_data) naming a file whose checksum fails.
  std::optional<std::vector<float>> find(const ContributionKey& key) const;

 private:
  struct Place {
    std::filesystem::path file;
    std::uint64_t offset;  // of the header
  };

  void index(const std::filesystem::path& file);

  std::map<ContributionKey, Place> places_;
};

}  // namespace archipelago::fragment
