#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "core/log.h"
#include "runtime/clock.h"
#include "runtime/syncer_process.h"

namespace archipelago::runtime {
namespace {

constexpr double kGoodbyeSeconds = 20;

}  // namespace

// A cut is asked for before the entry that decides on it: no merge is under way, and what else the
// entry decides may begin one.
void SyncerProcess::tell_others(const std::string& entry) {
  if (others_ == nullptr) return;
  const bool due = std::ranges::any_of(actions_, [](const sync::Action& action) {
    return std::holds_alternative<sync::SaveGlobal>(action) ||
           std::holds_alternative<sync::Finish>(action);
  });
  // Where links are slower than the rounds, a checkpoint is left out.
  if (due && (!cuts_.under_way() || machine_.finished())) {
    others_->collect(cuts_.begin(machine_.rounds(), state_, setup_.fragment_count()));
  }
  others_->tell(entry);
}

void SyncerProcess::listen_to_others() {
  if (others_ == nullptr) return;
  others_->beat();
  OtherSyncers::News news = others_->poll();
  if (failure_) return;
  for (auto& event : news.events) {
    if (const auto* merged = std::get_if<sync::Merged>(&event)) {
      end_round(*merged);
    } else if (const auto* delivery = std::get_if<sync::Delivery>(&event)) {
      undisclosed_.push_back(*delivery);
    }
  }
  tell_deliveries();
  for (auto& part : news.fragments) take_part(std::move(part));
  if (news.loss) give_up(*news.loss + ", and its fragments are lost with it");
}

// Not before the report of the step that the fragment is from, which comes on another pair: it may
// say that a lease is followed.
void SyncerProcess::tell_deliveries() {
  const auto is_early = [this](const sync::Delivery& delivery) {
    const auto peer = peer_of(delivery.learner, delivery.incarnation);
    if (!peer) return false;
    const link::Report& report = islands_[static_cast<std::size_t>(*peer)].report;
    return report.learner != delivery.learner || report.incarnation != delivery.incarnation ||
           report.tokens < delivery.at_tokens;
  };
  for (auto delivery = undisclosed_.begin(); delivery != undisclosed_.end();) {
    if (is_early(*delivery)) {
      ++delivery;
      continue;
    }
    tell(*delivery);
    delivery = undisclosed_.erase(delivery);
  }
}

void SyncerProcess::take_part(link::ReplicaMessage part) {
  auto cut = cuts_.take(std::move(part));
  if (!cut) return;
  if (cut->file) save(cut->file, cut->state);
  if (finish_) whole_.emplace(std::move(cut->state));
}

// As after the death of an only syncer, the run goes on from its last global checkpoint: learners
// write theirs, then it ends.
void SyncerProcess::give_up(const std::string& reason) {
  log_error(reason + "; the run ends, and can be resumed");
  failure_ = reason;
  finish_ = sync::Finish{sync::Outcome::no_learners, reason};
  ended_ = now_seconds();
  goodbye_deadline_ = ended_ + kGoodbyeSeconds;
  for (std::size_t peer = 0; peer < islands_.size(); ++peer) send_finish(static_cast<int>(peer));
}

}  // namespace archipelago::runtime
