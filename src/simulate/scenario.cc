#include "simulate/scenario.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>

#include "core/error.h"

namespace archipelago::simulate {

config::Option numbers(const std::string& name, std::vector<double>& values, double high,
                       const std::string& help) {
  const auto get = [&values] {
    std::string list;
    for (double value : values) {
      if (!list.empty()) list += ',';
      list += config::real("", value, 0, config::kNoLimit, "").get();
    }
    return list;
  };
  const auto set = [&values, high](std::string list) {
    std::erase(list, ' ');
    std::vector<double> read;
    std::istringstream stream(list + ",");
    for (std::string part; std::getline(stream, part, ',');) {
      config::real("", read.emplace_back(), 0, high, "").set(part);
    }
    values = std::move(read);
  };
  return {name, "LIST", help, get(), set, get};
}

namespace {

using config::integer;
using config::kNoLimit;
using config::positive;
using config::real;
using config::text;

constexpr double kYears = 1e12;  // seconds: longer than any run

constexpr std::array kMethods = {Method::data_parallel, Method::elastic, Method::diloco,
                                 Method::streaming_diloco, Method::decoupled};

void append(std::vector<config::Option>& all, std::vector<config::Option> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<config::Option> cluster_options(Cluster& c) {
  return {
      positive("cluster.chips", c.chips, 1e9, "chips of the whole cluster"),
      positive("cluster.slice", c.slice, 1e9, "chips that fail and come back together"),
      real("cluster.chip_watts", c.chip_watts, 0, 1e6, "of a chip that trains"),
      real("cluster.idle_watts", c.idle_watts, 0, 1e6, "of a chip that is stalled"),
      real("cluster.chip_hour_price", c.chip_hour_price, 0, 1e6, "money a chip and hour"),
  };
}

std::vector<config::Option> failure_options(Failure& f) {
  return {
      positive("failure.mtbf_hours", f.mtbf_hours, kYears, "mean time between failures of a chip"),
      positive("failure.shape", f.shape, 100, "Weibull shape of that time; 1: exponential"),
      real("failure.age_hours", f.age_hours, 0, kYears, "age of all chips at the start"),
      text("failure.trace", f.trace, "FILE", "CSV of failures instead: time_s,chip,return_s"),
      positive("failure.return_seconds", f.return_seconds, kYears,
               "mean time until a failed slice is back"),
      positive("failure.return_shape", f.return_shape, 100, "Weibull shape of that time"),
      positive("failure.return_power", f.return_power, 100, "and the Weibull's exponent"),
      real("failure.spot_share", f.spot_share, 0, 1, "share of the slices that is preemptible"),
      positive("failure.spot_hours", f.spot_hours, kYears, "mean time until one is taken"),
      positive("failure.spot_return_hours", f.spot_return_hours, kYears,
               "mean time until it is given back"),
  };
}

std::vector<config::Option> domain_options(const std::string& name, Domain& d) {
  return {
      real(name + ".size", d.size, 0, 1e9, "chips of one, which fail as one; 0: none do"),
      positive(name + ".mtbf_hours", d.mtbf_hours, kYears, "mean time between failures of one"),
      positive(name + ".return_seconds", d.return_seconds, kYears, "mean time until it is back"),
  };
}

std::vector<config::Option> restart_options(Restart& r, Checkpoint& c) {
  return {
      real("restart.down", r.down, 0, kYears, "stall when capacity is lost, seconds"),
      real("restart.up", r.up, 0, kYears, "stall when it is taken in again"),
      real("restart.up_wait", r.up_wait, 0, kYears,
           "time that returned slices wait for a stall that happens anyway"),
      real("restart.rigid_down", r.rigid_down, 0, kYears, "restart.down without elasticity"),
      real("restart.rigid_up", r.rigid_up, 0, kYears, "restart.up without elasticity"),
      real("restart.join", r.join, 0, kYears, "until a lost learner's next life trains"),
      real("checkpoint.every", c.every, 0, kYears, "seconds between two; 0: none"),
      real("checkpoint.seconds", c.seconds, 0, kYears, "stall while one is written"),
  };
}

std::vector<config::Option> train_options(Train& t) {
  return {
      positive("train.days", t.days, 5e4, "simulated time"),
      real("train.step_seconds", t.step_seconds, 1e-6, 1e6, "of an inner step without failures"),
      real("train.jitter", t.jitter, 0, 1, "standard deviation of a step's time, as a share"),
      real("train.spread", t.spread, 0, 100,
           "the slowest learner's steps take 1 + this times the fastest's"),
      positive("train.batch_tokens", t.batch_tokens, 1e15, "tokens of a step over all chips"),
  };
}

std::vector<config::Option> model_and_link_options(Model& m, Link& l) {
  return {
      positive("model.parameters", m.parameters, 1e16, "parameters"),
      positive("model.bits", m.bits, 64, "bits of an element on the wire"),
      positive("model.gradient_bits", m.gradient_bits, 64,
               "bits of an element of data-parallel's gradients"),
      integer("model.layers", m.layers, 1, 100'000, "layers: buckets of an exchange"),
      numbers("link.gbps", l.gbps, 1e9,
              "Gbit/s of a learner's link; 0: no limit; a list: one for each region"),
      numbers("link.latency", l.latency, 1e4, "seconds one way; a list: one for each region"),
  };
}

std::vector<config::Option> sync_options(Sync& s) {
  return {
      integer("sync.learners", s.learners, 1, 4096, "learners M"),
      positive("sync.interval", s.interval, 1e9, "H, inner steps between two merges of a fragment"),
      integer("sync.fragments", s.fragments, 1, 100'000, "fragments P"),
      real("sync.overlap", s.overlap, 0, 1e9, "tau, inner steps that an exchange may take"),
      integer("sync.quorum", s.quorum, 1, 4096, "K, learners that a round waits for"),
      real("sync.grace", s.grace, 0, 1, "gamma, share of the slack that the grace window uses"),
      positive("sync.suspect", s.suspect, kYears, "seconds without a report until suspected"),
      positive("sync.expel", s.expel, kYears, "seconds without a report until replaced"),
      integer("sync.spares", s.spares, 0, 4096, "sleeping islands besides the cluster's chips"),
      real("sync.tick_delay", s.tick_delay, 0, 1e4,
           "seconds by which the syncer sees a time limit late"),
      real("sync.merge_seconds", s.merge_seconds, 0, 1e4, "time of a merge at the syncer"),
  };
}

}  // namespace

std::vector<config::Option> scenario_options(Scenario& s) {
  std::vector<config::Option> all = {
      text("methods", s.methods, "LIST",
           "of data-parallel, elastic, diloco, streaming-diloco, decoupled"),
      integer("seed", s.seed, 0, 1LL << 62, "of everything that is random"),
      integer("seeds", s.seeds, 1, 100'000, "runs with different seeds"),
  };
  append(all, cluster_options(s.cluster));
  append(all, failure_options(s.failure));
  append(all, domain_options("host", s.host));
  append(all, domain_options("rack", s.rack));
  append(all, domain_options("region", s.region));
  append(all, restart_options(s.restart, s.checkpoint));
  append(all, train_options(s.train));
  append(all, model_and_link_options(s.model, s.link));
  append(all, sync_options(s.sync));
  return all;
}

LinkSpeed link_of(const Scenario& scenario, int learner, int learners) {
  const Link& link = scenario.link;
  const std::size_t regions = std::max(link.gbps.size(), link.latency.size());
  const std::size_t region =
      static_cast<std::size_t>(learner) * regions / static_cast<std::size_t>(learners);
  return {link.gbps[region % link.gbps.size()], link.latency[region % link.latency.size()]};
}

LinkSpeed slowest_link(const Scenario& scenario) {
  LinkSpeed slowest{0, 0};
  for (const double gbps : scenario.link.gbps) {
    if (gbps > 0 && (slowest.gbps == 0 || gbps < slowest.gbps)) slowest.gbps = gbps;
  }
  for (const double latency : scenario.link.latency) {
    slowest.latency = std::max(slowest.latency, latency);
  }
  return slowest;
}

const char* name_of(Method method) {
  constexpr const char* kNames[] = {"data-parallel", "elastic", "diloco", "streaming-diloco",
                                    "decoupled"};
  return kNames[static_cast<int>(method)];
}

std::vector<Method> methods_of(const Scenario& scenario) {
  std::vector<Method> methods;
  std::istringstream list(scenario.methods);
  for (std::string name; std::getline(list, name, ',');) {
    const std::size_t before = methods.size();
    for (const Method method : kMethods) {
      if (name == name_of(method)) methods.push_back(method);
    }
    if (methods.size() > before) continue;
    std::vector<std::string> known;
    for (const Method method : kMethods) known.emplace_back(name_of(method));
    throw Error(ExitCode::configuration, "methods: there is no '" + name + "'; did you mean '" +
                                             config::nearest(name, known) + "'?");
  }
  if (methods.empty()) throw Error(ExitCode::configuration, "methods names no method");
  return methods;
}

void check(const Scenario& s) {
  methods_of(s);
  std::string problems;
  const auto require = [&](bool holds, const std::string& problem) {
    if (!holds) problems += (problems.empty() ? "" : "; ") + problem;
  };
  require(s.cluster.slice <= s.cluster.chips, "cluster.slice must not be above cluster.chips");
  require(s.cluster.slice * static_cast<double>(s.sync.learners) <= s.cluster.chips,
          "a learner must have at least one slice: cluster.chips, cluster.slice and sync.learners "
          "do not fit");
  require(s.sync.suspect < s.sync.expel, "sync.suspect must be below sync.expel");
  require(s.sync.quorum <= s.sync.learners, "sync.quorum must not be above sync.learners");
  if (!problems.empty()) throw Error(ExitCode::configuration, problems);
}

}  // namespace archipelago::simulate
