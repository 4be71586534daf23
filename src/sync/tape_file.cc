#include "sync/tape_file.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/readable.h"

namespace archipelago::sync {
namespace {

LineKind kind_of(std::string_view text) {
  if (text.starts_with("{\"settings\":")) return LineKind::start;
  if (text.starts_with("{\"t\":") && text.substr(0, 40).find(",\"event\":") != text.npos) {
    return LineKind::entry;
  }
  if (text.find("\"takeover\":") != text.npos) return LineKind::takeover;
  return LineKind::other;
}

std::int64_t entries_at_takeover(const std::string& text) {
  if (is_nested_too_deeply(text)) return -1;
  const auto row = nlohmann::json::parse(text, nullptr, false);
  if (!row.is_object() || !row.contains("takeover")) return -1;
  const auto& takeover = row["takeover"];
  if (!takeover.is_object() || !takeover.value("entries", nlohmann::json()).is_number_integer()) {
    return -1;
  }
  return takeover["entries"].get<std::int64_t>();
}

}  // namespace

TapeFile::TapeFile(std::filesystem::path path) : path_(std::move(path)), file_(open()) {
  find_takeovers();
}

std::ifstream TapeFile::open() const {
  if (auto file = open_to_read(path_)) return std::move(*file);
  throw Error(ExitCode::bad_data,
              "there is no event tape " + path_.string() +
                  "; a run of a method without a syncer (data-parallel, diloco, "
                  "streaming-diloco) leaves none");
}

// Which entries count is told by lines behind them.
void TapeFile::find_takeovers() {
  std::ifstream file = open();
  for (std::string text; std::getline(file, text);) {
    const LineKind kind = kind_of(text);
    if (kind == LineKind::start) takeovers_.emplace_back();
    if (kind != LineKind::takeover || takeovers_.empty()) continue;
    const std::int64_t entries = entries_at_takeover(text);
    if (entries >= 0) takeovers_.back().push_back(entries);
  }
}

void TapeFile::fail(std::int64_t number, const std::string& problem) const {
  throw Error(ExitCode::bad_data, path_.string() + ":" + std::to_string(number) + ": " + problem);
}

std::optional<TapeLine> TapeFile::next() {
  TapeLine line;
  while (std::getline(file_, line.text)) {
    line.number = ++number_;
    line.kind = kind_of(line.text);
    const bool entry = line.kind == LineKind::entry;
    if ((entry || line.kind == LineKind::other) && !counts()) {
      if (entry) ++superseded_;
      continue;
    }
    TapeChain chain = entry ? chain_ : TapeChain();
    const auto fit = chain.follow(line.text);
    if (fit == TapeChain::Fit::unsealed) {
      if (torn_) fail(*torn_, "this is no whole line, and the one behind it is none either");
      torn_ = line.number;
      continue;
    }
    if (fit == TapeChain::Fit::differs) {
      if (torn_) fail(*torn_, "the line is cut off or damaged, and the tape goes on without it");
      fail(line.number,
           "the line does not fit its checksum: it was changed, or lines before it are missing");
    }
    if (entry || line.kind == LineKind::start) chain_ = chain;
    accept(line);
    return line;
  }
  if (torn_) cuts_.push_back(*std::exchange(torn_, std::nullopt));
  return std::nullopt;
}

// Whether the line stands before the place from which a standby went on.
bool TapeFile::counts() const {
  if (start_ < 0 || start_ >= std::ssize(takeovers_)) return true;
  const auto& takeovers = takeovers_[static_cast<std::size_t>(start_)];
  return takeover_ >= takeovers.size() || entries_ < takeovers[takeover_];
}

void TapeFile::accept(const TapeLine& line) {
  if (line.kind == LineKind::other) return;
  // A line that was cut off has been written again, or was the last of a syncer that died.
  if (torn_) cuts_.push_back(*std::exchange(torn_, std::nullopt));
  if (line.kind == LineKind::entry) ++entries_;
  if (line.kind == LineKind::takeover) ++takeover_;
  if (line.kind == LineKind::start) {
    ++start_;
    takeover_ = 0;
    entries_ = 0;
  }
}

}  // namespace archipelago::sync
