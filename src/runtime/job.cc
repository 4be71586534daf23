#include "runtime/job.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "checkpoint/names.h"
#include "config/hint.h"
#include "config/options.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "runtime/chaos.h"
#include "runtime/checkpoint_room.h"
#include "runtime/checkpoint_words.h"
#include "runtime/device.h"
#include "runtime/machine_settings.h"
#include "runtime/resources.h"
#include "runtime/start.h"

namespace archipelago::runtime {
namespace {

void open_data(Job& job, const config::RunConfig& config) {
  job.dataset = data::open_dataset(config.data.path, usual_kind(config.model));
  config::RunConfig fitted = config;
  fitted.model = fit_model(config.model, *job.dataset, config.data.path);
  job.setup = make_setup(fitted);
  take_note_of(*job.setup, *job.dataset, config.data.path);
}

// What learners read when they begin has to be there now. Adds its digests to `description`.
void check_own_data(Setup& setup, Description& description) {
  for (const auto& [learner, options] : setup.config.learners) {
    if (!options.contains("data.path")) continue;
    const std::string& path = options.at("data.path");
    if (description.contains("digest of " + path)) continue;  // seen already
    const auto dataset = data::open_dataset(path, usual_kind(setup.config.model));
    fit_model(setup.config.model, *dataset, path);
    take_note_of(setup, *dataset, path);
    description["digest of " + path] = to_hex(dataset->digest());
  }
}

void check_options_and_data(Job& job, const config::RunConfig& config) {
  job.layout = make_layout(config, job.session.size());
  if (job.layout->island_of(job.session.rank()) >= 0) require_device(config);
  const auto plan = parse_chaos(config.chaos);
  require_targets(plan, config.sync.learners, config.sync.ranks_per_learner);
  if (!config::has_syncer(config)) require_kills_and_slowness(plan);
  open_data(job, config);
}

void tell_of_restored(const Job& job, const OptionChanges& changes) {
  const auto file = job.folder.checkpoints() / checkpoint::global_name(job.restored->round);
  log_info(words_on_restored(job.restored->round, file));
  if (job.session.rank() != Layout::kSyncer) return;
  if (!changes.harmless.empty()) {
    log_info("options that have changed since: " + changes.harmless);
  }
  if (!changes.of_data_order.empty()) {
    log_warning("options that have changed since: " + changes.of_data_order +
                "; the data comes in another order, some of it again");
  }
}

void warn_of_nothing_to_resume(const Job& job) {
  if (job.session.rank() != Layout::kSyncer) return;
  log_warning(
      "--resume: " + job.folder.path().string() + " holds " +
      (job.folder.holds_run() ? "a run, but no global checkpoint to go on from" : "no run") +
      "; training begins anew");
}

// status.json as the start before this one left it; no object where there is none.
nlohmann::json status_before(const Job& job) {
  std::error_code error;
  if (!std::filesystem::exists(job.folder.status(), error)) return nullptr;
  return nlohmann::json::parse(read_file(job.folder.status()), nullptr, false);
}

// A run that is complete stays so where the options ask for less than it has trained: no start is
// to make it look otherwise. One that is not is brought to its end by that.
void require_work_left(const Job& job) {
  const auto status = status_before(job);
  if (!status.is_object() || status.value("state", "") != "done") return;
  const std::int64_t budget = job.setup->token_budget();
  const auto trained = status.value("tokens", std::int64_t{0});
  if (budget >= status.value("token_budget", std::int64_t{0}) || trained < budget) return;
  throw Error(ExitCode::configuration,
              "nothing is left to train: the run in " + job.folder.path().string() + " has " +
                  std::to_string(trained) + " tokens, and these options ask for " +
                  std::to_string(budget) + "; give a higher --train.steps");
}

void restore(Job& job) {
  if (!job.setup->config.chaos.empty()) job.struck = struck_faults(job.folder.events());
  job.restored = checkpoint::newest_global(job.folder.checkpoints());
  if (!job.restored) {
    const auto damaged = checkpoint::list_global(job.folder.checkpoints());
    if (damaged.empty()) return warn_of_nothing_to_resume(job);
    throw Error(ExitCode::bad_data, "none of the " + std::to_string(damaged.size()) +
                                        " global checkpoints in " +
                                        job.folder.checkpoints().string() +
                                        " can be read; move them away to begin anew");
  }
  checkpoint::require_same_model(job.restored->common.tensors, job.setup->tensors,
                                 job.folder.checkpoints().string());
  const auto changes = changes_since(job.restored->common.config, config_map(*job.setup));
  if (!changes.of_model.empty()) {
    throw Error(ExitCode::bad_data, job.folder.checkpoints().string() +
                                        " holds another model: " + changes.of_model +
                                        "; give the options it was trained with");
  }
  // Whether its clock and learners fit this run's.
  static_cast<void>(sync::Machine(machine_settings(*job.setup), restored_from(job.restored)));
  require_work_left(job);
  tell_of_restored(job, changes);
}

// So that the launcher can tell a start whose syncer died from one that takes long.
void write_first_status(const Job& job) {
  const nlohmann::json status = {
      {"state", "starting"},
      {"round", 0},
      {"syncer", {{"host", host_name()}, {"pid", ::getpid()}, {"term", 0}}},
      {"learners", nlohmann::json::array()},
      {"tokens", 0},
      {"token_budget", job.setup->token_budget()},
      {"losses", 0},
      {"rejoins", 0}};
  write_file(job.folder.status(), status.dump() + '\n', Durability::unflushed);
}

// sync.learners of the start before this one.
std::optional<int> learners_before(const Job& job) try {
  const std::string words[] = {"--config", job.folder.config().string()};
  return config::parse_run_config(words).sync.learners;
} catch (const Error&) {  // edited since; it is replaced below
  return std::nullopt;
}

// What `scale` asked of the start before this one is asked again once this one trains, unless the
// option has changed since: then that is the newer wish.
void keep_scale(const Job& job) {
  std::error_code error;
  if (std::filesystem::exists(job.folder.scale(), error)) return;
  const auto status = status_before(job);
  const int learners = job.setup->config.sync.learners;
  if (!status.is_object() || !status.contains("learners_wanted")) return;
  // Guests bring their places with them.
  const int before = status.value("learners_wanted", 0) - status.value("guest_places", 0);
  if (before == learners) return;
  const std::string had =
      "the run had " + std::to_string(before) + " learners when it ended; it goes on with ";
  if (learners_before(job) == learners) {
    write_file(job.folder.scale(), std::to_string(before) + '\n', Durability::unflushed);
    log_info(had + "them as soon as it trains");
  } else {
    log_info(had + std::to_string(learners) + " (sync.learners)");
  }
}

// Throws where an island's ranks have not a GPU each. `gpus`: own_gpu() of all of the world's
// ranks.
void require_own_gpu_of_island(const Layout& layout, const std::vector<std::string>& gpus,
                               int rank) {
  const int island = layout.island_of(rank);
  if (island < 0) return;
  const int first = layout.first_rank(island);
  require_own_gpu(std::span(gpus).subspan(static_cast<std::size_t>(first),
                                          static_cast<std::size_t>(layout.ranks_per_island)),
                  static_cast<std::size_t>(rank - first));
}

}  // namespace

std::optional<int> prepare_job(Job& job, const config::RunConfig& config) {
  const int rank = job.session.rank();
  const auto together = [&](const std::function<void()>& step) {
    return attempt_together(job.session, step);
  };
  if (auto code = together([&] { check_options_and_data(job, config); })) return code;
  const auto ranks = gather_ranks(*job.layout);
  std::string gpu;
  if (auto code = together([&] {
        if (const int island = job.layout->island_of(rank); island >= 0) {
          gpu = own_gpu(config, place_on_host(islands_among(ranks, *job.layout), island,
                                              rank - job.layout->first_rank(island)));
        }
        require_resources(*job.setup, *job.layout, ranks, rank);
        Description own = describe(*job.setup, *job.dataset);
        check_own_data(*job.setup, own);
        require_same(job.session, own);
      })) {
    return code;
  }
  const auto gpus = gather_texts(job.layout->world_size(), gpu);
  if (auto code = together([&] { require_own_gpu_of_island(*job.layout, gpus, rank); })) {
    return code;
  }
  if (auto code = together([&] {
        if (rank != Layout::kSyncer) return;
        if (config::has_syncer(config)) {
          job.folder.open_for_writing(config.resume);
        } else {
          job.folder.open_for_one_start();
        }
      })) {
    return code;
  }
  if (auto code = together([&] {
        if (config.resume && rank < job.layout->syncers) restore(job);
      })) {
    return code;
  }
  if (auto code = together([&] {
        if (rank == Layout::kSyncer && config::has_syncer(config)) job.door = open_door(job);
      })) {
    return code;
  }
  // The first thing that changes what an earlier start left.
  return together([&] {
    if (rank == Layout::kSyncer) {
      keep_scale(job);
      std::filesystem::remove(job.folder.summary());
      write_file(job.folder.config(), config::write_ini(job.setup->config), Durability::flushed);
      write_first_status(job);
      warn_of_little_room(*job.setup);
      if (const auto hint = config::outer_momentum_hint(config)) log_info(*hint);
    }
  });
}

std::unique_ptr<GuestDoor> open_door(const Job& job) {
  const std::string& listen = job.setup->config.sync.listen;
  if (listen.empty()) return nullptr;
  return std::make_unique<GuestDoor>(listen, job.folder.invitation(),
                                     describe(*job.setup, *job.dataset));
}

std::optional<int> prepare_guest(Job& job, const config::RunConfig& config) {
  std::string gpu;
  if (auto code = attempt_together(job.session, [&] {
        if (job.session.size() != config.sync.ranks_per_learner) {
          throw Error(ExitCode::configuration, "the island has " +
                                                   std::to_string(job.session.size()) +
                                                   " ranks and " + "sync.ranks_per_learner is " +
                                                   std::to_string(config.sync.ranks_per_learner) +
                                                   "; start it with `archipelago join`");
        }
        require_device(config);
        gpu = own_gpu(config, job.session.rank());
        open_data(job, config);
        std::filesystem::create_directories(job.folder.checkpoints());
      })) {
    return code;
  }
  const auto gpus = gather_texts(job.session.size(), gpu);
  return attempt_together(
      job.session, [&] { require_own_gpu(gpus, static_cast<std::size_t>(job.session.rank())); });
}

void prepare_spawned(Job& job, const config::RunConfig& config) { open_data(job, config); }

std::vector<link::MpiPair> create_pairs(const Job& job) {
  const Layout& layout = *job.layout;
  const int rank = job.session.rank();
  std::vector<link::MpiPair> pairs;
  for (int syncer = 0; syncer < layout.syncers; ++syncer) {
    for (int i = 0; i < layout.islands; ++i) {
      const int leader = layout.first_rank(i);
      if (rank != syncer && rank != leader) continue;
      auto pair =
          link::MpiPair::create(syncer, leader, syncer * layout.islands + i, job.mailbox(syncer));
      if (!pair) {
        throw Error(ExitCode::try_again, "a rank died while the job was starting; start it again");
      }
      pairs.push_back(std::move(*pair));
    }
  }
  return pairs;
}

}  // namespace archipelago::runtime
