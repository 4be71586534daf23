#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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
  bool complete = false;
  bool diverged = false;  // every learner's loss
  std::string reason;
};

}  // namespace archipelago::emulate
