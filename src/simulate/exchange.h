#pragma once

#include "simulate/scenario.h"

namespace archipelago::simulate {

// The mechanics of an exchange in the simulator of Streaming DiLoCo (arXiv 2501.18512, section 3.3
// and table 4): forward takes T/3 of a step and backward 2T/3; an exchange leaves in equal buckets
// over backward; one link, first in first out; a step waits where its deadline finds the exchange
// unfinished.
struct Exchange {
  Method method = Method::data_parallel;
  double parameters = 1e9;
  double bits = 16;
  double step_seconds = 1;
  double learners = 2;
  double interval = 100;  // H
  double fragments = 1;   // P
  double overlap = 0;     // tau of streaming-diloco, beyond the step that sends
  double buckets = 128;   // of a whole model
  double latency = 0;     // seconds one way; an exchange goes there and back
  int steps = 2000;
};

// Compute time / (compute + stall) on a link of so many Gbit/s. The decoupled method never stalls:
// its value is the share of its rounds that the link carries.
double utilisation(const Exchange& exchange, double gbps);

// The published grid of bandwidths, 10^(-1 + 4k/49) Gbit/s for k = 0 .. 49.
double grid_gbps(int k);

// The first point of the grid at which utilisation() reaches `wanted`; -1: none does.
int least_grid_point(const Exchange& exchange, double wanted);

}  // namespace archipelago::simulate
