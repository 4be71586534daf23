#include "cli/stderr_filter.h"

#include <initializer_list>

namespace archipelago::cli {
namespace {

constexpr char kRule[] = "-{60,}";
// Of a rank whose island has lost another one; ends with an empty line.
constexpr char kTwiceEnded[] = "NBC_Progress: an error ";

std::vector<std::regex> block(std::initializer_list<const char*> lines) {
  std::vector<std::regex> patterns;
  patterns.emplace_back(kRule);
  for (const char* const line : lines) patterns.emplace_back(line);
  patterns.emplace_back(kRule);
  return patterns;
}

// mpirun ends its own messages with a NUL, which would make a log a binary file to grep and opens
// the line of the next message; what it says after a spawn and at its end has no end of line.
std::string without_noise(std::string text) {
  std::erase(text, '\0');
  constexpr std::string_view kNotFound = "LAUNCHER JOB OBJECT NOT FOUND";
  while (text.starts_with(kNotFound)) text.erase(0, kNotFound.size());
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
             std::regex(std::string(kTwiceEnded) + "[0-9]+ was found during schedule .*"),
             std::regex(".*OPAL ERROR: Data unpack had inadequate space in file .*/errhandler.c.*"),
             std::regex(".warn. Epoll MOD.*: Bad file descriptor"), std::regex(" +")} {}

void StderrFilter::run_has_ended() {
  lines_.emplace_back(".*PRTE ERROR: Not found in file .*odls_base_default_fns.c.*");
}

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
  std::string output = std::move(held_) + without_noise(std::move(partial_));
  held_.clear();
  partial_.clear();
  block_.reset();
  matched_ = 0;
  return output;
}

std::string StderrFilter::pass_line(const std::string& given) {
  const std::string line = without_noise(given);
  if (line.empty() && !given.empty()) return {};
  const bool echo = drop_empty_ && line.empty();
  drop_empty_ = false;
  if (echo) return {};
  for (const std::regex& dropped : lines_) {
    if (!std::regex_match(line, dropped)) continue;
    drop_empty_ = line.starts_with(kTwiceEnded);
    return {};
  }
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
