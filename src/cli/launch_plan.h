#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace archipelago::cli {

// How the ranks of a run are started.
struct LaunchPlan {
  int world = 1;                                   // MPI ranks
  std::vector<std::string> rank_hosts;             // host of each rank; empty: all on this one
  std::vector<std::string> command;                // mpirun, its flags, the program, its options
  std::map<std::string, std::string> environment;  // set for mpirun besides the launcher's own
};

// Ranks of a run: the syncer, its standbys, and the ranks of every learner's and spare's island;
// those of the learners alone where the method has no syncer.
int world_size(const config::RunConfig& config);

// What a rank plays at the start, in words: "the syncer", "learner 1", "rank 2 of spare 0".
std::string part_of_rank(const config::RunConfig& config, int rank);

// Places ranks on hosts: the syncer on the first, each standby on the next, then islands whole,
// each on the host that has the fewest ranks so far (ties: the earlier host).
std::vector<std::string> place_ranks(const config::RunConfig& config,
                                     std::span<const std::string> hosts);

// Which ranks play what on which host, a host a line. `hosts`: empty for this one.
std::string placement_text(const config::RunConfig& config, std::span<const std::string> hosts);

// The plan for `hosts` (empty or one: this host alone). `scratch` is a folder of the job's own on
// each host for what MPI shares between processes; `host_file` is where write_host_file() will put
// the placement. `program` is this program's path.
LaunchPlan make_plan(const config::RunConfig& config, std::span<const std::string> hosts,
                     const std::filesystem::path& program, const std::filesystem::path& scratch,
                     const std::filesystem::path& host_file);

// What `train` is told of being a rank of a guest, not of the run's own job.
inline constexpr char kGuestFlag[] = "--guest";

// How the ranks of a guest of the run are started, on this host or on those of the allocation that
// this process runs in. `words`: the options of `train`.
LaunchPlan make_guest_plan(const config::RunConfig& config, const std::vector<std::string>& words,
                           const std::filesystem::path& program,
                           const std::filesystem::path& scratch);

// One object: command, world, hosts, environment.
nlohmann::json to_json(const LaunchPlan& plan);

// Quoted where a shell would not take it as one plain word.
std::string shell_word(const std::string& word);

// The command as a shell reads it, one option a line.
std::string to_shell(const LaunchPlan& plan);

}  // namespace archipelago::cli
