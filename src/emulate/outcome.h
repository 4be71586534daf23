#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sync/messages.h"

namespace archipelago::emulate {

// What an emulated run came to.
struct Outcome {
  double seconds = 0;               // virtual, from the first step's begin to the end
  double goodput = 0;               // counted tokens, as a share of what the learners train in this
                                    // time without faults
  std::int64_t tokens = 0;          // that count, each once
  std::int64_t trained_tokens = 0;  // by all lives, whatever became of it
  std::int64_t merged_tokens = 0;   // whose work was merged, each once, a mean over fragments
  std::int64_t rounds = 0;
  std::int64_t merges = 0;
  double contributors = 0;                      // learners a merge, mean
  std::map<std::string, std::int64_t> dropped;  // fragments that were not merged, by reason
  int losses = 0;
  int rejoins = 0;
  double train_loss = 0;  // of the learners' last steps, mean
  std::int64_t bytes_up = 0;
  std::int64_t bytes_down = 0;
  std::vector<float> parameters;  // of the result, flat
  sync::Outcome end = sync::Outcome::complete;
  std::string reason;
  bool unsaved = false;          // the last global checkpoint found no room
  std::vector<double> rejoin_s;  // seconds from each loss until the learner counted again
  nlohmann::json status;         // the last one, but for its state
};

}  // namespace archipelago::emulate
