#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace archipelago::config {

// The options of `train`, one struct a section; field `sync.outer_lr` is RunConfig::sync.outer_lr.
// Defaults stand here and nowhere else.

struct Model {
  std::string kind = "gpt";  // gpt (dense decoder), moe, vit, linear (images)
  std::string size =
      "custom";  // 124M, 355M, 774M, 1.5B: GPT-2's layers, width, heads, context, vocabulary
  std::int64_t layers = 4;
  std::int64_t width = 128;  // channels C; a multiple of heads
  std::int64_t heads = 4;
  std::int64_t context = 128;          // positions T; for images: what the model makes of them
  std::int64_t vocabulary = 0;         // V, for images the number of classes; 0: as the data says
  std::int64_t experts = 8;            // moe: experts a block
  std::int64_t experts_per_token = 2;  // moe: experts that each position goes through
  std::int64_t expert_width = 0;       // moe: width inside an expert; 0: four times model.width
  double balance_loss = 0.01;          // moe: weight of the load-balancing loss
  double router_z_loss = 0.001;        // moe: weight of the router's z loss
  std::int64_t image = 0;              // images: pixels a side; 0: as the data says
  std::int64_t image_channels = 0;     // images: 1 grey, 3 colours; 0: as the data says
  std::int64_t patch = 4;              // vit: pixels a side of a patch
  bool recompute = false;  // keep a block's input only and compute the block again in backward
};

struct Data {
  std::string path;        // HDF5 file of `archipelago prepare`
  std::int64_t shift = 0;  // training images are moved by up to so many pixels each way
  bool flip = false;       // half of the training images are mirrored
};

struct Train {
  std::int64_t batch = 16;      // sequences a learner and inner step, over its whole island
  std::int64_t accumulate = 1;  // parts of a batch whose gradients are added up one after the other
  std::int64_t steps = 1000;  // inner steps a learner; the run ends when all learners together have
                              // trained the tokens of so many of each one's batches
  std::string optimizer = "adamw";  // adamw, sgd
  std::string schedule = "cosine";  // after the warm-up: cosine, linear, constant
  double lr = 3e-3;                 // peak inner learning rate
  double min_lr = 0.1;              // end of cosine and linear, as a share of lr
  std::int64_t warmup = 50;         // inner steps of linear warm-up
  double weight_decay = 0.1;        // on matrices and tables only
  double beta1 = 0.9;
  double beta2 = 0.95;
  double momentum = 0.9;  // sgd
  double clip = 1.0;      // largest global gradient norm; 0: no clipping
  std::int64_t validation =
      262144;  // tokens of the validation split that a loss is taken over; 0: all
  std::uint64_t seed = 1;
  int threads = 1;                 // OpenMP threads a rank
  std::string precision = "bf16";  // GPU: products' operands, what a layer keeps: bf16, f32
  bool deterministic = false;      // GPU: the same bits in every run, at some cost
};

struct Sync {
  int learners = 3;             // M
  int ranks_per_learner = 1;    // ranks of an island
  int spares = 1;               // sleeping islands that replace the lost
  int syncers = 1;              // S: fragment p is merged by syncer p mod S
  int standby = 0;              // 1: a standby syncer
  bool refill = true;           // refill the pool of spares by MPI_Comm_spawn (one host only)
  std::string listen;           // HOST:PORT where islands that are jobs of their own come in; none
  double interval = 24;         // H, inner steps between two merges of one fragment
  int fragments = 24;           // P
  double overlap = 2;           // tau, inner steps that an exchange may take
  int quorum = 1;               // K
  double grace = 0.75;          // gamma, share of the slack that the grace window uses
  double grace_cap = 60;        // seconds
  std::string merge = "rda";    // rda, mean
  double outer_lr = 0.7;        // eta
  double outer_momentum = 0.9;  // mu
  double suspect = 5;           // seconds without a report until a learner is left out of quorums
  double expel = 30;            // seconds without a report until its place is given away
  double outlier = 10;          // a fragment whose change is this many times its peers' median norm
                                // is refused; 0: never
};

struct Wire {
  std::string up = "f32";    // what learners send: f32, bf16, int8, e3m0
  std::string down = "f32";  // what they receive: the same
};

struct Checkpoint {
  std::int64_t learner_steps = 50;  // inner steps between two learner checkpoints
  std::int64_t global_rounds = 50;  // rounds between two global checkpoints
  std::int64_t global_seconds = 0;  // at least so often, once a round has closed; 0: never for that
  int keep = 3;                     // newest of each kind (and learner) kept
  std::int64_t keep_every = 0;      // rounds: of so many each one global checkpoint stays; 0: none
  bool validate = false;            // work out the validation loss of each global checkpoint
};

struct RunConfig {
  Model model;
  Data data;
  Train train;
  Sync sync;
  Wire wire;
  Checkpoint checkpoint;
  std::string chaos;  // plan: what to break and when (docs/reliability.md); empty: nothing
  std::string record = "decisions";  // decisions: the event tape; fragments: also what was merged
  std::string device = "cpu";        // cpu, cuda, auto
  std::string method = "decoupled";
  std::string out;  // the run's folder
  bool resume = false;
  bool profile = false;  // tell where the time goes
  // What single learners have instead: learner -> option name -> value (sections [learner.N]).
  std::map<int, std::map<std::string, std::string>> learners;
};

// Whether the method has a syncer and its standbys.
inline bool has_syncer(const RunConfig& config) { return config.method == "decoupled"; }
// Whether it has a coordinator in the syncer's place, which trains and merges nothing.
inline bool has_coordinator(const RunConfig& config) {
  return config.method == "elastic-data-parallel";
}
// Whether it goes on when a learner dies, and has spares; else every rank is a learner's.
inline bool outlives_deaths(const RunConfig& config) {
  return has_syncer(config) || has_coordinator(config);
}
// Ranks before those of islands: syncers and standbys, or the coordinator.
inline int syncers_of(const RunConfig& config) {
  if (has_coordinator(config)) return 1;
  return has_syncer(config) ? config.sync.syncers + config.sync.standby : 0;
}
inline int islands_of(const RunConfig& config) {
  return config.sync.learners + (outlives_deaths(config) ? config.sync.spares : 0);
}

// Whether islands can come later. Not beside a standby or another syncer, which could not be given
// a pair with their leaders.
inline bool can_refill(const Sync& sync) {
  return sync.refill && sync.standby == 0 && sync.syncers == 1;
}

// Whether more islands than the job started with can take part.
inline bool can_grow(const Sync& sync) { return can_refill(sync) || !sync.listen.empty(); }

}  // namespace archipelago::config
