#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "config/run_config.h"
#include "fragment/contributions.h"
#include "runtime/global_state.h"
#include "runtime/setup.h"
#include "sync/messages.h"

namespace archipelago::replay {

// The line of the tape that begins a life of contributions.
struct Life {
  int number = 0;
  std::string merge;  // sync.merge, sync.outer_lr and sync.outer_momentum of that process
  double outer_lr = 0;
  double outer_momentum = 0;
};

// Theta, made again from the seed and the kept contributions by the merges that the tape tells of.
// Where something is missing for that, it is unknown from there on, and says why.
class Theta {
 public:
  // `run`: the folder, whose options `config` are.
  Theta(std::filesystem::path run, const config::RunConfig& config);

  // The run began anew, or went on from the global checkpoint of this round.
  void start(std::int64_t round);
  void begin_life(const Life& life);

  void merge(const sync::Merge& action);
  void adopt(std::int64_t round);  // its merge is done
  void drop_open_merges();         // a standby took over
  void save(std::int64_t round);   // a global checkpoint, which a run may go on from

  // Nothing where Theta is unknown.
  std::optional<std::uint64_t> digest() const;
  // Why it is unknown, or was in an earlier part of the tape; empty: it never was.
  const std::string& unknown_because() const { return unknown_; }

  std::int64_t merges() const { return merges_; }
  std::int64_t contributions() const { return contributions_; }

  // Digest of the Theta that a checkpoint file of the run holds; nothing where there is no such
  // file or it cannot be read.
  std::optional<std::uint64_t> digest_of_checkpoint(std::int64_t round) const;

 private:
  using State = runtime::GlobalState;

  const runtime::Setup& setup_with(const Life& life);
  void forget(const std::string& why);
  std::optional<checkpoint::Global> load(std::int64_t round) const;

  std::filesystem::path run_;
  config::RunConfig config_;
  std::deque<runtime::Setup> setups_;  // the last is in use
  std::optional<State> state_;         // nothing: unknown
  std::string unknown_;
  std::optional<fragment::ContributionReader> reader_;
  std::map<std::int64_t, State::MergedFragment> open_;  // by round
  std::map<std::int64_t, checkpoint::Global> saved_;    // the newest, by round
  std::int64_t merges_ = 0;
  std::int64_t contributions_ = 0;
};

}  // namespace archipelago::replay
