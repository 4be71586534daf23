#pragma once

#include <deque>
#include <optional>
#include <queue>
#include <vector>

#include "core/random.h"
#include "simulate/distributions.h"
#include "simulate/scenario.h"
#include "sync/messages.h"

namespace archipelago::simulate {

using sync::Nanoseconds;

Nanoseconds to_nanoseconds(double seconds);

// Part of the cluster that trains as one: a learner's chips, or all of them.
struct SiteSettings {
  int number = 0;         // of the site
  double first_chip = 0;  // of its chips in the cluster's order, which racks and traces go by
  std::int64_t slices = 1;
  bool elastic = true;           // goes on with what is left of its slices
  Nanoseconds step = 0;          // of an inner step
  std::int64_t step_tokens = 0;  // with all slices
};

// A failure of a trace file.
struct TracedFailure {
  double time;
  double chip;
  double back;
};
std::vector<TracedFailure> read_trace(const std::string& path);

// A time in which the site trains without interruption.
struct Stretch {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  double capacity = 1;           // share of the slices in use
  std::int64_t steps = 0;        // completed by the site before it
  std::int64_t tokens = 0;       // trained by the site before it
  std::int64_t step_tokens = 0;  // of one step in it
  Nanoseconds step = 0;          // time of one step in it
  double reported = 0;           // step time that its learner tells, seconds; 0: that of a step
  bool dies = false;             // the whole site is gone at its end
};

// The end of an inner step.
struct Boundary {
  Nanoseconds time;
  std::int64_t steps;
  std::int64_t tokens;
};

// What befalls a site over time; none of it depends on what the site is used for. Stretches are
// made as far as they are asked for.
class Site {
 public:
  Site(const Scenario& scenario, const SiteSettings& settings,
       const std::vector<TracedFailure>& trace, std::uint64_t seed);

  // A site of a run that has been: its stretches in order, of which the last goes on for ever.
  explicit Site(std::vector<Stretch> recorded);

  // The first stretch that ends after `time`. Times may go back as far as forget() allows.
  const Stretch& stretch_after(Nanoseconds time);

  // The first end of a step after `time`; nothing where the site dies before.
  std::optional<Boundary> boundary_after(Nanoseconds time);

  // Steps and tokens completed by `time`.
  Boundary done_by(Nanoseconds time);

  // The last end of a step in the stretch; its begin where it holds none.
  Nanoseconds last_boundary(const Stretch& stretch) const;

  // When the site dies next after `time`, or a time after `limit`. Looks ahead only where sites of
  // this scenario can die.
  Nanoseconds next_death(Nanoseconds time, Nanoseconds limit);

  // Nothing before `time` will be asked for.
  void forget(Nanoseconds time);

 private:
  struct Return {
    double time;
    std::int64_t slices;
    bool operator>(const Return& other) const { return time > other.time; }
  };
  struct Change {
    enum class Kind { loss, gain, waited, death };
    Kind kind;
    double time;
    std::int64_t slices;
  };

  void extend();
  Change next_change();
  void apply(const Change& change);
  double until(double mean);  // exponential
  void plan_failure(double now);
  void plan_domain(double now);
  void plan_spot(double now);

  Scenario scenario_;
  SiteSettings settings_;
  bool recorded_ = false;
  Random random_;
  Random domain_random_;  // the same for all sites of a domain
  Duration return_;
  std::vector<TracedFailure> trace_;  // of this site's chips
  std::size_t traced_ = 0;
  std::priority_queue<Return, std::vector<Return>, std::greater<>> returns_;
  double next_failure_;
  double next_domain_;
  double next_spot_;
  bool domain_is_site_ = false;
  std::int64_t domain_slices_ = 0;
  std::int64_t available_;
  std::optional<double> waiting_until_;  // for a stall to take returned slices in
  double now_ = 0;                       // up to which changes have been taken
  std::deque<Stretch> stretches_;
  std::size_t cursor_ = 0;
};

// Tokens of one step of one of `learners` equal parts of the cluster.
std::int64_t step_tokens_of(const Scenario& scenario, int learners);

// The cluster in `learners` equal parts, and `spares` more of the same size.
std::vector<Site> make_sites(const Scenario& scenario, int learners, int spares, bool elastic,
                             std::uint64_t seed);

}  // namespace archipelago::simulate
