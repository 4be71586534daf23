#include "island/nccl_group.h"

#include <chrono>
#include <thread>
#include <utility>

#include "core/error.h"

namespace archipelago::island {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::microseconds(50);
constexpr auto kLookEvery = std::chrono::milliseconds(20);

}  // namespace

NcclId NcclGroup::new_id() {
  NcclId id{};
  const ncclResult_t code = ncclGetUniqueId(&id);
  if (code != ncclSuccess) {
    throw Error(ExitCode::try_again, std::string("NCCL failed while making an island's id: ") +
                                         ncclGetErrorString(code));
  }
  return id;
}

NcclGroup::NcclGroup(const NcclId& id, int rank, int size, Patience patience)
    : patience_(std::move(patience)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  settle(ncclCommInitRankConfig(&comm_.get, size, id, rank, &config),
         "joining rank " + std::to_string(rank) + " of " + std::to_string(size));
}

void NcclGroup::Comm::abort() {
  if (get != nullptr) ncclCommAbort(std::exchange(get, nullptr));
}

void NcclGroup::all_reduce_mean(std::span<float> values, cudaStream_t stream) {
  settle(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclAvg, comm_.get,
                       stream),
         "adding up gradients");
}

void NcclGroup::wait(const std::function<bool()>& done, const std::string& doing) {
  Clock::time_point next_look = Clock::now() + kLookEvery;
  while (!done()) {
    if (Clock::now() >= next_look) {
      look_around(doing);
      next_look = Clock::now() + kLookEvery;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void NcclGroup::look_around(const std::string& doing) {
  patience_.check();
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = ncclCommGetAsyncError(comm_.get, &state);
  if (code != ncclSuccess) state = code;
  if (state != ncclSuccess && state != ncclInProgress) give_up(ncclGetErrorString(state), doing);
}

void NcclGroup::settle(ncclResult_t code, const std::string& doing) {
  if (code == ncclSuccess) return;
  if (code != ncclInProgress) give_up(ncclGetErrorString(code), doing);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(patience_.seconds));
  const auto is_through = [&] {
    ncclResult_t state = ncclInProgress;
    if (ncclCommGetAsyncError(comm_.get, &state) == ncclSuccess && state == ncclSuccess)
      return true;
    if (Clock::now() > deadline) give_up("the other ranks did not come in time", doing);
    return false;
  };
  wait(is_through, doing);
}

void NcclGroup::give_up(const std::string& what, const std::string& doing) {
  comm_.abort();
  throw Error(ExitCode::try_again, "NCCL failed while " + doing + ": " + what);
}

}  // namespace archipelago::island
