#include "runtime/chaos.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/error.h"

namespace archipelago::runtime {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ExitCode::configuration, "chaos: " + what);
}

constexpr const char* kKinds[] = {"kill", "stop", "slow", "drop", "corrupt", "stall", "fill"};
constexpr const char* kMoments[] = {"any", "join", "checkpoint", "transfer"};

// The enumerator that is called so.
template <typename Enum, std::size_t kCount>
Enum parse_name(const std::string& word, const char* const (&names)[kCount],
                const std::string& what) {
  std::string all;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (word == names[i]) return static_cast<Enum>(i);
    all += (i == 0 ? "" : i + 1 == kCount ? " and " : ", ") + std::string(names[i]);
  }
  refuse("unknown " + what + " '" + word + "'; there are " + all);
}

double parse_number(const std::string& key, const std::string& text, double lowest) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || !std::isfinite(value) || value < lowest || value > 1e15) {
    refuse("'" + key + "=" + text + "' is no number of at least " + std::to_string(lowest));
  }
  return value;
}

// Whole numbers from `lowest` on.
template <class Integer>
Integer parse_whole(const std::string& key, const std::string& text, Integer lowest) {
  Integer value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last || value < lowest) {
    refuse("'" + key + "=" + text + "' is no whole number of at least " + std::to_string(lowest));
  }
  return value;
}

void set_victim(PlannedFault& fault, const std::string& text) {
  if (text == "any") {
    fault.victim = PlannedFault::Victim::any;
  } else if (text == "turn") {
    fault.victim = PlannedFault::Victim::turn;
  } else {
    fault.victim = PlannedFault::Victim::given;
    fault.learner = parse_whole("learner", text, 0);
  }
}

void set_word(PlannedFault& fault, const std::string& key, const std::string& text) {
  if (key == "learner") {
    set_victim(fault, text);
  } else if (key == "rank") {
    fault.rank = parse_whole(key, text, 0);
  } else if (key == "step") {
    fault.step = parse_whole(key, text, std::int64_t{0});
  } else if (key == "time") {
    fault.time = parse_number(key, text, 0);
  } else if (key == "every") {
    fault.every = parse_number(key, text, 0.001);
    fault.count = -1;
  } else if (key == "count") {
    fault.count = parse_whole(key, text, std::int64_t{1});
  } else if (key == "seconds") {
    fault.seconds = parse_number(key, text, 0);
  } else if (key == "factor") {
    fault.factor = parse_number(key, text, 1);
  } else if (key == "when") {
    fault.moment = parse_name<Moment>(text, kMoments, "moment");
  } else if (key == "victims") {
    fault.victims = parse_whole(key, text, 1);
  } else if (key == "seed") {
    fault.seed = parse_whole(key, text, std::uint64_t{0});
  } else {
    refuse("unknown word '" + key +
           "'; there are learner, rank, step, time, every, count, seconds, factor, seed, when and "
           "victims");
  }
}

std::optional<PlannedFault> parse_entry(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  if (!(words >> word)) return std::nullopt;
  PlannedFault fault;
  fault.entry = word;
  fault.kind = parse_name<FaultKind>(word, kKinds, "fault");
  std::int64_t count = 0;
  std::set<std::string> keys;
  while (words >> word) {
    fault.entry += ' ' + word;
    const auto equals = word.find('=');
    if (equals == std::string::npos) refuse("'" + word + "' is not of the form key=value");
    const std::string key = word.substr(0, equals);
    if (!keys.insert(key).second) refuse("'" + text + "' has " + key + "= twice");
    set_word(fault, key, word.substr(equals + 1));
    if (word.starts_with("count=")) count = fault.count;
  }
  if (count > 0) fault.count = count;
  if (fault.step.has_value() + fault.time.has_value() + fault.every.has_value() != 1) {
    refuse("'" + text + "' needs exactly one of step=, time= and every=");
  }
  if (fault.moment != Moment::any && fault.kind != FaultKind::kill &&
      fault.kind != FaultKind::stop) {
    refuse("'" + text + "': when= goes with kill and stop");
  }
  if (fault.kind == FaultKind::fill && text.find("learner=") != std::string::npos) {
    refuse("'" + text + "': a full disk is everybody's, leave learner= out");
  }
  if (fault.victims > 1 && fault.victim == PlannedFault::Victim::given) {
    refuse("'" + text + "': victims= goes with learner=any and learner=turn");
  }
  if (fault.step && fault.victim != PlannedFault::Victim::given) {
    refuse("'" + text + "': step= needs learner= with a number");
  }
  return fault;
}

}  // namespace

std::string to_string(FaultKind kind) { return kKinds[static_cast<int>(kind)]; }

std::string to_string(Moment moment) { return kMoments[static_cast<int>(moment)]; }

std::vector<PlannedFault> parse_chaos(const std::string& plan) {
  std::vector<PlannedFault> faults;
  std::istringstream entries(plan);
  for (std::string text; std::getline(entries, text, ';');) {
    if (auto fault = parse_entry(text)) faults.push_back(*fault);
  }
  return faults;
}

