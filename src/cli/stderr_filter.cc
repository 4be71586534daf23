#include "cli/stderr_filter.h"

#include <initializer_list>

namespace archipelago::cli {
namespace {

constexpr char kRule[] = "-{60,}";

std::vector<std::regex> block(std::initializer_list<const char*> lines) {
  std::vector<std::regex> patterns;
  patterns.emplace_back(kRule);
  for (const char* const line : lines) patterns.emplace_back(line);
  patterns.emplace_back(kRule);
  return patterns;
}

// mpirun ends its own messages with a NUL, which would make a log a binary file to grep.
std::string without_nuls(std::string text) {
  std::erase(text, '\0');
  return text;
}

}  // namespace

StderrFilter::StderrFilter()
    : blocks_{block({"WARNING: The selected 'osc' module '.*' is not tested for post-failure",
                     "operation, yet you have requested support for fault tolerance.",
                     "When using this component, normal failure free operation is expected;",
                     "However, failures may cause the application to abort, crash or deadlock.", "",
                     "In this framework, the following components are tested to operate under",
                     "failure scenarios: .*"}),
              block({"prterun detected that one or more processes exited with non-zero status,",
                     "thus causing the job to be terminated. The first process to do so was:", "",
                     " *Process name: .*", " *Exit code: .*"}),
              block({"prterun has exited due to process rank .*",
                     "improperly. There are three reasons this could occur:",
                     "",
                     "1. this process did not call \"init\" before exiting, but others in the",
                     "job did. This can cause a job to hang indefinitely while it waits for",
                     "all processes to call \"init\". By rule, if one process calls \"init\",",
                     "then ALL processes must call \"init\" prior to termination.",
                     "",
                     "2. this process called \"init\", but exited without calling \"finalize\".",
                     "By rule, all processes that call \"init\" MUST call \"finalize\" prior to",
                     "exiting or it will be considered an \"abnormal termination\"",
                     "",
                     "3. this process called \"MPI_Abort\" or \"prte_abort\" and the mca",
                     "parameter prte_create_session_dirs is set to false. In this case, the",
                     "run-time cannot detect that the abort call was an abnormal",
                     "termination. Hence, the only error message you will receive is this",
                     "one.",
                     "",
                     "This may have caused other processes in the application to be",
                     "terminated by signals sent by prterun .as reported here..",
                     "",
                     "You can avoid this message by specifying -quiet on the prterun command",
                     "line."})},
      lines_{std::regex(" *[0-9]+ more process(es have| has) sent help message help-mpi-ft.txt.*"),
             std::regex("LAUNCHER JOB OBJECT NOT FOUND"),  // after a spawn
             std::regex("[ \\x00]+")} {}

std::string StderrFilter::pass(std::string_view chunk) {
  std::string output;
  partial_ += chunk;
  std::size_t start = 0;
  for (auto end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n', start)) {
    output += pass_line(partial_.substr(start, end - start));
    start = end + 1;
  }
  partial_.erase(0, start);
  return output;
}

std::string StderrFilter::release() {
  std::string output = std::move(held_) + without_nuls(std::move(partial_));
  held_.clear();
  partial_.clear();
  block_.reset();
  matched_ = 0;
  return output;
}

std::string StderrFilter::pass_line(const std::string& given) {
  for (const std::regex& dropped : lines_) {
    if (std::regex_match(given, dropped)) return {};
  }
  const std::string line = without_nuls(given);
  const std::string whole = line + '\n';
  if (matched_ == 1) find_block(line);
  if (block_) {
    if (!std::regex_match(line, blocks_[*block_][matched_])) return whole;
    held_ += whole;
    if (++matched_ == blocks_[*block_].size()) {
      held_.clear();
      block_.reset();
      matched_ = 0;
    }
    return {};
  }
  // Not in a known block: the rule held so far, if any, opened another one.
  std::string output = std::move(held_);
  held_.clear();
  matched_ = 0;
  if (!std::regex_match(line, std::regex(kRule))) return output + whole;
  held_ = whole;
  matched_ = 1;
  return output;
}

void StderrFilter::find_block(const std::string& line) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (std::regex_match(line, blocks_[i][1])) block_ = i;
  }
}

}  // namespace archipelago::cli
