#pragma once

#include <cstdint>
#include <vector>

#include "config/option_table.h"
#include "config/run_config.h"
#include "core/random.h"

namespace archipelago::emulate {

// What an emulated run meets besides the faults of its chaos plan, in virtual seconds. The names
// are those of `simulate`'s options of the same meaning.
struct Conditions {
  // By site, the place of a learner or spare in turn; shorter lists begin again.
  std::vector<double> step_seconds = {1};  // of an inner step
  std::vector<double> gbps = {0};          // Gbit/s of its link, each way; 0: no limit
  std::vector<double> latency = {0};       // seconds one way
  double jitter = 0;                       // of a step's time, as a share (standard deviation)
  double merge_seconds = 0.05;             // of a merge at the syncer
  double join_seconds = 10;     // from a new life's assignment until its island can train
  double return_seconds = 600;  // mean time until a killed island is there again, exponential
};

// "section.name" on the command line and in the INI file. `conditions` must outlive the result.
std::vector<config::Option> options_of(Conditions& conditions);

// Throws Error(configuration) naming in one line all that cannot be emulated or does not fit
// together.
void check(const config::RunConfig& config, const Conditions& conditions);

// What one site has.
struct Site {
  double step_seconds;
  double gbps;
  double latency;
};
Site site_of(const Conditions& conditions, int number);

// Tokens a second of all learners without faults.
double failure_free_rate(const config::RunConfig& config, const Conditions& conditions);

// What is random in the steps' times there, for island number `number`; and how long one takes.
Random random_of_island(std::uint64_t seed, int number);
double step_seconds_of(const Conditions& conditions, int site, Random& random);

}  // namespace archipelago::emulate
