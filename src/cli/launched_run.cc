#include "cli/launched_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "checkpoint/names.h"
#include "cli/held_lifeline.h"
#include "cli/job.h"
#include "cli/job_signs.h"
#include "cli/scratch.h"
#include "cli/start_watch.h"
#include "config/options.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/program.h"
#include "core/units.h"
#include "runtime/lifeline.h"
#include "runtime/refusal.h"
#include "runtime/roll_call.h"
#include "runtime/run_folder.h"

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kHostsTime{20};     // for a word with every host
constexpr double kStopTime = 30;                   // seconds for a start to see that it is to stop
constexpr double kLongestStandstill = 600;         // seconds until the run is started again
constexpr std::uintmax_t kSharedMemory = 1 << 18;  // bytes without which MPI's ranks stand still

struct RunEnd {
  int code = 0;
  bool wanted = false;                         // somebody asked it to end
  bool refused = false;                        // the ranks did not begin: nothing has changed
  bool mpirun_failed = false;                  // before any rank had begun
  bool by_file = false;                        // a user's file `stop`
  std::optional<nlohmann::json> summary = {};  // nothing where it did not get so far
};

// "" where the run did not get so far as to tell.
std::string at_percent(const fs::path& folder) {
  const auto status = nlohmann::json::parse(std::ifstream(folder / "status.json"), nullptr, false);
  const double budget = status.is_object() ? status.value("token_budget", 0.0) : 0;
  if (budget <= 0) return "";
  char text[64];
  std::snprintf(text, sizeof text, " at %.0f %% of the tokens",
                100 * status.value("tokens", 0.0) / budget);
  return text;
}

bool has_checkpoint_since(fs::file_time_type time, const fs::path& folder) {
  return std::ranges::any_of(checkpoint::list_global(folder / "checkpoints"),
                             [&](const checkpoint::NamedFile& file) {
                               std::error_code error;
                               const auto written = fs::last_write_time(file.path, error);
                               return !error && written >= time;
                             });
}

bool has_checkpoint(const fs::path& folder) {
  return has_checkpoint_since(fs::file_time_type::min(), folder);
}

std::string last_words(const nlohmann::json& summary, const config::RunConfig& config) {
  const std::string outcome = summary.value("outcome", "");
  if (outcome == "complete") {
    std::string text = "complete: " + summary.at("tokens").dump() + " tokens";
    const auto loss = summary.find("final_val_loss");
    if (loss != summary.end() && loss->is_number()) {
      text += ", validation loss " + loss_text(loss->get<double>());
    }
    const auto accuracy = summary.find("final_val_accuracy");
    if (accuracy == summary.end() || !accuracy->is_number()) return text;
    return text + ", accuracy " + fixed_text(100 * accuracy->get<double>(), 1) + " %";
  }
  const std::string reason = summary.value("reason", "?");
  std::string how = outcome == "stopped" ? "stopped" : "ended (" + reason + ")";
  if (outcome == "stopped" && reason == runtime::kStopOfUser) how += " by " + reason;
  std::string text = how + at_percent(config.out);
  if (!config::has_syncer(config)) return text;  // these methods cannot go on
  if (outcome == "diverged") text += "; try a lower train.lr";
  if (!has_checkpoint(config.out)) return text + "; there is no global checkpoint to go on from";
  return text + "; go on with: archipelago launch -- --out " + shell_word(config.out) + " --resume";
}

// Whether a rank may have ended with it, and mpirun by its example.
bool is_ours(int mpirun_code) {
  const auto codes = {ExitCode::usage,     ExitCode::bad_data, ExitCode::internal,
                      ExitCode::try_again, ExitCode::diverged, ExitCode::configuration};
  return std::ranges::count(codes, static_cast<ExitCode>(mpirun_code)) > 0;
}

// Where the run did not get as far as its summary.
int code_without_summary(int mpirun_code, const fs::path& folder) {
  if (is_ours(mpirun_code)) return mpirun_code;
  const ExitCode code = has_checkpoint(folder) ? ExitCode::try_again : ExitCode::internal;
  log_error(
      "the job ended without a word (mpirun: " + std::to_string(mpirun_code) + ")" +
      (code == ExitCode::try_again ? "; its checkpoints are there, go on with --resume" : ""));
  return static_cast<int>(code);
}

