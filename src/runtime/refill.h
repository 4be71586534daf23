#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "config/run_config.h"
#include "island/island.h"
#include "link/mailbox.h"
#include "link/mpi_pair.h"
#include "mpi/session.h"
#include "runtime/description.h"

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

  // `description`: what a new island must have the same.
  Refill(const config::RunConfig& config, const link::MailboxLayout& mailbox,
         Description description);
  ~Refill();
  Refill(const Refill&) = delete;
  Refill& operator=(const Refill&) = delete;

  // Asks for more islands; returns at once.
  void request(int islands);

  // Those that have come since the last call.
  std::vector<NewIsland> take();

  // The other side: what a spawned rank does first. Throws Error(configuration) naming the
  // difference where it does not fit into the run.
  static Joined join(const mpi::Session& session, const link::MailboxLayout& mailbox,
                     const Description& own);

 private:
  // What the thread works on. It owns a share, since a spawn that hangs outlives the Refill.
  struct Work {
    Work(const config::RunConfig& options, const link::MailboxLayout& layout, Description needed)
        : config(options), mailbox(layout), description(std::move(needed)) {}

    config::RunConfig config;
    link::MailboxLayout mailbox;
    Description description;
    std::mutex mutex;
    std::condition_variable changed;
    int wanted = 0;
    bool stopping = false;
    bool turned_away = false;  // of the thread: a new island did not fit, the next ones would not
    std::vector<NewIsland> arrived;
  };

  static void run(Work& work);
  static std::optional<NewIsland> try_to_spawn(Work& work);
  static NewIsland spawn(Work& work);

  std::shared_ptr<Work> work_;
  std::thread thread_;
};

}  // namespace archipelago::runtime
