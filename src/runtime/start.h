#pragma once

#include <mpi.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "island/island.h"
#include "mpi/session.h"
#include "runtime/description.h"
#include "runtime/layout.h"

namespace archipelago::runtime {

// Runs `step` on every rank of the world, then agrees: where it threw Error on some rank, the
// lowest such rank logs its line and every rank gets its exit code. Collective over the world.
std::optional<int> attempt_together(const mpi::Session& session, const std::function<void()>& step);

// Every rank of the world. Collective over it.
std::vector<island::Member> gather_ranks(const Layout& layout);

// A short text of every rank of the world, which has so many. Collective over it.
std::vector<std::string> gather_texts(int world_size, const std::string& own);

// The members of every island among the ranks.
std::vector<std::vector<island::Member>> islands_among(const std::vector<island::Member>& ranks,
                                                       const Layout& layout);

// The members of every island. Collective over the world.
std::vector<std::vector<island::Member>> gather_islands(const Layout& layout);

// The text of rank 0, on every rank of `comm`. `doing` is for errors. Collective over `comm`.
std::string share_text(MPI_Comm comm, std::string text, const std::string& doing);

// Throws Error(configuration), naming rank, host and difference, on every rank that does not have
// what the syncer has. Collective over the world.
void require_same(const mpi::Session& session, const Description& own);

// Waits for all ranks of the world without keeping cores busy.
void wait_for_world();

}  // namespace archipelago::runtime