void write_host_file(const LaunchPlan& plan, const fs::path& file) {
  std::string lines;
  for (const std::string& host : plan.rank_hosts) lines += host + '\n';
  write_file(file, lines, Durability::unflushed);
}

// The options that say what a run trains, and for how long.
std::map<std::string, std::string> training_options(const config::RunConfig& config) {
  auto options = config::to_map(config);
  std::erase_if(options, [](const auto& option) {
    // The model's are filled in from the data when the run starts, and cannot change later.
    return option.first == "resume" || option.first == "out" || option.first.starts_with("model.");
  });
  return options;
}

// The summary of a run that has trained all that the same options ask for; nothing is left to do.
std::optional<nlohmann::json> summary_if_complete(const config::RunConfig& config) {
  const runtime::RunFolder folder(config.out);
  std::error_code error;
  if (!config.resume || !fs::exists(folder.summary(), error) ||
      !fs::exists(folder.config(), error)) {
    return std::nullopt;
  }
  auto summary = nlohmann::json::parse(read_file(folder.summary()), nullptr, false);
  if (!summary.is_object() || summary.value("outcome", "") != "complete") return std::nullopt;
  const auto before =
      config::parse_run_config(std::vector<std::string>{"--config=" + folder.config().string()});
  if (training_options(before) != training_options(config)) return std::nullopt;
  return summary;
}

// Whether this launch, and not an earlier one, wrote the status.
bool has_written_status(const fs::path& folder, fs::file_time_type started) {
  std::error_code error;
  const auto written = fs::last_write_time(runtime::RunFolder(folder).status(), error);
  return !error && written >= started;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// MPI waits for ever where its first segments find no room.
void require_shared_memory(const fs::path& folder) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  if (error || space.available >= kSharedMemory) return;
  throw Error(ExitCode::configuration,
              folder.string() + " has " + std::to_string(space.available >> 10) +
                  " KiB free, too little for what MPI's ranks share (" +
                  std::to_string(kSharedMemory >> 10) +
                  " at the very least): remove files there, or give it more (of a container: "
                  "--shm-size)");
}

// Asks the run to end, by the file `stop` in its folder, which the run itself makes when it starts.
class StopRequest {
 public:
  explicit StopRequest(const fs::path& folder) : folder_(folder) {}
  // What came too late must not stop the next start.
  ~StopRequest() {
    std::error_code error;
    if (written_) fs::remove(folder_ / "stop", error);
  }
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  void make() {
    if (!made_at_) {
      log_info("asked the run to write its checkpoints and end");
      made_at_ = now();
    }
    deliver();
  }
  // To be called again and again: there may have been no folder yet.
  void deliver() {
    if (!made_at_ || written_) return;
    std::error_code error;
    written_ = fs::exists(folder_ / "stop", error);  // a user's, who does not want it to go on
    if (written_) return;
    try {
      write_file(folder_ / "stop", std::string(runtime::kStopOfLauncher) + '\n',
                 Durability::unflushed);
      written_ = true;
    } catch (const std::system_error&) {
      // There will be a folder.
    }
  }
  bool made() const { return made_at_.has_value(); }
  // Whether it was, so many seconds ago or more.
  bool made_for(double seconds) const { return made_at_ && now() - *made_at_ > seconds; }

 private:
  fs::path folder_;
  std::optional<double> made_at_;
  bool written_ = false;
};

bool stopped_by_file(const nlohmann::json& summary, const config::RunConfig& config,
                     const StopRequest& request) {
  if (summary.value("outcome", "") != "stopped") return false;
  // Methods without a syncer do not say who asked.
  return config::has_syncer(config) ? summary.value("reason", "") == runtime::kStopOfUser
                                    : !request.made();
}

std::vector<std::string> parts(const config::RunConfig& config, const LaunchPlan& plan) {
  std::vector<std::string> all;
  for (int rank = 0; rank < plan.world; ++rank) {
    all.push_back(part_of_rank(config, rank));
    if (!plan.rank_hosts.empty()) {
      all.back() += " on " + plan.rank_hosts[static_cast<std::size_t>(rank)];
    }
  }
  return all;
}

