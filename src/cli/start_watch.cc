#include "cli/start_watch.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <system_error>
#include <utility>

#include "runtime/roll_call.h"

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 8;

}  // namespace

StartWatch::StartWatch(fs::path roll, const std::vector<std::string>& parts, fs::path status,
                       double limit)
    : roll_(std::move(roll)),
      status_(std::move(status)),
      status_before_(identity_of(status_)),
      limit_(limit) {
  std::error_code error;
  makes_run_folder_ = !fs::exists(roll_.parent_path(), error);
  fs::remove_all(roll_, error);
  fs::create_directories(roll_, error);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const auto file = runtime::roll_file(roll_, static_cast<int>(rank));
    over_ = over_ || !std::ofstream(file).is_open();
    ranks_.push_back({parts[rank], file, identity_of(file), "", 0});
  }
}

StartWatch::~StartWatch() { remove_roll(); }

void StartWatch::remove_roll() noexcept {
  std::error_code error;  // nobody is left to tell
  fs::remove_all(roll_, error);
  // A refused start leaves nothing behind; a folder with anything in it stays.
  if (makes_run_folder_) fs::remove(roll_.parent_path(), error);
}

bool StartWatch::status_says_so() const {
  if (identity_of(status_) == status_before_) return false;
  const auto status = nlohmann::json::parse(std::ifstream(status_), nullptr, false);
  return status.is_object() && status.value("state", "starting") != "starting";
}

void StartWatch::look(double now) {
  if (over_ || !missing_.empty()) return;
  const auto passed = looks_.next(now);
  if (!passed) return;
  if (status_says_so()) {
    over_ = true;
    remove_roll();
    return;
  }
  for (Rank& rank : ranks_) look_at(rank, *passed);
  missing_ = describe_missing();
}

bool StartWatch::anybody_came() {
  if (over_) return true;
  for (Rank& rank : ranks_) look_at(rank, 0);
  return anybody_came_;
}

void StartWatch::look_at(Rank& rank, double passed) {
  const auto now = identity_of(rank.file);
  rank.silent = now == rank.seen ? rank.silent + passed : 0;
  rank.seen = now;
  if (rank.silent > 0 || !rank.process.empty()) return;
  std::ifstream file(rank.file);
  std::string host;
  std::string pid;
  if (!(file >> host >> pid)) return;
  rank.process = "pid " + pid + " on " + host;
  anybody_came_ = true;
}

std::string StartWatch::describe_missing() const {
  const auto is_missing = [&](const Rank& rank) { return rank.silent >= limit_; };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(ranks_, is_missing));
  if (count == 0) return "";
  const std::string seconds = std::to_string(std::lround(limit_)) + " s";
  if (count == ranks_.size() && !anybody_came_) {
    return "none of the " + std::to_string(count) + " ranks has come in " + seconds;
  }
  std::string text;
  std::size_t named = 0;
  for (std::size_t i = 0; i < ranks_.size() && named < kMostNamed; ++i) {
    const Rank& rank = ranks_[i];
    if (!is_missing(rank)) continue;
    text += (named++ > 0 ? ", rank " : "rank ") + std::to_string(i) + " (" + rank.part + ") ";
    text +=
        rank.process.empty() ? "has not come" : "has given no sign of life (" + rank.process + ")";
  }
  if (count > named) text += ", nor have " + std::to_string(count - named) + " more";
  return text + " for " + seconds;
}

}  // namespace archipelago::cli
