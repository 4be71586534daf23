#include "runtime/setup.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

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

data::Kind usual_kind(const config::Model& model) {
  return model::is_image_model(model) ? data::Kind::images : data::Kind::text;
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

namespace {

DataPlan plan_data(const config::RunConfig& config) {
  DataPlan plan;
  plan.groups.push_back({config.data.path, 0, 0});
  for (int learner = 0; learner < config.sync.learners; ++learner) {
    const std::string path = config::for_learner(config, learner).data.path;
    auto group = std::ranges::find(plan.groups, path, &DataPlan::Group::path);
    if (group == plan.groups.end()) {
      plan.groups.push_back({path, 0, 0});
      group = std::prev(plan.groups.end());
    }
    ++group->learners;
    plan.group_of_learner.push_back(static_cast<int>(group - plan.groups.begin()));
  }
  return plan;
}

}  // namespace

void take_note_of(Setup& setup, const data::Dataset& dataset, const std::string& path) {
  const auto group = std::ranges::find(setup.data.groups, path, &DataPlan::Group::path);
  if (group == setup.data.groups.end()) return;
  // Throws where there is too little.
  training_batches(dataset, setup.config, std::max(group->learners, 1));
  group->windows = dataset.samples(setup.config.model.context);
}

Setup make_setup(const config::RunConfig& config) {
  Setup setup;
  setup.config = config;
  setup.wire = {fragment::encoding_named(config.wire.up),
                fragment::encoding_named(config.wire.down)};
  for (int learner = 0; learner < config.sync.learners; ++learner) {
    setup.step_tokens += config::for_learner(config, learner).train.batch * config.model.context;
  }
  setup.data = plan_data(config);
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
    std::vector<kernels::Part> ranges;
    for (const auto& piece : fragment.pieces) ranges.push_back({piece.offset, piece.size});
    setup.ranges.push_back(std::move(ranges));
    setup.pieces.push_back(merge_pieces(fragment, setup.tensors, rule));
    setup.largest_fragment = std::max(setup.largest_fragment, fragment.size);
    for (const auto& piece : fragment.pieces) {
      setup.fragment_of_tensor[static_cast<std::size_t>(piece.tensor)] = p;
    }
  }
  if (config.sync.syncers > setup.fragment_count()) {
    throw Error(ExitCode::configuration, "sync.syncers is " + std::to_string(config.sync.syncers) +
                                             " but there are " +
                                             std::to_string(setup.fragment_count()) +
                                             " fragments to share: set it to at most that");
  }
  constexpr std::int64_t kLargestMessage = std::numeric_limits<int>::max();
  if (fragment::encoded_size(setup.wire.whole(), setup.largest_fragment) > kLargestMessage) {
    throw Error(ExitCode::configuration,
                "the largest tensor, of " + std::to_string(setup.largest_fragment) +
                    " elements, has more bytes than an MPI message: make it smaller, or set "
                    "wire.down to bf16");
  }
  return setup;
}

std::int64_t largest_fragment(const Setup& setup, Share share) {
  std::int64_t largest = 0;
  for (int p = share.syncer; p < setup.fragment_count(); p += share.syncers) {
    largest = std::max(largest, setup.fragments[static_cast<std::size_t>(p)].size);
  }
  return largest;
}

double loss_limit(const config::Model& model) {
  constexpr double kGuesses = 2;
  return kGuesses * std::log(model.vocabulary);
}

link::MailboxLayout mailbox_layout(const Setup& setup, Share share) {
  return {setup.fragment_count(),
          fragment::encoded_size(setup.wire.up, largest_fragment(setup, share))};
}

}  // namespace archipelago::runtime
