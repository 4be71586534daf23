#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "sync/machine.h"

namespace archipelago::runtime {

enum class FaultKind : std::int32_t {
  kill,     // SIGKILL
  stop,     // SIGSTOP, SIGCONT after `seconds`
  slow,     // inner steps take `factor` times as long for `seconds`
  drop,     // for `seconds` all messages between the learner and the syncer are lost
  corrupt,  // the next fragment that the learner sends is damaged on its way
  stall,    // the next fragment that the learner sends stands still half-way for `seconds`
  fill,     // for `seconds` no checkpoint of any process finds room on the disk
};

// In the middle of what a kill or a stop is to come.
enum class Moment : std::int32_t {
  any,         // at once
  join,        // while the victim is joining
  checkpoint,  // when its next checkpoint has been built and has no name yet
  transfer,    // when the data of its next fragment is there and its flag is not
};

// One fault that is to happen now.
struct Fault {
  FaultKind kind = FaultKind::kill;
  int learner = 0;
  int rank = 0;  // of the learner's island
  double seconds = 0;
  double factor = 1;
  Moment moment = Moment::any;
  std::string entry;  // of the plan
};

std::string to_string(FaultKind kind);
std::string to_string(Moment moment);

// One entry of a chaos plan. Exactly one of step, time and every says when.
struct PlannedFault {
  enum class Victim { given, any, turn };

  FaultKind kind = FaultKind::kill;
  Victim victim = Victim::any;
  int learner = 0;
  int rank = 0;
  std::optional<std::int64_t> step;  // once the victim has trained so many inner steps
  std::optional<double> time;        // seconds after the first round
  std::optional<double> every;       // mean seconds between two, exponential
  std::int64_t count = 1;            // how many times; `every` alone: without end
  double seconds = 10;
  double factor = 10;
  std::uint64_t seed = 1;
  Moment moment = Moment::any;
  int victims = 1;  // so many different learners at once
  std::string entry;
};

// Faults by entry of the plan: how many learners each has struck.
using StruckFaults = std::map<std::string, std::int64_t>;

// Those that stand on an event tape (fault_line()); none where there is no such file.
StruckFaults struck_faults(const std::filesystem::path& events);

// Reads a plan: entries separated by ';', each a kind and key=value words, e.g.
//   kill learner=1 step=150; stop learner=any time=30 seconds=5; kill learner=turn every=10
//   count=20; kill learner=1 step=200 when=transfer; kill learner=any time=9 victims=2
// Throws Error(configuration) naming the word that is wrong and the right ones.
std::vector<PlannedFault> parse_chaos(const std::string& plan);

// Throws Error(configuration) where the plan names a learner, or a rank of one, that the run has
// not.
void require_targets(const std::vector<PlannedFault>& plan, int learners, int ranks_per_learner);

// Throws Error(configuration) where the plan has more than kills and slow steps at no special
// moment: all that can be done to a learner that has no syncer.
void require_kills_and_slowness(const std::vector<PlannedFault>& plan);

// Decides which planned faults are due: a function of the plan, the time and the learners' steps.
class Chaos {
 public:
  // `struck`: what has come of the same entries in earlier starts of the run; it does not come
  // again.
  explicit Chaos(std::vector<PlannedFault> plan, StruckFaults struck = {});

  // `seconds` since the first round. A fault whose victim does not live now waits until it does; a
  // life is killed once.
  std::vector<Fault> due(double seconds, const std::vector<sync::LearnerView>& learners);

 private:
  struct Entry {
    PlannedFault planned;
    Random random;
    std::int64_t done = 0;
    double next = 0;  // for `every`
    int victims = 0;  // chosen so far, for `turn`
  };

  bool can_be_hit(const PlannedFault& planned, const std::vector<sync::LearnerView>& learners,
                  int learner, const std::vector<int>& chosen) const;
  bool is_due(const Entry& entry, double seconds,
              const std::vector<sync::LearnerView>& learners) const;
  std::optional<int> choose_victim(Entry& entry, const std::vector<sync::LearnerView>& learners,
                                   const std::vector<int>& chosen);

  std::vector<Entry> entries_;
  std::map<int, int> killed_;  // learner -> its last life that was killed
};

}  // namespace archipelago::runtime
