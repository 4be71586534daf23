#include "mpi/window.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace archipelago::mpi {
namespace {

// Until the request is complete: MPI_Wait and MPI_Win_flush would take a core from training for as
// long as a slow link needs. A put of so many bytes is over on a fast link before a pause would be;
// after that a pause is a small part of the time waited so far, and short beside what a socket's
// buffer holds.
Outcome wait_idly(MPI_Request& request, std::size_t bytes, const std::string& doing) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kFastLink = 1'000;  // bytes a microsecond
  const Clock::duration no_pause = std::chrono::microseconds(200 + bytes / kFastLink);
  constexpr Clock::duration kLongest = std::chrono::microseconds(500);
  constexpr int kPart = 64;
  for (const auto start = Clock::now();;) {
    int done = 0;
    const Outcome outcome = outcome_of(MPI_Test(&request, &done, MPI_STATUS_IGNORE), doing);
    if (done || outcome != Outcome::ok) return outcome;
    const auto waited = Clock::now() - start;
    if (waited > no_pause) std::this_thread::sleep_for(std::min(waited / kPart, kLongest));
  }
}

}  // namespace

Window::Window(const Communicator& comm, std::size_t bytes) {
  void* base = nullptr;
  check(
      MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm.get(), &base, &window_),
      "making a window of " + std::to_string(bytes) + " bytes");
  // A window's own error handler aborts by default, whatever its communicator's is.
  check(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "setting a window's error handler");
  memory_ = {static_cast<std::byte*>(base), bytes};
  std::fill(memory_.begin(), memory_.end(), std::byte{0});
  check(MPI_Barrier(comm.get()), "waiting for a window's peer");
  check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "opening a window");
}

Window::Window(Window&& other) noexcept
    : window_(std::exchange(other.window_, MPI_WIN_NULL)),
      memory_(std::exchange(other.memory_, {})) {}

Window& Window::operator=(Window&& other) noexcept {
  window_ = std::exchange(other.window_, MPI_WIN_NULL);
  memory_ = std::exchange(other.memory_, {});
  return *this;
}

Outcome Window::put(std::initializer_list<Piece> pieces, int target, const std::string& doing) {
  constexpr std::size_t kLargestCount = std::numeric_limits<int>::max();
  std::vector<MPI_Request> requests;
  std::size_t total = 0;
  for (auto [bytes, offset] : pieces) {
    total += bytes.size();
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kLargestCount);
      const Outcome outcome =
          outcome_of(MPI_Rput(bytes.data(), static_cast<int>(count), MPI_BYTE, target,
                              static_cast<MPI_Aint>(offset), static_cast<int>(count), MPI_BYTE,
                              window_, &requests.emplace_back(MPI_REQUEST_NULL)),
                     doing);
      if (outcome != Outcome::ok) return outcome;
      bytes = bytes.subspan(count);
      offset += count;
    }
  }
  for (MPI_Request& request : requests) {
    const Outcome outcome = wait_idly(request, total, doing);
    if (outcome != Outcome::ok) return outcome;
  }
  return outcome_of(MPI_Win_flush(target, window_), doing);
}

Outcome Window::begin_put(Piece piece, int target, const std::string& doing) {
  const auto count = static_cast<int>(piece.bytes.size());
  return outcome_of(MPI_Put(piece.bytes.data(), count, MPI_BYTE, target,
                            static_cast<MPI_Aint>(piece.offset), count, MPI_BYTE, window_),
                    doing);
}

void Window::close() {
  if (window_ == MPI_WIN_NULL) return;
  check(MPI_Win_unlock_all(window_), "closing a window");
  check(MPI_Win_free(&window_), "freeing a window");
  memory_ = {};
}

}  // namespace archipelago::mpi
