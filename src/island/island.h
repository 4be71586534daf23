#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "island/member.h"
#include "mpi/communicator.h"

namespace archipelago::island {

// The ranks of one island and their collectives over MPI. When one of them dies the island goes as
// a whole: the call revokes the communicator, which frees the others, and ends this process
// (docs/design.md, "Failure"); so no method reports a failure. Collective over the island unless
// said otherwise; waits without keeping a core busy.
class Island {
 public:
  // Collective over `comm`, which the island takes.
  explicit Island(mpi::Communicator comm);
  Island(const Island&) = delete;
  Island& operator=(const Island&) = delete;

  int rank() const { return rank_; }  // local
  int size() const { return size_; }  // local
  bool is_leader() const { return rank_ == 0; }

  // By rank; known on every rank. Local.
  const std::vector<Member>& members() const { return members_; }

  // Copies the leader's bytes to all.
  void broadcast(std::span<std::byte> bytes);

  // Replaces each element by its mean over the ranks; the same bits on every rank.
  void all_reduce_mean(std::span<float> values);

  // Of `sent`, rank r gets the next sent_counts[r] elements; what rank r has for this one,
  // received_counts[r] elements, stands in `received`, one rank after the other.
  void all_to_all(std::span<const float> sent, std::span<const std::int64_t> sent_counts,
                  std::span<float> received, std::span<const std::int64_t> received_counts);

  // The same where every rank gets an equal part.
  void all_to_all(std::span<const std::int64_t> sent, std::span<std::int64_t> received);

  // Ends this process like the collectives when another rank is known to be dead: for times in
  // which no collective is called, as in a spare's sleep. Local, cheap.
  void check_members();

  // Only when all live.
  void close();

 private:
  void finish(int code, MPI_Request& request, const std::string& doing);
  [[noreturn]] void end(const std::string& doing);
  void gather_members();

  mpi::Communicator comm_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<Member> members_;
};

}  // namespace archipelago::island
