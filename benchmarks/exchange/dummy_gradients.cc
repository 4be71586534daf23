// bench_dummy_gradients STEP_SECONDS TRAIN-OPTIONS       under mpirun; see exchange.py
//
// The exchange of a model that this machine could not train: the syncer, the links and the merge
// are those of a run, the learners' gradients are dummies (dummy_learner.h). Prints one JSON
// object: the memory that each part needs, told before anything is allocated, what was resident at
// most, and how far Theta is from what the dummies must have made of it.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "config/options.h"
#include "core/log.h"
#include "dummy_learner.h"
#include "link/mpi_leader_end.h"
#include "link/mpi_syncer_end.h"
#include "mpi/check.h"
#include "runtime/clock.h"
#include "runtime/job.h"
#include "runtime/start.h"
#include "runtime/syncer_process.h"

namespace {

using namespace archipelago;
using nlohmann::json;

constexpr std::int64_t kFloat = sizeof(float);

// A field of a file of "name: number kB" lines, in bytes.
std::int64_t bytes_in(const std::string& path, const std::string& field) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kib = 0;
    if (words >> name >> kib && name == field + ":") return kib * 1024;
  }
  return 0;
}

json memory_needed(const runtime::Setup& setup) {
  const auto& wire = setup.wire;
  const std::int64_t learners = setup.config.sync.learners;
  const std::int64_t all = setup.parameters * kFloat;
  const std::int64_t largest = setup.largest_fragment * kFloat;
  const bool differences = wire.differences();
  const auto up = [&](std::int64_t elements) { return fragment::encoded_size(wire.up, elements); };
  const auto down = [&](std::int64_t elements) {
    return fragment::encoded_size(wire.whole(), elements);
  };
  const json syncer = {{"theta", all},
                       {"momentum", all},
                       {"encoded for learners",
                        wire.whole() == fragment::Encoding::f32 ? 0 : down(setup.parameters)},
                       {"updates for learners", wire.updates() ? down(setup.parameters) : 0},
                       {"two slots a learner", 2 * learners * up(setup.largest_fragment)},
                       {"decoded arrivals", differences ? learners * largest : 0},
                       {"merged copies", 2 * largest},
                       {"versions that learners hold", differences ? 2 * largest : 0},
                       {"last checkpoint", 4 * all}};
  const json learner = {{"parameters", all},
                        {"bases", differences ? down(setup.parameters) : 0},
                        {"error feedback", fragment::has_error_feedback(wire.up) ? all : 0},
                        {"staged", 2 * largest},
                        {"encoded", differences ? up(setup.largest_fragment) + largest : 0},
                        {"arriving", 2 * down(setup.largest_fragment)}};
  std::int64_t total = 0;
  for (const auto& part : syncer) total += part.get<std::int64_t>();
  for (const auto& part : learner) total += learners * part.get<std::int64_t>();
  return {{"syncer", syncer}, {"each learner", learner}, {"total", total}};
}

// The largest distance of an element's change from its fragment's mean change, as a share of that.
double unevenness(const std::vector<float>& before, const std::vector<float>& after,
                  const runtime::Setup& setup) {
  double worst = 0;
  for (const auto& fragment : setup.fragments) {
    double sum = 0;
    for (const auto& piece : fragment.pieces) {
      for (std::int64_t k = piece.offset; k < piece.offset + piece.size; ++k) {
        sum += static_cast<double>(after[k]) - static_cast<double>(before[k]);
      }
    }
    const double mean = sum / static_cast<double>(fragment.size);
    for (const auto& piece : fragment.pieces) {
      for (std::int64_t k = piece.offset; k < piece.offset + piece.size; ++k) {
        const double change = static_cast<double>(after[k]) - static_cast<double>(before[k]);
        worst = std::max(worst, std::abs(change / mean - 1));
      }
    }
  }
  return worst;
}

