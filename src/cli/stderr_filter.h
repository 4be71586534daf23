#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace archipelago::cli {

// Takes out of mpirun's standard error the blocks that say nothing about this job (that one-sided
// communication is untested after a failure, which this program's use of it is; that a rank ended
// with an exit code, which that rank said itself; that a dead rank's island can't go on), with
// their echoes, and lets everything else through, also what other ranks write into the middle of
// such a block.
class StderrFilter {
 public:
  StderrFilter();

  // From now on mpirun's trouble with processes that are gone is noise too.
  void run_has_ended();

  // Takes what was read; returns what is to be written, in whole lines.
  std::string pass(std::string_view chunk);

  // Returns what was held back so far: for the end of the stream, or when nothing came for a while.
  std::string release();

 private:
  std::string pass_line(const std::string& given);
  void find_block(const std::string& line);

  std::vector<std::vector<std::regex>> blocks_;
  std::vector<std::regex> lines_;     // dropped wherever they stand
  std::string partial_;               // of a line whose end has not come yet
  std::string held_;                  // lines of a block that is not complete yet
  std::optional<std::size_t> block_;  // which one; nothing while only its first line is there
  std::size_t matched_ = 0;           // lines of it
  bool drop_empty_ = false;           // the next line, if it is
};

}  // namespace archipelago::cli
