#pragma once

#include <cstdint>
#include <vector>

namespace archipelago::simulate {

// What one run of one method came to.
struct Outcome {
  double goodput = 0;       // useful tokens, as a share of what the cluster trains without failures
  double availability = 0;  // share of the time in which the system as a whole advances
  double utilisation = 0;   // compute time / (compute + stall), mean over chips
  double tokens_per_day = 0;
  double gbps = 0;              // of one learner's link, both ways, mean over time
  double bytes = 0;             // over all links
  double energy_per_token = 0;  // joules; NaN where nothing was trained
  double cost_per_token = 0;    // the same
  double rounds = 0;
  double contributors = 0;  // learners a merge, mean
  double staleness = 0;     // inner steps since its base that a contribution holds, mean
  double spread = 0;        // of merged contributions over learners: (most - fewest) / mean
  double losses = 0;        // learners lost
  std::vector<double> contributions;  // merged, by learner
};

}  // namespace archipelago::simulate
