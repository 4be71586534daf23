#pragma once

#include <cstddef>
#include <span>
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
// where these are more than the host has GPUs, several islands share one.
kernels::Device choose_device(const config::RunConfig& config, int place);

// That device where it is a GPU, by the host's name and the GPU's address; else empty.
std::string own_gpu(const config::RunConfig& config, int place);

// Throws Error(configuration) where a rank before `rank` has the same GPU as it. `gpus`: own_gpu()
// of an island's ranks. NCCL takes no two ranks of one communicator on a GPU.
void require_own_gpu(std::span<const std::string> gpus, std::size_t rank);

// The share of its device's energy that a rank is charged with: learners' ranks on one host share
// its processors, and its GPUs where these are fewer. `on_host`: ranks of islands on its host;
// spares sleep and are not charged.
double energy_share(const config::RunConfig& config, const kernels::Device& device, int on_host);

// How many ranks of islands the host of this rank has.
int ranks_on_host(const std::vector<std::vector<island::Member>>& islands, int island, int rank);

// The place of rank `rank` of island `island`, both from 0.
int place_on_host(const std::vector<std::vector<island::Member>>& islands, int island, int rank);

}  // namespace archipelago::runtime
