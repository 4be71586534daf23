#include "baseline/roll.h"

#include <utility>

#include "baseline/require.h"

namespace archipelago::baseline {
namespace {

constexpr char kDoing[] = "calling the roll of all ranks";

}  // namespace

Roll::Roll(mpi::Communicator comm)
    : comm_(std::move(comm)), all_(static_cast<std::size_t>(comm_.size())) {}

void Roll::start(const RollEntry& own) {
  own_ = own;
  require(mpi::outcome_of(MPI_Iallgather(&own_, sizeof own_, MPI_BYTE, all_.data(), sizeof own_,
                                         MPI_BYTE, comm_.get(), &request_),
                          kDoing));
}

const std::vector<RollEntry>& Roll::finish() {
  require(mpi::wait(request_, kDoing));
  return all_;
}

}  // namespace archipelago::baseline
