#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "sync/tape.h"

namespace archipelago::sync {

enum class LineKind {
  start,     // of the run, or of its going on with --resume
  entry,     // an event and what was decided
  takeover,  // a standby goes on
  other,     // a snapshot, a fault, ...
};

struct TapeLine {
  std::int64_t number = 0;  // in the file, from 1
  LineKind kind = LineKind::other;
  std::string text;
};

// The lines of a tape that count, in order, each checked against its checksum. Entries that a
// standby did not know when it took over do not count; nor do lines that a crash has cut off.
class TapeFile {
 public:
  // Throws Error(bad_data) where there is none, std::system_error where it cannot be read.
  explicit TapeFile(std::filesystem::path path);

  // The next line; nothing at the end. Throws Error(bad_data) naming the line that was changed, cut
  // or follows on missing ones.
  std::optional<TapeLine> next();

  std::int64_t superseded() const { return superseded_; }   // entries that do not count
  std::vector<std::int64_t> cuts() const { return cuts_; }  // lines that were cut off by a crash
  const std::filesystem::path& path() const { return path_; }

 private:
  std::ifstream open() const;
  void find_takeovers();
  bool counts() const;
  void accept(const TapeLine& line);
  [[noreturn]] void fail(std::int64_t number, const std::string& problem) const;

  std::filesystem::path path_;
  std::ifstream file_;
  // For each start, for each takeover after it: how many of its entries count.
  std::vector<std::vector<std::int64_t>> takeovers_;
  TapeChain chain_;
  std::int64_t number_ = 0;
  std::ptrdiff_t start_ = -1;  // index of the start that the last line belongs to
  std::size_t takeover_ = 0;   // passed since then
  std::int64_t entries_ = 0;   // since then
  std::int64_t superseded_ = 0;
  std::optional<std::int64_t> torn_;  // a line without its end, that nothing has made good yet
  std::vector<std::int64_t> cuts_;
};

}  // namespace archipelago::sync
