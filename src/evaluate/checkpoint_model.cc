#include "evaluate/checkpoint_model.h"

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "config/options.h"

namespace archipelago::evaluate {

CheckpointModel load_model(const std::filesystem::path& file, std::int64_t batch_tokens,
                           int threads) {
  const checkpoint::Common state = checkpoint::load_parameters(file);
  CheckpointModel loaded;
  loaded.config = config::from_map(state.config, file.string());
  checkpoint::require_same_model(state.tensors, model::describe_tensors(loaded.config.model),
                                 file.string());
  loaded.batch = std::max<std::int64_t>(1, batch_tokens / loaded.config.model.context);
  loaded.model = model::make_model(loaded.config.model, loaded.batch, threads);
  std::ranges::copy(state.parameters, loaded.model->parameters().begin());
  return loaded;
}

}  // namespace archipelago::evaluate
