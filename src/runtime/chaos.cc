#include "runtime/chaos.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "core/error.h"

namespace archipelago::runtime {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ExitCode::configuration, "chaos: " + what);
}

FaultKind parse_kind(const std::string& word) {
  for (const FaultKind kind : {FaultKind::kill, FaultKind::stop, FaultKind::slow}) {
    if (word == to_string(kind)) return kind;
  }
  refuse("unknown fault '" + word + "'; there are kill, stop and slow");
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
  } else if (key == "seed") {
    fault.seed = parse_whole(key, text, std::uint64_t{0});
  } else {
    refuse("unknown word '" + key +
           "'; there are learner, rank, step, time, every, count, seconds, factor and seed");
  }
}

std::optional<PlannedFault> parse_entry(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  if (!(words >> word)) return std::nullopt;
  PlannedFault fault;
  fault.kind = parse_kind(word);
  std::int64_t count = 0;
  while (words >> word) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) refuse("'" + word + "' is not of the form key=value");
    set_word(fault, word.substr(0, equals), word.substr(equals + 1));
    if (word.starts_with("count=")) count = fault.count;
  }
  if (count > 0) fault.count = count;
  if (fault.step.has_value() + fault.time.has_value() + fault.every.has_value() != 1) {
    refuse("'" + text + "' needs exactly one of step=, time= and every=");
  }
  if (fault.step && fault.victim != PlannedFault::Victim::given) {
    refuse("'" + text + "': step= needs learner= with a number");
  }
  return fault;
}

bool alive(const sync::LearnerView& learner) {
  return learner.state == sync::LearnerState::joining ||
         learner.state == sync::LearnerState::active ||
         learner.state == sync::LearnerState::suspect;
}

}  // namespace

std::string to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::kill:
      return "kill";
    case FaultKind::stop:
      return "stop";
    case FaultKind::slow:
      return "slow";
  }
  return "?";
}

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
    if (fault.rank >= ranks_per_learner) {
      refuse("a learner has no rank " + std::to_string(fault.rank) + "; they are 0 to " +
             std::to_string(ranks_per_learner - 1));
    }
  }
}

Chaos::Chaos(std::vector<PlannedFault> plan) {
  for (auto& planned : plan) {
    Entry entry{planned, Random(planned.seed)};
    if (planned.every) entry.next = entry.random.exponential(*planned.every);
    entries_.push_back(entry);
  }
}

std::vector<Fault> Chaos::due(double seconds, const std::vector<sync::LearnerView>& learners) {
  std::vector<Fault> faults;
  for (Entry& entry : entries_) {
    if (!is_due(entry, seconds, learners)) continue;
    const auto victim = choose_victim(entry, learners);
    if (!victim) continue;
    const PlannedFault& planned = entry.planned;
    if (planned.kind == FaultKind::kill) {
      killed_[*victim] = learners[static_cast<std::size_t>(*victim)].incarnation;
    }
    faults.push_back({planned.kind, *victim, planned.rank, planned.seconds, planned.factor});
    ++entry.done;
    if (planned.every) entry.next = seconds + entry.random.exponential(*planned.every);
  }
  return faults;
}

bool Chaos::can_be_hit(const std::vector<sync::LearnerView>& learners, int learner) const {
  const auto& view = learners[static_cast<std::size_t>(learner)];
  const auto killed = killed_.find(learner);
  return alive(view) && (killed == killed_.end() || killed->second != view.incarnation);
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
                                        const std::vector<sync::LearnerView>& learners) {
  const int count = static_cast<int>(learners.size());
  if (entry.planned.victim == PlannedFault::Victim::given) {
    const int learner = entry.planned.learner;
    return learner < count && can_be_hit(learners, learner) ? std::optional(learner) : std::nullopt;
  }
  const int first = entry.planned.victim == PlannedFault::Victim::turn
                        ? entry.victims % count
                        : static_cast<int>(entry.random.below(static_cast<std::uint64_t>(count)));
  for (int i = 0; i < count; ++i) {
    const int learner = (first + i) % count;
    if (!can_be_hit(learners, learner)) continue;
    ++entry.victims;
    return learner;
  }
  return std::nullopt;
}

}  // namespace archipelago::runtime
