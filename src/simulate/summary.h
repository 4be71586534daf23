#pragma once

#include <vector>

#include "simulate/outcome.h"
#include "simulate/scenario.h"
#include "simulate/site.h"

namespace archipelago::simulate {

// How sites spend their time up to an end.
struct SiteTimes {
  double training = 0;      // share of the time, mean over sites
  double capacity = 0;      // share of the chips in use while training, mean
  double availability = 0;  // share of the time in which some site trains
  std::int64_t tokens = 0;  // trained by all sites, whole steps only
};

SiteTimes times_of(std::vector<Site> sites, Nanoseconds end);

// Sets goodput, availability, utilisation, tokens a day, energy and cost from useful tokens.
void set_rates(const Scenario& scenario, const SiteTimes& times, double tokens, Outcome& outcome);

}  // namespace archipelago::simulate