std::int64_t most_of_all(std::int64_t value) {
  std::int64_t most = 0;
  mpi::check(MPI_Allreduce(&value, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD), "reporting");
  return most;
}

void run_syncer(runtime::Job& job) {
  runtime::SyncerStart start;
  start.islands = runtime::gather_islands(*job.layout);
  job.folder.open_for_writing(false);
  const json needed = memory_needed(*job.setup);
  link::MpiSyncerEnd link(job.mailbox());
  for (auto& pair : runtime::create_pairs(job)) link.add(std::move(pair));
  runtime::SyncerProcess syncer(*job.setup, job.folder, link, nullptr, start, [](int) {});
  const double started = runtime::now_seconds();
  while (syncer.turn()) {
  }
  const double seconds = runtime::now_seconds() - started;
  const int code = syncer.conclude({});
  const std::int64_t own = bytes_in("/proc/self/status", "VmHWM");
  const std::int64_t learner = most_of_all(0);
  const auto summary = json::parse(std::ifstream(job.folder.summary()));
  json result = {{"parameters", job.setup->parameters},
                 {"memory needed", needed},
                 {"resident at most", {{"syncer", own}, {"a learner", learner}}},
                 {"seconds", seconds},
                 {"rounds", summary["rounds"]},
                 {"bytes up", summary["bytes_up"]},
                 {"bytes down", summary["bytes_down"]},
                 {"longest poll gap, ms", 1000 * summary["syncer_max_gap_s"].get<double>()},
                 {"blocked fraction", summary["blocked_fraction"]},
                 {"refused", summary["refused"]}};
  const runtime::GlobalState first(*job.setup);
  result["unevenness"] =
      unevenness(first.flat_parameters(), syncer.state().flat_parameters(), *job.setup);
  std::cout << result.dump(2) << std::endl;
  link.close();
  job.session.leave(code, mpi::Ending::orderly);
}

void run_learner(runtime::Job& job, double step_seconds) {
  runtime::gather_islands(*job.layout);
  auto pairs = runtime::create_pairs(job);
  std::vector<std::unique_ptr<link::LeaderEnd>> ends;
  ends.push_back(std::make_unique<link::MpiLeaderEnd>(std::move(pairs[0]), job.mailbox()));
  runtime::Communication communication(
      std::move(ends),
      std::make_unique<runtime::FragmentEncoder>(job.setup->wire, job.setup->fragment_count(), 1),
      std::make_unique<runtime::FragmentDecoder>(job.setup->wire, job.setup->fragment_count(), 1),
      [](const link::DownHeader&) {});
  bench::DummyLearner learner(*job.setup, communication, step_seconds);
  const bool complete = learner.run();
  most_of_all(bytes_in("/proc/self/status", "VmHWM"));
  for (const auto& link : communication.stop()) static_cast<link::MpiLeaderEnd&>(*link).close();
  job.session.leave(complete ? 0 : 1, mpi::Ending::orderly);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  const config::RunConfig config = config::parse_run_config(arguments);
  mpi::Session session;
  runtime::Job job{session, runtime::RunFolder(config.out), {}, {}, {}, {}};
  job.layout = runtime::make_layout(config, session.size());
  job.setup = runtime::make_setup(config);
  for (auto& group : job.setup->data.groups) group.windows = 1'000'000;  // there is no data
  const bool is_syncer = session.rank() == runtime::Layout::kSyncer;
  const json needed = memory_needed(*job.setup);
  if (is_syncer) std::cerr << needed.dump(2) << std::endl;
  if (needed["total"].get<std::int64_t>() > bytes_in("/proc/meminfo", "MemAvailable")) {
    if (is_syncer) log_error("this is more than the machine has free");
    session.leave(1, mpi::Ending::orderly);
  }
  if (is_syncer) run_syncer(job);
  run_learner(job, std::stod(argv[1]));
} catch (const std::exception& error) {
  log_error(error.what());
  mpi::die_visibly();
}
