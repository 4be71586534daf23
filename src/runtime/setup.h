#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/dataset.h"
#include "fragment/codec.h"
#include "fragment/partition.h"
#include "link/mailbox.h"
#include "model/model.h"
#include "sync/merge.h"

namespace archipelago::runtime {

// Learners with the same data file form a group, which shares out its shards; those that come
// later join the first, which has the run's own file.
struct DataPlan {
  struct Group {
    std::string path;
    int learners = 0;          // at the start
    std::int64_t windows = 0;  // training sequences of one epoch, once take_note_of() has seen them
  };
  std::vector<Group> groups;
  std::vector<int> group_of_learner;  // by learner id
};

// How fragments travel.
struct Wire {
  fragment::Encoding up = fragment::Encoding::f32;
  fragment::Encoding down = fragment::Encoding::f32;

  // Whether learners send what they have changed since they received the fragment, so that neither
  // direction's rounding is taken for their work. Else they send it as it is.
  bool differences() const {
    return up != fragment::Encoding::f32 || down != fragment::Encoding::f32;
  }

  // Whether learners receive what leads from one version to the next, `down` being for such
  // differences; those who do not hold the one before receive a version whole.
  bool updates() const { return fragment::has_error_feedback(down); }

  // How whole fragments go down.
  fragment::Encoding whole() const { return updates() ? fragment::Encoding::bf16 : down; }
};

// The fragments that one of several syncers merges: p with p mod `syncers` = `syncer`.
struct Share {
  int syncer = 0;
  int syncers = 1;

  bool holds(int fragment) const { return fragment % syncers == syncer; }
};

// What every rank derives alike from the options and the data.
struct Setup {
  config::RunConfig config;  // with model.vocabulary filled in
  std::vector<model::TensorInfo> tensors;
  std::vector<fragment::Fragment> fragments;          // (P)
  std::vector<std::vector<kernels::Part>> ranges;     // (P) each fragment's, in the flat buffers
  std::vector<std::vector<sync::MergePiece>> pieces;  // (P) how each fragment's tensors are merged
  std::vector<int> fragment_of_tensor;
  Wire wire;
  std::int64_t parameters = 0;        // elements of all tensors
  std::int64_t largest_fragment = 0;  // elements
  DataPlan data = {};

  std::int64_t step_tokens = 0;  // of one inner step of every learner together

  int fragment_count() const { return static_cast<int>(fragments.size()); }
  std::int64_t batch_tokens() const { return config.train.batch * config.model.context; }
  std::int64_t token_budget() const { return config.train.steps * step_tokens; }
};

// What a learner with the configuration `own` trains on, the data dealt out to `shards`.
// Throws Error(bad_data) where there is too little for all of them.
std::unique_ptr<data::Batches> training_batches(const data::Dataset& dataset,
                                                const config::RunConfig& own, int shards);

// What the model trains on.
data::Kind usual_kind(const config::Model& model);

// The model with what its options leave to the data filled in. `data_path` is for messages. Throws
// Error(configuration) or Error(bad_data) when options and data do not fit together.
config::Model fit_model(config::Model model, const data::Dataset& dataset,
                        const std::string& data_path);

// `config.model` as fit_model gives it. Throws Error(configuration) for a model that can't be.
Setup make_setup(const config::RunConfig& config);

// How much there is in the data file that a group trains on. Throws Error(bad_data) where it is too
// little for the group's learners.
void take_note_of(Setup& setup, const data::Dataset& dataset, const std::string& path);

// A learner whose loss (nats) is above this has diverged: twice that of a model that gives every
// class the same chance.
double loss_limit(const config::Model& model);

// Elements of the largest fragment of the share.
std::int64_t largest_fragment(const Setup& setup, Share share);

// Of each pair of a leader with a syncer that merges this share.
link::MailboxLayout mailbox_layout(const Setup& setup, Share share = {});

}  // namespace archipelago::runtime
