#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "core/checksum.h"
#include "core/log.h"
#include "emulate/run.h"
#include "runtime/lease_message.h"
#include "runtime/machine_settings.h"
#include "runtime/record_lines.h"
#include "runtime/validation.h"

// What the state machine wants done.
namespace archipelago::emulate {

std::optional<int> Run::peer_of(int learner, int incarnation) const {
  const auto book = std::ranges::find_if(books_, [&](const Book& each) {
    return !each.lost && each.learner == learner && each.incarnation == incarnation;
  });
  if (book == books_.end()) return std::nullopt;
  return static_cast<int>(book - books_.begin());
}

void Run::give_order(int peer, link::DownHeader header) {
  Book& book = at(peer);
  header.round = ++book.orders;
  book.ready_told = false;
  sender_.begin_life(peer, header.learner, header.incarnation);
  link_.send(peer, header);
}

void Run::send_pause(int peer) {
  link::DownHeader header;
  header.kind = link::DownKind::pause;
  link_.send(peer, header);
}

void Run::end_life(int peer) {
  Book& book = at(peer);
  sender_.clear(peer);
  if (book.learner < 0) return;
  rejoins_.lose(book.learner, book.incarnation, timeline_.seconds());
  book.learner = -1;
  book.row_step = -1;
}

void Run::act(const sync::Assign& action) {
  Book& book = at(action.island);
  book.learner = action.learner;
  book.incarnation = action.incarnation;
  book.leased_to = action.learner;
  book.lease_told = 0;
  rejoins_.begin(action.learner, action.incarnation);
  give_order(action.island, runtime::order_of(action));
  if (paused_) send_pause(action.island);
}

void Run::act(const sync::Refresh& action) {
  if (const auto peer = peer_of(action.learner, action.incarnation)) sender_.mark_all(*peer);
}

void Run::act(const sync::Lease& action) {
  const auto peer = peer_of(action.learner, action.incarnation);
  if (!peer) return;
  auto lease = runtime::lease_message(action, machine_.shards_for(action.learner));
  link_.send(*peer, lease.header,
             link::Payload(std::make_shared<const link::Bytes>(std::move(lease.data))));
}

void Run::act(const sync::Ask& action) {
  const auto peer = peer_of(action.learner, action.incarnation);
  if (!peer) return;
  link_.send(*peer, runtime::ask_header(
                        action, machine_.versions()[static_cast<std::size_t>(action.fragment)]));
}

// One merge after the other.
void Run::act(const sync::Merge& action) {
  merger_free_ = after(std::max(timeline_.now(), merger_free_), conditions_.merge_seconds);
  timeline_.at(merger_free_, [this, action] { finish_merge(action, conditions_.merge_seconds); });
}

void Run::finish_merge(const sync::Merge& action, double seconds) {
  std::vector<sync::MergeInput> inputs;
  nlohmann::json contributors = nlohmann::json::array();
  for (const auto& part : action.contributions) {
    const Key key{part.learner, part.incarnation, action.round};
    inputs.push_back(arrivals_.input(key, part.weight));
    contributors.push_back(part.learner);
  }
  merge_statistics_.add(action);
  state_.adopt(state_.merge(action.fragment, inputs));
  for (const auto& part : action.contributions) {
    arrivals_.release({part.learner, part.incarnation, action.round});
  }
  record_.add_metrics({{"t", timeline_.seconds()},
                       {"round", action.round},
                       {"fragment", action.fragment},
                       {"version", state_.version(action.fragment)},
                       {"contributors", std::move(contributors)},
                       {"wait_s", 0.0},
                       {"merge_s", seconds}});
  tell(sync::Merged{action.round, seconds});
}

void Run::act(const sync::Publish& action) {
  for (std::size_t peer = 0; peer < books_.size(); ++peer) {
    if (!books_[peer].lost && books_[peer].learner >= 0) {
      sender_.mark(static_cast<int>(peer), action.fragment);
    }
  }
}

void Run::act(const sync::Discard& action) {
  arrivals_.release({action.learner, action.incarnation, action.round});
  merge_statistics_.add(action, timeline_.seconds());
}

void Run::act(const sync::Expel& action) {
  end_life(action.island);
  give_order(action.island, runtime::order_of(action));
}

void Run::act(const sync::Retire& action) {
  end_life(action.island);
  rejoins_.forget(action.learner);
  give_order(action.island, runtime::order_of(action));
}

void Run::act(const sync::Pause&) {
  paused_ = true;
  for (std::size_t peer = 0; peer < books_.size(); ++peer) {
    if (books_[peer].learner >= 0) send_pause(static_cast<int>(peer));
  }
}

// The last one is written: what is before it nobody would go on from.
void Run::act(const sync::SaveGlobal& action) {
  record_.add_event(runtime::snapshot_line(timeline_.now(), action.round, state_.digest()));
  if (!machine_.finished()) {
    if (setup_.config.checkpoint.validate) validate(action.round);
    return;
  }
  save(action.round);
}

void Run::save(std::int64_t round) try {
  checkpoint::Global file = runtime::checkpoint_of(machine_, setup_, round);
  state_.describe(file);
  checkpoint::save(folder_.checkpoints(), file, state_.arrays(), setup_.config.checkpoint.keep);
} catch (const std::system_error& error) {
  log_error(error.what());
  unsaved_ = true;
}

void Run::act(const sync::Finish& action) { finish_ = action; }

void Run::validate(std::int64_t round) {
  const auto score = runtime::validation_score(
      setup_, surroundings_.dataset, state_.flat_parameters(), setup_.config.train.threads);
  if (score.samples == 0) return;
  record_.add_metrics(
      runtime::validation_row(timeline_.seconds(), {round, machine_.total_tokens(), score}));
}

}  // namespace archipelago::emulate
