#pragma once

#include <mpi.h>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

#include "mpi/communicator.h"

namespace archipelago::mpi {

// Memory of one rank that another rank writes into (MPI_Win_allocate), open for passive access from
// its creation on. Like a communicator it is freed by `close` on the healthy path only.
class Window {
 public:
  Window() = default;
  // Collective over `comm`. `bytes`: memory that this rank exposes, zeroed; 0 for a rank that only
  // writes.
  Window(const Communicator& comm, std::size_t bytes);
  Window(Window&& other) noexcept;
  Window& operator=(Window&& other) noexcept;

  // This rank's exposed memory.
  std::span<std::byte> memory() const { return memory_; }

  struct Piece {
    std::span<const std::byte> bytes;
    std::size_t offset;  // in the target's memory
  };

  // Copies the pieces into `target`'s memory, in any order, and returns when all have arrived
  // there. Only the writer calls it, never on a window whose target is known to be dead.
  Outcome put(std::initializer_list<Piece> pieces, int target, const std::string& doing);

  // Begins to copy a small piece and returns without waiting for it: it has arrived when the next
  // `put` to the same target or `close` returns, and its bytes stay as they are until then.
  Outcome begin_put(Piece piece, int target, const std::string& doing);

  MPI_Win get() const { return window_; }

  // Collective over the communicator it was made on.
  void close();

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  std::span<std::byte> memory_;
};

}  // namespace archipelago::mpi