RunEnd run_once(const config::RunConfig& config, const std::vector<std::string>& hosts,
                const Scratch& scratch, double start_seconds) {
  const fs::path folder = config.out;
  const LaunchPlan plan = plan_of(config, hosts);
  if (!plan.rank_hosts.empty()) write_host_file(plan, scratch.host_file());
  const Summary summary(folder);
  StopRequest stop(folder);
  runtime::forget_refusal(scratch.path());
  const fs::path roll_in_run = runtime::roll_in_run(folder, scratch.path());
  remove_left_behind(roll_in_run);
  StartWatch start(hosts.empty() ? runtime::roll_in_scratch(scratch.path()) : roll_in_run,
                   parts(config, plan), runtime::RunFolder(folder).status(), start_seconds);
  // Several syncers have no use for one: where a host is lost, one of them is.
  std::optional<HeldLifeline> lifeline;
  if (hosts.size() > 1 && config::has_syncer(config) && config.sync.syncers == 1) {
    remove_left_behind(runtime::lifeline_file(folder, scratch.path()));
    lifeline.emplace(folder, scratch.path());
  }
  Job job(plan.command, plan.environment);
  const SyncerWatch syncer(folder);
  RanksWatch ranks(job.pid());
  StandstillWatch standstill(folder);
  bool over = false;
  // Asked to stop, it has had time to hear of it, and nothing to lose.
  const auto hangs_at_start = [&] { return stop.made_for(kStopTime) && !start.is_through(); };
  const auto stands_still = [&] {
    return standstill.seconds() >= (stop.made_for(kStopTime) ? kStopTime : kLongestStandstill);
  };
  const auto is_over = [&] {
    stop.deliver();
    start.look(now());
    standstill.look(now());
    over = over || hangs_at_start() || stands_still() || summary.is_new() ||
           !start.missing().empty() || syncer.is_dead() || runtime::refusal_in(scratch.path()) ||
           (plan.rank_hosts.empty() && ranks.are_gone());
    if (lifeline && over) lifeline->release();
    if (lifeline) lifeline->beat(now());
    return over;
  };
  const auto goes_on = [&] {
    return lifeline && !is_over() && start.is_through() && lifeline->run_goes_on(now());
  };
  const JobEnd end = job.wait({is_over, [&](int) { stop.make(); }, goes_on});
  if (lifeline) lifeline->release();
  // mpirun removes its folder itself unless it was killed.
  std::error_code error;
  fs::remove_all(fs::temp_directory_path(error) / ("ompi." + std::to_string(job.pid())), error);
  if (const auto said = summary.read()) {
    return {.code = said->at("exit_code").get<int>(),
            .wanted = stop.made() || (said->value("outcome", "") == "stopped" &&
                                      said->value("reason", "") != runtime::kLauncherGone),
            .by_file = stopped_by_file(*said, config, stop),
            .summary = said};
  }
  if (stands_still()) {
    log_error("the job is ended: " + standstill.syncer() + " gave no sign of life for " +
              seconds_text(standstill.seconds()));
    return {.code = static_cast<int>(ExitCode::try_again), .wanted = stop.made()};
  }
  if (end.interrupted || hangs_at_start()) {
    return {.code = static_cast<int>(ExitCode::try_again), .wanted = true};
  }
  if (const auto code = runtime::refusal_in(scratch.path())) {
    return {.code = *code, .wanted = stop.made(), .refused = true};
  }
  if (!start.missing().empty()) {
    log_error("the start waits in vain: " + start.missing());
    return {.code = static_cast<int>(ExitCode::try_again), .wanted = stop.made()};
  }
  if (end.code != 0 && !is_ours(end.code) && !start.anybody_came()) {
    log_error("mpirun failed (" + std::to_string(end.code) + ") before any rank began");
    return {
        .code = static_cast<int>(ExitCode::internal), .wanted = stop.made(), .mpirun_failed = true};
  }
  return {.code = code_without_summary(end.code, folder), .wanted = stop.made()};
}

// Runs a command under mpirun, a process on each of the hosts, for a limited time; whether it
// succeeded. Sets `asked` when this process is asked to end meanwhile.
bool run_on_each(const std::vector<std::string>& hosts, const std::vector<std::string>& command,
                 bool& asked) {
  std::string list;
  for (const std::string& host : hosts) list += (list.empty() ? "" : ",") + host + ":1";
  std::vector<std::string> words = {ARCHIPELAGO_MPI_PREFIX "/bin/mpirun", "--host", list,
                                    "--map-by", "node"};
  words.insert(words.end(), command.begin(), command.end());
  const auto deadline = std::chrono::steady_clock::now() + kHostsTime;
  Job job(words, {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}},
          Errors::dropped);
  const auto is_over = [&] { return asked || std::chrono::steady_clock::now() > deadline; };
  return job.wait({is_over, [&](int) { asked = true; }}).code == 0;
}

