#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/option_table.h"

namespace archipelago::simulate {

// What `archipelago simulate` is asked about: a cluster, what befalls it, and how it trains. One
// struct a section of the INI file; docs/simulator.md explains each field's part in the model.

struct Cluster {
  double chips = 150'000;
  double slice = 64;        // chips that fail and come back together
  double chip_watts = 400;  // while training
  double idle_watts = 120;  // while stalled
  double chip_hour_price = 1;
};

struct Failure {
  double mtbf_hours = 8760;      // mean time between failures of one chip
  double shape = 1;              // Weibull shape of that time; 1: exponential
  double age_hours = 0;          // of all chips at the start, which matters for other shapes
  std::string trace;             // CSV of failures instead: time_s,chip,return_s
  double return_seconds = 600;   // mean time until a failed slice is back
  double return_shape = 1;       // exponentiated Weibull: shape
  double return_power = 1;       // and power
  double spot_share = 0;         // share of the slices that is preemptible
  double spot_hours = 6;         // mean time until one is taken
  double spot_return_hours = 2;  // mean time until it is given back
};

// Chips that fail and come back as one, besides the failures of single chips.
struct Domain {
  double size = 0;  // chips of one; 0: none fail
  double mtbf_hours = 8760;
  double return_seconds = 3600;  // mean
};

// What is written while training; a job that is not elastic goes back to its newest one.
struct Checkpoint {
  double every = 0;    // seconds between two; 0: none, and nothing is lost without them
  double seconds = 0;  // for which training stalls while one is written
};

// Stalls, in seconds. `down`: when capacity is lost; `up`: when it is taken in again, for which
// returned slices wait up to `up_wait` for a stall that happens anyway.
struct Restart {
  double down = 18.5;
  double up = 16;
  double up_wait = 80;
  double rigid_down = 64;  // data-parallel without elasticity: the job starts again
  double rigid_up = 35;
  double join = 30;  // a lost learner's new life: checkpoint read, ranks up
};

struct Train {
  double days = 1;
  double step_seconds = 1;
  double jitter = 0;  // of a step's time, as a share (standard deviation)
  double spread = 0;  // the slowest learner's steps take 1 + spread times as long as the fastest's
  double batch_tokens = 16'777'216;  // a step, over all chips
};

struct Model {
  double parameters = 1e9;
  double bits = 16;           // of an element on the wire between learners
  double gradient_bits = 16;  // of an element of data-parallel gradients
  std::int64_t layers = 24;   // gradient buckets of data-parallel
};

// Of one learner to the syncer or its peers. One value for all, or one for each region in turn: the
// learners are divided evenly among them.
struct Link {
  std::vector<double> gbps = {0};     // 0: no limit
  std::vector<double> latency = {0};  // seconds, one way
};

struct Sync {
  std::int64_t learners = 8;
  double interval = 24;
  std::int64_t fragments = 24;
  double overlap = 2;
  std::int64_t quorum = 1;
  double grace = 0.75;
  double suspect = 60;
  double expel = 3600;
  std::int64_t spares = 0;  // sleeping islands besides the cluster's chips
  double merge_seconds = 0.05;
  double tick_delay = 0;  // seconds by which the syncer sees a time limit late
};

struct Scenario {
  Cluster cluster;
  Failure failure;
  Domain host;
  Domain rack;
  Domain region;
  Restart restart;
  Checkpoint checkpoint;
  Train train;
  Model model;
  Link link;
  Sync sync;
  std::string methods = "data-parallel,elastic,decoupled";
  std::int64_t seed = 1;
  std::int64_t seeds = 3;
};

// An option of numbers from 0 to `high`: "5,2".
config::Option numbers(const std::string& name, std::vector<double>& values, double high,
                       const std::string& help);

// Every field as an option "section.name" of the command line and the INI file. `scenario` must
// outlive the result.
std::vector<config::Option> scenario_options(Scenario& scenario);

// The link of one of `learners` equal parts of the cluster, and the slowest of all.
struct LinkSpeed {
  double gbps;  // 0: no limit
  double latency;
};
LinkSpeed link_of(const Scenario& scenario, int learner, int learners);
LinkSpeed slowest_link(const Scenario& scenario);

enum class Method { data_parallel, elastic, diloco, streaming_diloco, decoupled };

const char* name_of(Method method);

// The methods named in scenario.methods. Throws Error(configuration) for an unknown one.
std::vector<Method> methods_of(const Scenario& scenario);

// Throws Error(configuration) naming all fields that do not fit together, in one line.
void check(const Scenario& scenario);

}  // namespace archipelago::simulate
