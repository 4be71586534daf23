#pragma once

#include <condition_variable>
#include <memory>
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
  // What the thread works on. It owns a share, since a spawn that hangs outlives the Refill.
  struct Work {
    Work(const config::RunConfig& options, const link::MailboxLayout& layout)
        : config(options), mailbox(layout) {}

    config::RunConfig config;
    link::MailboxLayout mailbox;
    std::mutex mutex;
    std::condition_variable changed;
    int wanted = 0;
    bool stopping = false;
    std::vector<NewIsland> arrived;
  };

  static void run(Work& work);
  static std::optional<NewIsland> try_to_spawn(const Work& work);
  static NewIsland spawn(const Work& work);

  std::shared_ptr<Work> work_;
  std::thread thread_;
};

}  // namespace archipelago::runtime
