#pragma once

#include <string>
#include <vector>

#include "simulate/exchange.h"
#include "simulate/scenario.h"

namespace archipelago::simulate {

// For one method: the least bandwidth of the published grid at which each wanted utilisation is
// reached.
struct BandwidthRow {
  Method method;
  std::vector<int> points;  // of the grid; -1: beyond its end
};

// The exchange of a method in this scenario.
Exchange exchange_of(const Scenario& scenario, Method method);

// "0.5,0.9" as numbers; each within (0, 1). Throws Error(configuration).
std::vector<double> utilisations_of(const std::string& list);

// A row for each method of the scenario.
std::vector<BandwidthRow> bandwidth_table(const Scenario& scenario,
                                          const std::vector<double>& utilisations);

std::string bandwidth_text(const std::vector<BandwidthRow>& rows,
                           const std::vector<double>& wanted);
std::string bandwidth_json(const std::vector<BandwidthRow>& rows,
                           const std::vector<double>& wanted);

}  // namespace archipelago::simulate
