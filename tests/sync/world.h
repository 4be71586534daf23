#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "invariants.h"
#include "sync/machine.h"

namespace archipelago::sync {

// Something that goes wrong at a time; `island`, `seconds` and `amount` as the kind needs them.
struct Fault {
  enum class Kind {
    kill,       // the island dies; the machine hears of it later
    cut,        // its messages, both ways, wait for so many seconds
    freeze,     // it neither steps nor reports for so many seconds
    slow,       // its steps take `amount` times as long from now on
    duplicate,  // its next `amount` messages arrive twice, the second one much later
    poison,     // its values are not finite until it takes the global state
    wild,       // its values are far off until it takes the global state
    diverge,    // its loss is not finite, or above the limit, until it takes the global state
    stall,      // the machine's driver does nothing for so many seconds
    scale,      // `amount` learners are wanted from now on
    replace,    // the syncer dies with all it holds, and a standby syncer goes on
    guest,      // an island comes that was not part of the job
  };
  Nanoseconds time;
  Kind kind;
  int island;
  double seconds;
  int amount;
};

// One history to be played: everything that is random in it follows from this.
struct Plan {
  std::uint64_t seed;
  Settings settings;
  Restored restored;
  std::vector<Fault> faults;  // ascending times
  Nanoseconds calm;           // no fault later than this
  Nanoseconds end;            // a stop is requested, where training is not complete before
  double step_seconds;        // of the fastest island
  double spread;              // the slowest island's steps take 1 + spread times as long
  Nanoseconds longest_delay;  // of a message
  Nanoseconds data_delay;     // of a fragment to an island, which all else overtakes
  bool reorder;               // messages to the machine overtake one another
};

Plan make_plan(std::uint64_t seed);
std::string describe(const Plan& plan);

// What one recorded event was answered with.
struct Recorded {
  Nanoseconds time;
  Event event;
  std::vector<Action> actions;
};

// Plays islands, links and the driver of one history in virtual time.
class World {
 public:
  explicit World(const Plan& plan);

  // Plays to the end. Returns the first invariant that broke; empty: none.
  std::string play();

  const std::vector<Recorded>& record() const { return record_; }
  std::int64_t merges() const { return invariants_.merges(); }
  const Machine& machine() const { return machine_; }

 private:
  struct Down {  // a message to an island
    Action action;
    std::vector<std::int32_t> versions;  // of a Refresh: what it brings
  };
  struct Island {
    bool up = false;  // started, whether or not it has said so
    bool dead = false;
    bool guest = false;
    int learner = -1;
    int incarnation = -1;
    bool expelled = false;  // what its life does counts no more, whether or not it has heard of it
    int epoch = 0;          // counts what it has been; older step and heartbeat items are void
    double slowness = 1;
    Nanoseconds cut_until = 0;
    Nanoseconds frozen_until = 0;
    Nanoseconds last_arrival = 0;  // of messages to it, which come in order
    Nanoseconds last_sent = 0;     // of messages from it, where they come in order
    Nanoseconds last_lease = 0;    // arrival of its newest LeaseFollowed, which nothing overtakes
    Nanoseconds last_report = 0;
    int duplicates = 0;
    double norm_factor = 1;
    double loss = 1;
    bool stepping = false;
    bool paused = false;
    std::int64_t tokens = 0;
    std::vector<std::int32_t> held, next;
    std::vector<std::int64_t> steps;
    std::vector<double> highest_loss;  // since it took the fragment in
    bool takes_all_anew = false;       // at its next step, of the version that it holds too
    std::deque<Ask> asks;
    Leases::Held shards;         // that it trains on, each at its next sequence
    std::optional<Lease> lease;  // to be followed at the next step boundary
    Random random{0};
  };
  struct Item {
    enum class Kind { to_machine, to_island, step, heartbeat, fault, boot };
    Nanoseconds time;
    std::uint64_t sequence;
    Kind kind;
    int island;
    int epoch;
    Event event;
    Down down;
  };

  void push(Item item);
  Item pop();
  void tell(Nanoseconds now, const Event& event);
  void carry_out(const std::vector<Action>& actions);
  void send_down(int island, const Action& action);
  void say_ready(int number);
  void send_up(Island& island, const Event& event);
  void boot(int island, Nanoseconds at);
  void receive(int number, const Down& down);
  void step(int number);
  void heartbeat(int number);
  void install(Island& island);
  void follow(Island& island);
  void start_stepping(int number);
  void check_shards();
  std::string check_leases() const;
  void answer(Island& island);
  void report(Island& island);
  void schedule_step(int number);
  void inject(const Fault& fault);
  std::string verdict() const;
  Nanoseconds delay(Random& random) const;

  Plan plan_;
  Machine machine_;
  Invariants invariants_;
  Random random_;
  Nanoseconds now_ = 0;
  Nanoseconds stalled_until_ = 0;
  std::uint64_t sequence_ = 0;
  std::vector<Item> queue_;
  std::vector<Island> islands_;
  std::vector<Recorded> record_;
  std::int64_t merges_when_settled_ = 0;
  bool finished_ = false;
  std::string broken_;
};

}  // namespace archipelago::sync
