#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "config/run_config.h"
#include "island/island.h"
#include "link/mailbox.h"
#include "link/mpi_pair.h"
#include "mpi/session.h"

namespace archipelago::runtime {

// Brings new spare islands into the running job by MPI_Comm_spawn, on a thread of its own: never
// between a learner and its work. Where the job spans hosts, or a spawn hangs, there are simply no
// more new spares (docs/design.md, "Failure").
class Refill {
 public:
  struct NewIsland {
    link::MpiPair pair;
    std::vector<island::Member> members;
  };
  struct Joined {
    mpi::Communicator island;
    std::optional<link::MpiPair> pair;  // on the leader
  };

  Refill(const config::RunConfig& config, const link::MailboxLayout& mailbox);
  ~Refill();
  Refill(const Refill&) = delete;
  Refill& operator=(const Refill&) = delete;

  // Asks for more islands; returns at once.
  void request(int islands);

  // Those that have come since the last call.
  std::vector<NewIsland> take();

  // The other side: what a spawned rank does first.
  static Joined join(const mpi::Session& session, const link::MailboxLayout& mailbox);

 private:
  void run();
  std::optional<NewIsland> try_to_spawn();
  NewIsland spawn();

  const config::RunConfig& config_;
  link::MailboxLayout mailbox_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int wanted_ = 0;
  bool stopping_ = false;
  std::vector<NewIsland> arrived_;
  std::thread thread_;
};

}  // namespace archipelago::runtime