// Those of the hosts that a process can be started on.
std::vector<std::string> answering(const std::vector<std::string>& hosts, bool& asked) {
  std::vector<std::string> left;
  for (const std::string& host : hosts) {
    if (run_on_each({host}, {"true"}, asked)) {
      left.push_back(host);
    } else if (!asked) {
      log_warning("host " + host + " does not answer; going on without it");
    }
  }
  return left;
}

}  // namespace

std::vector<std::string> allocated_hosts() {
  const char* const nodes = std::getenv("SLURM_JOB_NUM_NODES");
  if (nodes == nullptr || std::atoi(nodes) < 2) return {};
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen("scontrol show hostnames", "r"),
                                                   ::pclose);
  std::vector<std::string> hosts;
  std::array<char, 1024> line{};
  while (pipe && std::fgets(line.data(), static_cast<int>(line.size()), pipe.get()) != nullptr) {
    std::string host(line.data());
    while (!host.empty() && std::isspace(static_cast<unsigned char>(host.back())) != 0)
      host.pop_back();
    if (!host.empty()) hosts.push_back(host);
  }
  if (hosts.empty()) {
    throw Error(ExitCode::configuration,
                "`scontrol show hostnames` names no host of this allocation; name them by --hosts");
  }
  return hosts;
}

LaunchPlan plan_of(const config::RunConfig& config, const std::vector<std::string>& hosts) {
  const fs::path scratch = Scratch::name();
  return make_plan(config, hosts, program_file(), scratch, scratch / "hosts");
}

int run_with_restarts(config::RunConfig config, std::vector<std::string> hosts,
                      const LaunchRules& rules) {
  // One that comes between two starts is for the next; one behind the last changes no exit code.
  hold_signals();
  // The job's command line holds every option; what a rank's environment says must not add to it.
  config::clear_environment();
  // A signal to this launcher must not stop the run of another one.
  runtime::RunFolder(config.out).require_unused();
  runtime::RunFolder(config.out).require_no_emulation();
  if (const auto summary = summary_if_complete(config)) {
    log_info("already " + last_words(*summary, config) +
             "; to train on, give a higher --train.steps");
    return 0;
  }
  ::setenv("HOME", "/", 0);  // mpirun does not start without one
  const Scratch scratch;
  require_shared_memory(scratch.path());
  const std::vector<std::string> all_hosts = hosts;
  const auto first_start = fs::file_time_type::clock::now();
  int failures = 0;    // since the newest checkpoint
  bool asked = false;  // to end, between two starts
  RunEnd end;
  while (true) {
    const auto started = fs::file_time_type::clock::now();
    end = run_once(config, hosts, scratch, rules.start_seconds);
    const bool may_go_on = end.mpirun_failed || end.code == static_cast<int>(ExitCode::try_again);
    if (end.wanted || !may_go_on) break;
    if (!config::has_syncer(config) && has_written_status(config.out, first_start)) break;
    failures = has_checkpoint_since(started, config.out) ? 1 : failures + 1;
    if (failures > rules.restarts) break;
    if (all_hosts.size() > 1) hosts = answering(all_hosts, asked);
    if (asked || (all_hosts.size() > 1 && hosts.empty())) break;
    // Before that, what is in the folder may be another run, which only its owner may go on with.
    config.resume = config.resume || has_written_status(config.out, first_start);
    log_warning(!has_written_status(config.out, started) ? "the start failed; trying again"
                : has_checkpoint(config.out)
                    ? "the run failed as a whole; starting it again from its newest checkpoint"
                    : "the run failed as a whole, before its first global checkpoint; starting it "
                      "again from the beginning");
  }
  // Ranks that were killed on other hosts have left their files there.
  if (hosts.size() > 1) run_on_each(hosts, {"rm", "-rf", Scratch::name().string()}, asked);
  if (end.summary) log_info(last_words(*end.summary, config));
  if (!end.refused && has_written_status(config.out, first_start)) {
    runtime::RunFolder(config.out).mark_as_failed();
  }
  return end.by_file ? rules.stop_code : end.code;
}

}  // namespace archipelago::cli
