#include "link/mpi_pair.h"

#include <utility>

namespace archipelago::link {

std::optional<MpiPair> MpiPair::create(int syncer_world_rank, int leader_world_rank, int tag,
                                       const MailboxLayout& layout) {
  auto comm = mpi::create_group({syncer_world_rank, leader_world_rank}, tag);
  if (!comm) return std::nullopt;
  return on(std::move(*comm), layout);
}

MpiPair MpiPair::on(mpi::Communicator comm, const MailboxLayout& layout) {
  const std::size_t exposed = comm.rank() == kSyncer ? layout.bytes() : 0;
  mpi::Window window(comm, exposed);
  return {std::move(comm), std::move(window)};
}

void MpiPair::close() {
  window.close();
  comm.close();
}

}  // namespace archipelago::link
