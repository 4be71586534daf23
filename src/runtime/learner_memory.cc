#include "runtime/learner_memory.h"

#include "kernels/kernels.h"
#include "model/size.h"

namespace archipelago::runtime {

LearnerMemory learner_memory(const Setup& setup, const config::RunConfig& own,
                             std::int64_t data_bytes) {
  constexpr std::int64_t kFloat = sizeof(float);
  const std::int64_t parameters = setup.parameters * kFloat;
  const std::int64_t moments = own.train.optimizer == "sgd" ? 1 : 2;
  const std::int64_t batch = own.train.batch / own.sync.ranks_per_learner / own.train.accumulate;
  const std::int64_t rows_at_once =
      own.device == "cuda" ? kernels::kGpuRowsAtOnce : kernels::kHostRowsAtOnce;
  const auto& wire = setup.wire;
  const std::int64_t bases =
      wire.differences() ? fragment::encoded_size(wire.whole(), setup.parameters) : 0;
  const std::int64_t residuals = fragment::has_error_feedback(wire.up) ? parameters : 0;
  return {.parameters = parameters,
          .gradients = parameters,
          .moments = moments * parameters,
          .activations = model::activation_bytes(own.model, batch, rows_at_once),
          .exchange = bases + residuals,
          .fragments = 2 * setup.largest_fragment * kFloat,
          .data = data_bytes};
}

}  // namespace archipelago::runtime
