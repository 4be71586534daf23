#pragma once

#include <vector>

#include "data/shards.h"
#include "link/message.h"
#include "sync/messages.h"

namespace archipelago::runtime {

// A lease on its way to an island. `shards`: that all the data is dealt out to.
link::DownMessage lease_message(const sync::Lease& lease, int shards);

// The shards that such a message leases and where each goes on.
std::vector<data::ShardCursor> leased_shards(const link::DownMessage& message);

}  // namespace archipelago::runtime
