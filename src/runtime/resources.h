#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "link/mailbox.h"
#include "runtime/layout.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// Whether this host can hold its part of the run. Throws Error(configuration) saying what it lacks.
void require_resources(const Setup& setup, const Layout& layout, int rank);

// When a host of `memory` bytes has not the `needed` ones.
void require_memory(double needed, double memory);

// Bytes that the control groups of a process leave it: the least limit of its group and those
// around it, infinite where there is none. `membership` is its /proc/PID/cgroup, `root` where
// control groups are mounted (cgroups(7), versions 1 and 2).
double memory_of_group(const std::filesystem::path& membership, const std::filesystem::path& root);

// When the windows of so many leaders do not fit the `free` bytes of the folder that MPI keeps them
// in.
void require_window_room(const link::MailboxLayout& mailbox, int leaders, std::uint64_t free,
                         const std::string& folder);

}  // namespace archipelago::runtime
