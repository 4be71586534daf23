#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "island/member.h"
#include "runtime/layout.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// Whether the host of `rank` can hold its part of the run. `ranks`: all of the world. Throws
// Error(configuration) saying what it lacks.
void require_resources(const Setup& setup, const Layout& layout,
                       const std::vector<island::Member>& ranks, int rank);

// When a host of `memory` bytes has not the `needed` ones.
void require_memory(double needed, double memory);

// Bytes that the control groups of a process leave it: the least limit of its group and those
// around it, infinite where there is none. `membership` is its /proc/PID/cgroup, `root` where
// control groups are mounted (cgroups(7), versions 1 and 2).
double memory_of_group(const std::filesystem::path& membership, const std::filesystem::path& root);

// Of all windows of the syncers on this host.
std::uint64_t window_bytes(const Setup& setup, const Layout& layout,
                           const std::vector<island::Member>& ranks, const std::string& host);

// When windows of so many bytes, for so many islands, do not fit the `free` ones of the folder that
// MPI keeps them in.
void require_window_room(std::uint64_t needed, int islands, std::uint64_t free,
                         const std::string& folder);

}  // namespace archipelago::runtime
