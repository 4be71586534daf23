#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "island/member.h"
#include "kernels/kernels.h"

namespace archipelago::runtime {

// Throws Error(configuration) where this process cannot compute on the device that the options ask
// for.
void require_device(const config::RunConfig& config);

// What an island's rank computes on. `place`: how many ranks of islands on its host come before it;
// where these are more than the host has GPUs, several share one.
kernels::Device choose_device(const config::RunConfig& config, int place);

// The share of its device's energy that a rank is charged with: learners' ranks on one host share
// its processors, and its GPUs where these are fewer. `on_host`: ranks of islands on its host;
// spares sleep and are not charged.
double energy_share(const config::RunConfig& config, const kernels::Device& device, int on_host);

// How many ranks of islands the host of this rank has.
int ranks_on_host(const std::vector<std::vector<island::Member>>& islands, int island, int rank);

// The place of rank `rank` of island `island`, both from 0.
int place_on_host(const std::vector<std::vector<island::Member>>& islands, int island, int rank);

}  // namespace archipelago::runtime
