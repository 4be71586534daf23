#include "fake_nccl.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "emulation.h"

using archipelago::emulation::Misuse;

namespace {

// The n-th collective of a group.
struct Collective {
  std::size_t count = 0;
  std::vector<float*> memory;  // of the ranks whose streams have come to it
  bool done = false;
};

struct Group {
  std::vector<bool> joined;
  std::vector<std::vector<std::size_t>> queued;  // counts, by rank
  std::vector<Collective> collectives;

  bool complete() const {
    for (const bool rank : joined) {
      if (!rank) return false;
    }
    return true;
  }
};

struct State {
  int ids = 0;
  std::map<int, std::shared_ptr<Group>> groups;
  int living = 0;
};

State& state() {
  static State state;
  return state;
}

ncclResult_t failure(const char* function) {
  return static_cast<ncclResult_t>(archipelago::emulation::take_failure(function));
}

std::lock_guard<std::recursive_mutex> locked() {
  return std::lock_guard(archipelago::emulation::mutex());
}

}  // namespace

struct FakeComm {
  std::shared_ptr<Group> group;
  std::size_t rank;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  // How often it still has to be asked until the last call is through.
  int unsettled = kAsked;

  static constexpr int kAsked = 2;
};

std::vector<std::vector<std::size_t>> archipelago::emulation::collectives() {
  const auto lock = locked();
  return state().groups.at(state().ids)->queued;
}

int archipelago::emulation::living_communicators() {
  const auto lock = locked();
  return state().living;
}

const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote process exited or there was a network error"
                                 : "another error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const auto lock = locked();
  if (const ncclResult_t code = failure("ncclGetUniqueId")) return code;
  *id = {};
  ++state().ids;
  std::memcpy(id->internal, &state().ids, sizeof state().ids);
  state().groups[state().ids] = std::make_shared<Group>();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const auto lock = locked();
  if (const ncclResult_t code = failure("ncclCommInitRankConfig")) return code;
  if (config->blocking != 0) throw Misuse("NCCL: an init that blocks");
  int number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const auto group = state().groups.at(number);
  group->joined.resize(static_cast<std::size_t>(size));
  group->queued.resize(static_cast<std::size_t>(size));
  const auto at = static_cast<std::size_t>(rank);
  if (group->joined.at(at)) throw Misuse("NCCL: a rank joins twice");
  group->joined[at] = true;
  *comm = new FakeComm{group, at};
  ++state().living;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const auto lock = locked();
  if (!comm->group->complete() || comm->unsettled > 0) {
    *result = ncclInProgress;
    if (comm->group->complete()) --comm->unsettled;
  } else {
    *result = failure("async");
  }
  return failure("ncclCommGetAsyncError");
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const auto lock = locked();
  *comm->aborted = true;
  --state().living;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  const auto lock = locked();
  if (const ncclResult_t code = failure("ncclAllReduce")) return code;
  if (!comm->group->complete() || comm->unsettled > 0) {
    throw Misuse("NCCL: a collective before the call before it is through");
  }
  comm->unsettled = FakeComm::kAsked;
  if (type != ncclFloat || operation != ncclAvg || send != receive) {
    throw Misuse("NCCL: another collective than the mean in place of f32");
  }
  archipelago::emulation::require_device(receive, count * sizeof(float), "NCCL: the values");
  auto& queued = comm->group->queued[comm->rank];
  const std::size_t number = queued.size();
  queued.push_back(count);
  archipelago::emulation::enqueue_collective(
      stream, [group = comm->group, aborted = comm->aborted, number, count,
               memory = static_cast<float*>(receive), came = std::make_shared<bool>(false)] {
        if (*aborted) return true;
        if (group->collectives.size() <= number) group->collectives.resize(number + 1);
        Collective& collective = group->collectives[number];
        if (!*came) {
          *came = true;
          if (!collective.memory.empty() && collective.count != count) {
            throw Misuse("NCCL: ranks' collectives differ in size");
          }
          collective.count = count;
          collective.memory.push_back(memory);
        }
        if (collective.memory.size() == group->joined.size() && !collective.done) {
          collective.done = true;
          const archipelago::emulation::DeviceAccess access;
          for (std::size_t i = 0; i < count; ++i) {
            double sum = 0;
            for (const float* values : collective.memory) sum += static_cast<double>(values[i]);
            const auto mean = static_cast<float>(sum / static_cast<double>(group->joined.size()));
            for (float* values : collective.memory) values[i] = mean;
          }
        }
        return collective.done;
      });
  return ncclInProgress;
}
