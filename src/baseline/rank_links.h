#pragma once

#include <mpi.h>

#include <cstddef>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "baseline/elastic_messages.h"

namespace archipelago::baseline {

// The coordinator's end of what every other rank answers and is told. One thread.
class RankLinks {
 public:
  explicit RankLinks(int world_size);
  RankLinks(const RankLinks&) = delete;
  RankLinks& operator=(const RankLinks&) = delete;

  // Appends what has come to `answers`, each with its rank, and ranks that are found to have died
  // to `lost`. Whether there was any.
  bool poll(std::vector<std::pair<int, Answer>>& answers, std::vector<int>& lost);

  // Tells the rank without waiting; a rank that has died is left alone.
  void send(int rank, const OrderHeader& header, std::span<const RingMember> members = {});

  // Whether any rank is still there: one that has said its last word is not.
  bool any() const;

 private:
  struct Link {
    bool open = false;
    bool refused = false;  // there is no receive: the rank was known to be dead
    Answer answer;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Sent {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void listen(int rank);
  void clear_sent();

  std::vector<Link> links_;  // by rank of the world
  std::list<Sent> sent_;     // under way
};

}  // namespace archipelago::baseline
