#include "runtime/refill.h"

#include <mpi.h>

#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "config/options.h"
#include "core/error.h"
#include "core/log.h"
#include "core/program.h"
#include "mpi/check.h"
#include "runtime/start.h"

namespace archipelago::runtime {
namespace {

constexpr int kFailures = 5;  // in a row

// On the merged communicator the syncer is rank 0, the new island's ranks follow.
constexpr int kSyncer = 0;
constexpr int kLeader = 1;

constexpr char kTelling[] = "telling a new island the options";

std::vector<island::Member> gather_members(MPI_Comm merged) {
  const island::MemberWire own = island::own_member();
  int size = 0;
  mpi::check(MPI_Comm_size(merged, &size), "counting a new island's ranks");
  std::vector<island::MemberWire> all(static_cast<std::size_t>(size));
  mpi::check(
      MPI_Gather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, kSyncer, merged),
      "learning a new island's members");
  std::vector<island::Member> members;
  for (std::size_t i = 1; i < all.size(); ++i) members.push_back(island::from_wire(all[i]));
  return members;
}

// Whether all ranks of `merged` say so.
bool all_agree(MPI_Comm merged, bool own) {
  int fits = own ? 1 : 0;
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, &fits, 1, MPI_INT, MPI_MIN, merged),
             "comparing a new island's options");
  return fits != 0;
}

// Collective over syncer and leader of `merged`.
link::MpiPair make_pair(MPI_Comm merged, const link::MailboxLayout& mailbox) {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group two = MPI_GROUP_NULL;
  const int ranks[2] = {kSyncer, kLeader};
  MPI_Comm comm = MPI_COMM_NULL;
  mpi::check(MPI_Comm_group(merged, &all), "making a new pair's group");
  mpi::check(MPI_Group_incl(all, 2, ranks, &two), "making a new pair's group");
  mpi::check(MPI_Comm_create_group(merged, two, 0, &comm), "making a new pair");
  MPI_Group_free(&two);
  MPI_Group_free(&all);
  return link::MpiPair::on(mpi::Communicator(comm), mailbox);
}

}  // namespace

Refill::Refill(const config::RunConfig& config, const link::MailboxLayout& mailbox,
               Description description)
    : work_(std::make_shared<Work>(config, mailbox, std::move(description))) {
  if (config::can_refill(config.sync)) {
    thread_ = std::thread([work = work_] { run(*work); });
  }
}

Refill::~Refill() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(work_->mutex);
    work_->stopping = true;
  }
  work_->changed.notify_all();
  // A spawn that hangs in the MPI runtime cannot be interrupted; the process is about to end.
  thread_.detach();
}

void Refill::request(int islands) {
  {
    const std::lock_guard lock(work_->mutex);
    work_->wanted += islands;
  }
  work_->changed.notify_all();
}

std::vector<Refill::NewIsland> Refill::take() {
  const std::lock_guard lock(work_->mutex);
  return std::exchange(work_->arrived, {});
}

void Refill::run(Work& work) {
  std::unique_lock lock(work.mutex);
  int failures = 0;
  for (;;) {
    work.changed.wait(lock, [&work] { return work.wanted > 0 || work.stopping; });
    if (work.stopping) return;
    lock.unlock();
    auto island = try_to_spawn(work);
    lock.lock();
    if (!island) {
      if (++failures < kFailures && !work.turned_away) continue;
      log_warning("no more spares are started in this job");
      return;
    }
    failures = 0;
    --work.wanted;
    work.arrived.push_back(std::move(*island));
  }
}

// Ranks that die meanwhile, whoever they are, can make a spawn fail.
std::optional<Refill::NewIsland> Refill::try_to_spawn(Work& work) {
  try {
    return spawn(work);
  } catch (const std::exception& error) {
    log_warning(std::string("a new spare did not start: ") + error.what());
    return std::nullopt;
  }
}

Refill::NewIsland Refill::spawn(Work& work) {
  const std::string program = program_file().string();
  // Every option by hand: the run's config.ini may have been edited since.
  std::vector<std::string> words = {"train"};
  for (const auto& [name, value] : config::to_map(work.config)) {
    if (!value.empty() && name != "resume") words.push_back("--" + name + '=' + value);
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  MPI_Info info = MPI_INFO_NULL;
  mpi::check(MPI_Info_create(&info), "starting a new island");
  mpi::check(MPI_Info_set(info, "bind_to", "none"), "starting a new island");
  // Else a new rank that can't get through its MPI_Init ends the whole job.
  mpi::check(MPI_Info_set(info, "mpi_initial_errhandler", "mpi_errors_return"),
             "starting a new island");
  MPI_Comm intercomm = MPI_COMM_NULL;
  const int code =
      MPI_Comm_spawn(program.c_str(), arguments.data(), work.config.sync.ranks_per_learner, info, 0,
                     MPI_COMM_SELF, &intercomm, MPI_ERRCODES_IGNORE);
  MPI_Info_free(&info);
  mpi::check(code, "starting a new island");
  MPI_Comm merged = MPI_COMM_NULL;
  mpi::check(MPI_Intercomm_merge(intercomm, 0, &merged), "meeting a new island");
  mpi::check(MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN), "meeting a new island");
  auto members = gather_members(merged);
  share_text(merged, to_text(work.description), kTelling);
  if (!all_agree(merged, true)) {
    work.turned_away = true;
    throw Error(ExitCode::configuration,
                "it is another build, or has other options or other data than this run");
  }
  return {make_pair(merged, work.mailbox), std::move(members)};
}

Refill::Joined Refill::join(const mpi::Session& session, const link::MailboxLayout& mailbox,
                            const Description& own) {
  MPI_Comm merged = MPI_COMM_NULL;
  mpi::check(MPI_Intercomm_merge(session.parent(), 1, &merged), "joining the job");
  mpi::check(MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN), "joining the job");
  gather_members(merged);
  const auto other = difference(own, description_from(share_text(merged, {}, kTelling)));
  if (!all_agree(merged, !other)) {
    throw Error(ExitCode::configuration,
                "this spare does not fit into the run and is turned away: " +
                    other.value_or("another rank of it differs"));
  }
  std::optional<link::MpiPair> pair;
  if (session.rank() == 0) pair = make_pair(merged, mailbox);
  MPI_Comm island = MPI_COMM_NULL;
  mpi::check(MPI_Comm_dup(MPI_COMM_WORLD, &island), "making a new island");
  return {mpi::Communicator(island), std::move(pair)};
}

}  // namespace archipelago::runtime
