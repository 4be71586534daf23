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

// At most 146 years, longer than any run: the sum with a time within a run is within Nanoseconds.
Nanoseconds to_nanoseconds(double seconds);

// Part of the cluster that trains as one: a learner's chips, or all of them.
struct SiteSettings {
  int number = 0;         // of the site
  double first_chip = 0;  // of its chips in the cluster's order, which racks and traces go by
  std::int64_t slices = 1;
  bool elastic = true;           // goes on with what is left of its slices
  Nanoseconds step = 0;          // of an inner step
  std::int64_t step_tokens = 0;  // with all slices
  Duration life{1, 1, 1};        // of a chip, where it is not exponential
  Duration back{1, 1, 1};        // until a failed slice is back
};

// A failure of a trace file.
struct TracedFailure {
  double time;
  double chip;
  double back;
};
// Of the file, or none where `path` is empty; its chips are 0 to below `chips`. Throws
// Error(bad_data) naming the line that is wrong, std::system_error where it cannot be read.
std::vector<TracedFailure> read_trace(const std::string& path, double chips);

// A time in which the site trains without interruption.
struct Stretch {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  double capacity = 1;           // share of the slices in use
  std::int64_t steps = 0;        // completed by the site before it
  std::int64_t tokens = 0;       // trained by the site before it
  std::int64_t step_tokens = 0;  // of one step in it
  Nanoseconds step = 0;          // time of one step in it
  std::int64_t undone = 0;       // of its steps, by the failure at its end
  bool dies = false;             // the whole site is gone at its end

  // Complete steps in it that last.
  std::int64_t done() const { return (end - begin) / step - undone; }
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
    double back = 0;  // of a death: when the site is there again
  };
  // Hosts, racks or regions of this site, or the one that the whole site lies in.
  struct DomainState {
    Domain domain;
    std::int64_t slices;  // of one
    bool holds_site;
    Random random;  // the same for all sites that one domain holds
    double next;    // failure
  };
  // Lives of chips that are not exponential: those that have not failed yet are alike, and the
  // first of them to fail is drawn at once; each renewed one has a time of its own.
  struct Ages {
    double untouched;   // chips that have not failed
    double next_first;  // failure of one of them
    double hazard;      // cumulative, at the last one's failure
    std::priority_queue<double, std::vector<double>, std::greater<>> renewed;  // next failures
  };

  void add_domain(const Domain& domain, std::uint64_t seed);
  void extend();
  Change next_change();
  Change lose_domain(DomainState& domain);
  Change lose_slice(double time, bool spot);
  void apply(const Change& change);
  double until(double mean);  // exponential
  void plan_failure(double now);
  void plan_first_of_ages();
  void plan_domain(DomainState& domain, double now);
  void plan_spot(double now);
  double chips() const;

  Scenario scenario_;
  SiteSettings settings_;
  Random random_;
  std::vector<TracedFailure> trace_;  // of this site's chips
  std::size_t traced_ = 0;
  std::priority_queue<Return, std::vector<Return>, std::greater<>> returns_;
  double next_failure_;
  double next_spot_;
  std::optional<Ages> ages_;
  std::vector<DomainState> domains_;
  std::int64_t available_;
  std::optional<double> waiting_until_;  // for a stall to take returned slices in
  double now_ = 0;                       // up to which changes have been taken
  std::deque<Stretch> stretches_;
  std::size_t cursor_ = 0;
};

// Seconds of an inner step, with its part of the writing of checkpoints. `place`: 0 for the fastest
// learner to 1 for the slowest.
double step_seconds_of(const Scenario& scenario, double place);

// Tokens of one step of one of `learners` equal parts of the cluster.
std::int64_t step_tokens_of(const Scenario& scenario, int learners);

// What the link of a learner does to a fragment.
struct SiteLink {
  Nanoseconds latency;
  Nanoseconds fragment_time;  // on the link
};
SiteLink site_link(const Scenario& scenario, int learner);

// The cluster in `learners` equal parts, and `spares` more of the same size.
std::vector<Site> make_sites(const Scenario& scenario, int learners, int spares, bool elastic,
                             std::uint64_t seed);

}  // namespace archipelago::simulate
