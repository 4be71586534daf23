#include "runtime/setup.h"

#include <algorithm>

#include "config/options.h"
#include "core/error.h"
#include "data/image_dataset.h"

namespace archipelago::runtime {
namespace {

std::vector<sync::MergePiece> merge_pieces(const fragment::Fragment& fragment,
                                           const std::vector<model::TensorInfo>& tensors,
                                           sync::MergeRule rule) {
  std::vector<sync::MergePiece> pieces;
  std::int64_t offset = 0;
  for (const fragment::Piece& piece : fragment.pieces) {
    const bool is_table =
        tensors[static_cast<std::size_t>(piece.tensor)].role == model::TensorRole::table;
    pieces.push_back({offset, piece.size, is_table ? sync::MergeRule::mean : rule});
    offset += piece.size;
  }
  return pieces;
}

// An option of 0 is as the data says; else it must not be below that.
void fit(std::int64_t& option, std::int64_t of_data, const char* name,
         const std::string& data_path) {
  if (option == 0) option = of_data;
  if (option < of_data) {
    throw Error(ExitCode::bad_data, std::string(name) + " is " + std::to_string(option) + " but " +
                                        data_path + " needs " + std::to_string(of_data) +
                                        "; set it to that (or 0), or prepare the data again");
  }
}

}  // namespace

std::unique_ptr<data::Batches> training_batches(const data::Dataset& dataset,
                                                const config::RunConfig& own, int shards) {
  return dataset.training({.context = own.model.context,
                           .shards = shards,
                           .seed = own.train.seed,
                           .shift = own.data.shift,
                           .flip = own.data.flip});
}

config::Model fit_model(config::Model model, const data::Dataset& dataset,
                        const std::string& data_path) {
  const auto* const images = dynamic_cast<const data::ImageDataset*>(&dataset);
  if (model::is_image_model(model) != (images != nullptr)) {
    throw Error(ExitCode::configuration,
                data_path + " holds " + (images != nullptr ? "images" : "text") +
                    ", which model.kind " + model.kind + " does not take; use " +
                    (images != nullptr ? "vit or linear" : "gpt or moe"));
  }
  fit(model.vocabulary, dataset.vocabulary(), "model.vocabulary", data_path);
  if (images != nullptr) {
    fit(model.image, images->side(), "model.image", data_path);
    fit(model.image_channels, images->channels(), "model.image_channels", data_path);
    if (model.image != images->side() || model.image_channels != images->channels()) {
      throw Error(ExitCode::configuration,
                  data_path + " has images of " + std::to_string(images->side()) + " pixels and " +
                      std::to_string(images->channels()) +
                      " channels; leave model.image and model.image_channels out");
    }
    model.context = model::image_positions(model);
  }
  return model;
}

Shard shard_of(const config::RunConfig& config, int learner) {
  const std::string path = config::for_learner(config, learner).data.path;
  Shard shard{0, 0};
  for (int other = 0; other < config.sync.learners; ++other) {
    if (config::for_learner(config, other).data.path != path) continue;
    if (other < learner) ++shard.index;
    ++shard.count;
  }
  return shard;
}

Setup make_setup(const config::RunConfig& config) {
  Setup setup{config, {}, {}, {}, {}};
  for (int learner = 0; learner < config.sync.learners; ++learner) {
    setup.step_tokens += config::for_learner(config, learner).train.batch * config.model.context;
  }
  setup.tensors = model::describe_tensors(setup.config.model);

  std::vector<fragment::TensorExtent> extents;
  for (const auto& tensor : setup.tensors) {
    extents.push_back({tensor.offset, tensor.size});
    setup.parameters += tensor.size;
  }
  setup.fragments = fragment::partition(extents, config.sync.fragments);
  setup.config.sync.fragments = setup.fragment_count();

  const auto rule =
      config.sync.merge == "mean" ? sync::MergeRule::mean : sync::MergeRule::radial_directional;
  setup.fragment_of_tensor.resize(setup.tensors.size());
  for (int p = 0; p < setup.fragment_count(); ++p) {
    const auto& fragment = setup.fragments[static_cast<std::size_t>(p)];
    setup.pieces.push_back(merge_pieces(fragment, setup.tensors, rule));
    setup.largest_fragment = std::max(setup.largest_fragment, fragment.size);
    for (const auto& piece : fragment.pieces) {
      setup.fragment_of_tensor[static_cast<std::size_t>(piece.tensor)] = p;
    }
  }
  return setup;
}

}  // namespace archipelago::runtime