void require_targets(const std::vector<PlannedFault>& plan, int learners, int ranks_per_learner) {
  for (const PlannedFault& fault : plan) {
    if (fault.victim == PlannedFault::Victim::given && fault.learner >= learners) {
      refuse("there is no learner " + std::to_string(fault.learner) + "; they are 0 to " +
             std::to_string(learners - 1));
    }
    if (fault.victims > learners) {
      refuse("there are no " + std::to_string(fault.victims) + " learners to be victims, only " +
             std::to_string(learners));
    }
    if (fault.rank >= ranks_per_learner) {
      refuse("a learner has no rank " + std::to_string(fault.rank) + "; they are 0 to " +
             std::to_string(ranks_per_learner - 1));
    }
  }
}

StruckFaults struck_faults(const std::filesystem::path& events) {
  StruckFaults struck;
  std::ifstream file(events);
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"fault\":") == std::string::npos) continue;
    const auto row = nlohmann::json::parse(line, nullptr, false);
    const auto entry = "/fault/entry"_json_pointer;
    if (row.is_object() && row.contains(entry) && row[entry].is_string()) {
      ++struck[row[entry].get<std::string>()];
    }
  }
  return struck;
}

void require_kills_and_slowness(const std::vector<PlannedFault>& plan) {
  for (const PlannedFault& fault : plan) {
    if (fault.kind != FaultKind::kill && fault.kind != FaultKind::slow) {
      refuse(to_string(fault.kind) + " needs a syncer; without one there are kill and slow");
    }
    if (fault.moment != Moment::any) {
      refuse("when=" + to_string(fault.moment) + " needs a syncer; leave it out");
    }
  }
}

Chaos::Chaos(std::vector<PlannedFault> plan, StruckFaults struck) {
  for (auto& planned : plan) {
    Entry entry{planned, Random(planned.seed)};
    // An entry may stand there twice.
    std::int64_t& learners = struck[planned.entry];
    entry.done = planned.count < 0 ? 0 : std::min(planned.count, learners / planned.victims);
    entry.victims = static_cast<int>(entry.done) * planned.victims;
    learners -= entry.victims;
    if (planned.every) entry.next = entry.random.exponential(*planned.every);
    entries_.push_back(entry);
  }
}

std::vector<Fault> Chaos::due(double seconds, const std::vector<sync::LearnerView>& learners) {
  std::vector<Fault> faults;
  for (Entry& entry : entries_) {
    if (!is_due(entry, seconds, learners)) continue;
    const PlannedFault& planned = entry.planned;
    std::vector<int> victims;
    while (static_cast<int>(victims.size()) < planned.victims) {
      const auto victim = choose_victim(entry, learners, victims);
      if (!victim) break;
      victims.push_back(*victim);
    }
    if (static_cast<int>(victims.size()) < planned.victims) continue;
    for (const int victim : victims) {
      if (planned.kind == FaultKind::kill) {
        killed_[victim] = learners[static_cast<std::size_t>(victim)].incarnation;
      }
      faults.push_back({planned.kind, victim, planned.rank, planned.seconds, planned.factor,
                        planned.moment, planned.entry});
    }
    entry.victims += planned.victims;
    ++entry.done;
    if (planned.every) entry.next = seconds + entry.random.exponential(*planned.every);
  }
  return faults;
}

bool Chaos::can_be_hit(const PlannedFault& planned, const std::vector<sync::LearnerView>& learners,
                       int learner, const std::vector<int>& chosen) const {
  const auto& view = learners[static_cast<std::size_t>(learner)];
  const auto killed = killed_.find(learner);
  const bool right_moment =
      planned.moment != Moment::join || view.state == sync::LearnerState::joining;
  return sync::is_alive(view.state) && right_moment &&
         (killed == killed_.end() || killed->second != view.incarnation) &&
         std::find(chosen.begin(), chosen.end(), learner) == chosen.end();
}

bool Chaos::is_due(const Entry& entry, double seconds,
                   const std::vector<sync::LearnerView>& learners) const {
  const PlannedFault& planned = entry.planned;
  if (planned.count >= 0 && entry.done >= planned.count) return false;
  if (planned.time) return seconds >= *planned.time;
  if (planned.every) return seconds >= entry.next;
  const auto learner = static_cast<std::size_t>(planned.learner);
  return learner < learners.size() && learners[learner].step >= *planned.step;
}

std::optional<int> Chaos::choose_victim(Entry& entry,
                                        const std::vector<sync::LearnerView>& learners,
                                        const std::vector<int>& chosen) {
  const PlannedFault& planned = entry.planned;
  const int count = static_cast<int>(learners.size());
  if (planned.victim == PlannedFault::Victim::given) {
    const int learner = planned.learner;
    return learner < count && can_be_hit(planned, learners, learner, chosen)
               ? std::optional(learner)
               : std::nullopt;
  }
  const int first = planned.victim == PlannedFault::Victim::turn
                        ? (entry.victims + static_cast<int>(chosen.size())) % count
                        : static_cast<int>(entry.random.below(static_cast<std::uint64_t>(count)));
  for (int i = 0; i < count; ++i) {
    const int learner = (first + i) % count;
    if (can_be_hit(planned, learners, learner, chosen)) return learner;
  }
  return std::nullopt;
}

}  // namespace archipelago::runtime
