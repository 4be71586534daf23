#include "cli/launch_plan.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "config/options.h"
#include "core/file.h"

namespace archipelago::cli {
namespace {

// docs/design.md, "The exchange" and "Failure", say what the transport settings are for: one-sided
// puts by osc rdma, the only point-to-point layer that outlives a failure (ob1), and TCP that sends
// rather than puts, since its own puts deadlock when a peer dies.
const std::vector<std::string> kTransport = {
    "--with-ft", "ulfm", "--bind-to", "none", "--mca",       "osc",   "rdma",          "--mca",
    "pml",       "ob1",  "--mca",     "btl",  "sm,tcp,self", "--mca", "btl_tcp_flags", "send"};

void append(std::vector<std::string>& all, std::vector<std::string> more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Without the ranks and what they run.
LaunchPlan plan_for(int world, const std::filesystem::path& scratch) {
  LaunchPlan plan;
  plan.world = world;
  // Idle OpenMP workers sleep: other ranks need the cores.
  plan.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                      {"OMP_WAIT_POLICY", "passive"}};
  plan.command = {ARCHIPELAGO_MPI_PREFIX "/bin/mpirun"};
  append(plan.command, kTransport);
  if (!scratch.empty()) {
    append(plan.command, {"--mca", "btl_sm_backing_directory", scratch.string(), "--mca",
                          "osc_rdma_backing_directory", scratch.string()});
  }
  return plan;
}

}  // namespace

std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./,:=+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

int world_size(const config::RunConfig& config) {
  return config::syncers_of(config) + config::islands_of(config) * config.sync.ranks_per_learner;
}

std::string part_of_rank(const config::RunConfig& config, int rank) {
  const int syncers = config::syncers_of(config);
  if (rank == 0 && syncers > 0) {
    return config::has_coordinator(config) ? "the coordinator" : "the syncer";
  }
  if (rank < syncers) {
    return (config.sync.syncers > 1 ? "syncer " : "standby ") + std::to_string(rank);
  }
  const int ranks = config.sync.ranks_per_learner;
  const int island = (rank - syncers) / ranks;
  const int in_island = (rank - syncers) % ranks;
  const int learners = config.sync.learners;
  std::string name = island < learners ? "learner " + std::to_string(island)
                                       : "spare " + std::to_string(island - learners);
  return in_island == 0 ? name : "rank " + std::to_string(in_island) + " of " + name;
}

std::vector<std::string> place_ranks(const config::RunConfig& config,
                                     std::span<const std::string> hosts) {
  std::vector<int> load(hosts.size(), 0);
  std::vector<std::string> placed;
  const auto place = [&](std::size_t host, int ranks) {
    load[host] += ranks;
    placed.insert(placed.end(), static_cast<std::size_t>(ranks), hosts[host]);
  };
  for (int syncer = 0; syncer < config::syncers_of(config); ++syncer) {
    place(static_cast<std::size_t>(syncer) % hosts.size(), 1);
  }
  for (int island = 0; island < config::islands_of(config); ++island) {
    const auto least = std::ranges::min_element(load);
    place(static_cast<std::size_t>(least - load.begin()), config.sync.ranks_per_learner);
  }
  return placed;
}

std::string placement_text(const config::RunConfig& config, std::span<const std::string> hosts) {
  const std::vector<std::string> here = {host_name()};
  const auto placed = place_ranks(config, hosts.empty() ? std::span(here) : hosts);
  const auto world = static_cast<int>(placed.size());
  std::string text = "ranks, " + std::to_string(world) + " in all:\n";
  for (const std::string& host : hosts.empty() ? std::span(here) : hosts) {
    std::string line;
    for (int rank = 0; rank < world; ++rank) {
      if (placed[static_cast<std::size_t>(rank)] != host) continue;
      const bool leads = rank >= config::syncers_of(config);
      const int last = rank + (leads ? config.sync.ranks_per_learner : 1) - 1;
      line +=
          (line.empty() ? " " : ", ") + part_of_rank(config, rank) + " (" + std::to_string(rank);
      if (last > rank) line += " to " + std::to_string(last);
      line += ')';
      rank = last;
    }
    text += "  " + host + ':' + (line.empty() ? " nothing" : line) + '\n';
  }
  return text;
}

LaunchPlan make_plan(const config::RunConfig& config, std::span<const std::string> hosts,
                     const std::filesystem::path& program, const std::filesystem::path& scratch,
                     const std::filesystem::path& host_file) {
  LaunchPlan plan = plan_for(world_size(config), scratch);
  if (hosts.size() > 1) {
    plan.rank_hosts = place_ranks(config, hosts);
    // Slurm allows no more ranks on a host than tasks, of which a lost host took its own along.
    append(plan.command, {"--hostfile", host_file.string(), "--map-by", "seq:OVERSUBSCRIBE"});
  } else {
    append(plan.command, {"--oversubscribe"});
    if (!hosts.empty()) {
      append(plan.command, {"--host", hosts.front() + ':' + std::to_string(plan.world)});
    }
  }
  append(plan.command, {"-n", std::to_string(plan.world), program.string(), "train"});
  // The run's own config.ini would fill in what was given as empty, which no word below can say.
  if (config.resume) append(plan.command, {"--config=/dev/null"});
  for (const auto& [name, value] : config::to_map(config)) {
    if (!value.empty()) append(plan.command, {"--" + name + '=' + value});
  }
  return plan;
}

LaunchPlan make_guest_plan(const config::RunConfig& config, const std::vector<std::string>& words,
                           const std::filesystem::path& program,
                           const std::filesystem::path& scratch) {
  LaunchPlan plan = plan_for(config.sync.ranks_per_learner, scratch);
  append(plan.command, {"--oversubscribe", "-n", std::to_string(plan.world), program.string(),
                        "train", kGuestFlag});
  append(plan.command, words);
  return plan;
}

nlohmann::json to_json(const LaunchPlan& plan) {
  return {{"command", plan.command},
          {"world", plan.world},
          {"hosts", plan.rank_hosts},
          {"environment", plan.environment}};
}

std::string to_shell(const LaunchPlan& plan) {
  std::string text;
  for (const auto& [name, value] : plan.environment) text += name + '=' + shell_word(value) + ' ';
  for (std::size_t i = 0; i < plan.command.size(); ++i) {
    const std::string& word = plan.command[i];
    if (i > 0) text += word.starts_with("-") ? " \\\n  " : " ";
    text += shell_word(word);
  }
  return text + '\n';
}

}  // namespace archipelago::cli
