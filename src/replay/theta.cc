#include "replay/theta.h"

#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "runtime/run_folder.h"

namespace archipelago::replay {
namespace {

constexpr std::size_t kSaved = 3;  // older ones are looked for among the checkpoint files

}  // namespace

Theta::Theta(std::filesystem::path run, const config::RunConfig& config)
    : run_(std::move(run)), config_(config) {
  setups_.push_back(runtime::make_setup(config_));
}

void Theta::forget(const std::string& why) {
  state_.reset();
  open_.clear();
  if (unknown_.empty()) unknown_ = why;
}

void Theta::start(std::int64_t round) {
  open_.clear();
  reader_.reset();
  state_.reset();
  if (round == 0) {
    state_.emplace(setups_.back());
  } else if (const auto saved = saved_.find(round); saved != saved_.end()) {
    state_.emplace(setups_.back(), saved->second);
  } else if (const auto file = load(round)) {
    state_.emplace(setups_.back(), *file);
  } else {
    forget("the global checkpoint of round " + std::to_string(round) + " is gone");
  }
}

void Theta::begin_life(const Life& life) {
  reader_.emplace(runtime::RunFolder(run_).contributions(), life.number);
  if (!state_) return;
  checkpoint::Global values;
  state_->fill(values);
  state_.emplace(setup_with(life), values);
}

const runtime::Setup& Theta::setup_with(const Life& life) {
  config_.sync.merge = life.merge;
  config_.sync.outer_lr = life.outer_lr;
  config_.sync.outer_momentum = life.outer_momentum;
  return setups_.emplace_back(runtime::make_setup(config_));
}

void Theta::merge(const sync::Merge& action) {
  if (!state_) return;
  if (!reader_) return forget("the run kept no fragments (record = decisions)");
  std::vector<std::vector<float>> values;
  std::vector<sync::MergeInput> inputs;
  for (const sync::Contribution& part : action.contributions) {
    auto found = reader_->find({action.round, part.learner, part.incarnation});
    const auto wanted = setups_.back().fragments.at(static_cast<std::size_t>(action.fragment)).size;
    if (!found || std::ssize(*found) != wanted) {
      return forget("the contribution of learner " + std::to_string(part.learner) + " to round " +
                    std::to_string(action.round) + " was not kept");
    }
    values.push_back(std::move(*found));
    inputs.push_back({values.back(), part.weight});
  }
  open_[action.round] = state_->merge(action.fragment, inputs);
  contributions_ += std::ssize(values);
}

void Theta::adopt(std::int64_t round) {
  auto merged = open_.extract(round);
  if (!state_ || merged.empty()) return;
  state_->adopt(std::move(merged.mapped()));
  ++merges_;
}

void Theta::drop_open_merges() { open_.clear(); }

void Theta::save(std::int64_t round) {
  if (!state_) return;
  checkpoint::Global& saved = saved_[round];
  saved = {};
  state_->fill(saved);
  if (saved_.size() > kSaved) saved_.erase(saved_.begin());
}

std::optional<std::uint64_t> Theta::digest() const {
  if (!state_) return std::nullopt;
  return state_->digest();
}

std::optional<checkpoint::Global> Theta::load(std::int64_t round) const {
  const auto file = runtime::RunFolder(run_).checkpoints() / checkpoint::global_name(round);
  if (!std::filesystem::exists(file)) return std::nullopt;
  try {
    auto state = checkpoint::load_global(file);
    checkpoint::require_same_model(state.common.tensors, setups_.back().tensors, file.string());
    return state;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<std::uint64_t> Theta::digest_of_checkpoint(std::int64_t round) const {
  const auto state = load(round);
  if (!state) return std::nullopt;
  return State(setups_.back(), *state).digest();
}

}  // namespace archipelago::replay
