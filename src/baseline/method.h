#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "runtime/learner_state.h"

namespace archipelago::baseline {

// One merge of one fragment, as metrics.jsonl tells it.
struct RoundRow {
  std::int64_t round;
  int fragment;
  std::int32_t version;
  double wait_seconds;  // that the learner stood still for it
  double merge_seconds;
};

// What keeps learners together. Every rank of every learner does the same calls.
class Method {
 public:
  virtual ~Method() = default;

  // Whether ranks of different learners wait for one another in inner step `step` (from 1).
  virtual bool meets(std::int64_t step) const = 0;

  // Inner step `step` and what belongs to it.
  virtual void step(std::int64_t step) = 0;

  // Brings together what the steps so far have not, once no more will come.
  virtual void finish() = 0;

  // The trained model's tensors, parameters, outer momentum and versions. After finish(), on the
  // first learner's leader.
  virtual checkpoint::Global result() const = 0;

  // Seconds that this rank has waited for other learners so far.
  virtual double blocked_seconds() const = 0;

  virtual std::int64_t rounds() const = 0;
  // Those since the last call.
  virtual std::vector<RoundRow> take_rounds() = 0;
};

}  // namespace archipelago::baseline
