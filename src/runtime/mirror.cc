#include "runtime/mirror.h"

#include <memory>
#include <utility>
#include <variant>

#include "core/error.h"
#include "runtime/clock.h"
#include "runtime/lease_message.h"
#include "runtime/machine_settings.h"

namespace archipelago::runtime {
namespace {

constexpr std::size_t kRecentEntries = 4096;

}  // namespace

link::DownHeader ask_header(const sync::Ask& action, std::int32_t version) {
  link::DownHeader header;
  header.kind = link::DownKind::ask;
  header.learner = action.learner;
  header.incarnation = action.incarnation;
  header.round = action.round;
  header.fragment = action.fragment;
  header.version = version;
  return header;
}

link::DownHeader order_of(const sync::Assign& action) {
  link::DownHeader header;
  header.kind = link::DownKind::assign;
  header.learner = action.learner;
  header.incarnation = action.incarnation;
  header.tokens = action.tokens;
  return header;
}

link::DownHeader order_of(const sync::Expel&) {
  link::DownHeader header;
  header.kind = link::DownKind::expel;
  return header;
}

link::DownHeader order_of(const sync::Retire&) {
  link::DownHeader header;
  header.kind = link::DownKind::retire;
  return header;
}

Mirror::Mirror(const Setup& setup, const std::optional<checkpoint::Global>& restored, int islands,
               const StruckFaults& struck)
    : tape_(setup, restored),
      state_(restored ? GlobalState(setup, *restored) : GlobalState(setup)),
      chaos_(parse_chaos(setup.config.chaos), struck),
      orders_(static_cast<std::size_t>(islands)) {}

void Mirror::apply(link::ReplicaMessage message) {
  if (message.header.kind == link::ReplicaKind::merged) {
    // In place only with its event: were the syncer to die in between, the round would be held
    // again.
    merged_[message.header.fragment] = {
        message.header.fragment, std::make_shared<const link::Values>(std::move(message.theta)),
        std::make_shared<const link::Values>(std::move(message.momentum))};
    return;
  }
  if (message.header.kind == link::ReplicaKind::chaos) {
    chaos_.due(message.header.seconds, machine().learners());
    return;
  }
  if (message.header.kind != link::ReplicaKind::event) return;
  const sync::TapeEntry entry = tape_.follow(message.text);
  state_.drop_unheld(machine().learners());
  time_ = entry.time;
  heard_ = now_seconds();
  ++entries_;
  recent_.push_back(std::move(message.text));
  if (recent_.size() > kRecentEntries) recent_.pop_front();
  if (const auto* guest = std::get_if<sync::GuestReady>(&entry.event)) meet(guest->island);
  follow(entry.actions);
}

// A guest was not there at the start.
void Mirror::meet(int island) {
  const auto islands = static_cast<std::size_t>(island) + 1;
  if (orders_.size() < islands) orders_.resize(islands);
}

void Mirror::follow(const std::vector<sync::Action>& actions) {
  const auto give = [this](int island, link::DownHeader header) {
    StandingOrder& order = orders_.at(static_cast<std::size_t>(island));
    header.round = ++order.number;
    order.header = header;
    order.lease.reset();
  };
  for (const auto& action : actions) {
    if (const auto* assign = std::get_if<sync::Assign>(&action)) {
      give(assign->island, order_of(*assign));
    } else if (const auto* expel = std::get_if<sync::Expel>(&action)) {
      give(expel->island, order_of(*expel));
    } else if (const auto* retire = std::get_if<sync::Retire>(&action)) {
      give(retire->island, order_of(*retire));
    } else if (const auto* lease = std::get_if<sync::Lease>(&action)) {
      const int island = machine().learners().at(static_cast<std::size_t>(lease->learner)).island;
      orders_.at(static_cast<std::size_t>(island)).lease =
          lease_message(*lease, machine().shards_for(lease->learner));
    } else if (const auto* publish = std::get_if<sync::Publish>(&action)) {
      auto merged = merged_.extract(publish->fragment);
      if (merged.empty()) throw Error(ExitCode::internal, "a merge reached the standby in part");
      state_.adopt(std::move(merged.mapped()));
    } else if (std::holds_alternative<sync::Pause>(action)) {
      paused_ = true;
    } else if (const auto* finish = std::get_if<sync::Finish>(&action)) {
      finish_ = *finish;
    }
  }
}

}  // namespace archipelago::runtime
