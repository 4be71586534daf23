#include "runtime/lease_message.h"

#include <algorithm>
#include <span>
#include <type_traits>

namespace archipelago::runtime {
namespace {

static_assert(std::is_trivially_copyable_v<data::ShardCursor>);

}  // namespace

link::DownMessage lease_message(const sync::Lease& lease, int shards) {
  link::DownMessage message;
  message.header.kind = link::DownKind::lease;
  message.header.learner = lease.learner;
  message.header.incarnation = lease.incarnation;
  message.header.round = lease.number;
  message.header.version = shards;
  std::vector<data::ShardCursor> leased;
  for (std::size_t i = 0; i < lease.shards.size(); ++i) {
    leased.push_back({lease.shards[i], lease.cursors[i]});
  }
  const auto bytes = std::as_bytes(std::span(leased));
  message.data.assign(bytes.begin(), bytes.end());
  return message;
}

std::vector<data::ShardCursor> leased_shards(const link::DownMessage& message) {
  std::vector<data::ShardCursor> shards(message.data.size() / sizeof(data::ShardCursor));
  const auto whole = std::as_writable_bytes(std::span(shards));
  std::ranges::copy(std::span(message.data).first(whole.size()), whole.begin());
  return shards;
}

}  // namespace archipelago::runtime
