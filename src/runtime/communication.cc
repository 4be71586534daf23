#include "runtime/communication.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/file.h"
#include "core/log.h"
#include "mpi/session.h"
#include "runtime/chaos.h"
#include "runtime/clock.h"

namespace archipelago::runtime {
namespace {

constexpr double kPollSeconds = 0.001;
constexpr double kStandbyPollSeconds = 0.005;
constexpr double kHeartbeatSeconds = 0.5;
// A step may take this many times the recent ones (but never less than the seconds below) before
// the heartbeat stops.
constexpr double kPatienceSteps = 20;
constexpr double kPatienceSeconds = 10;
constexpr std::size_t kStagedFragments = 2;
// Until the first syncer has said what is to be done when another one is lost.
constexpr double kIncompleteSeconds = 60;

bool is_order(link::DownKind kind) {
  return kind == link::DownKind::assign || kind == link::DownKind::expel ||
         kind == link::DownKind::retire;
}

}  // namespace

Communication::Communication(std::vector<std::unique_ptr<link::LeaderEnd>> ends,
                             std::unique_ptr<FragmentEncoder> encoder,
                             std::unique_ptr<FragmentDecoder> decoder,
                             std::function<void(const link::DownHeader&)> inflict,
                             std::size_t syncers)
    : ends_(std::move(ends)),
      syncers_(syncers),
      cut_until_(ends_.size()),
      encoder_(std::move(encoder)),
      decoder_(std::move(decoder)),
      inflict_(std::move(inflict)),
      lost_(ends_.size(), false) {
  for (std::size_t term = 0; term < ends_.size(); ++term) {
    threads_.emplace_back([this, term] { run(term); });
  }
}

Communication::~Communication() {
  stopping_ = true;
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

std::vector<std::unique_ptr<link::LeaderEnd>> Communication::stop() {
  stopping_ = true;
  for (auto& thread : threads_) thread.join();
  return std::move(ends_);
}

Inbox Communication::take() {
  const std::lock_guard lock(mutex_);
  if (incomplete_since_ && now_seconds() > *incomplete_since_ + kIncompleteSeconds) {
    inbox_.syncer_lost = true;
  }
  Inbox inbox = std::exchange(inbox_, {});
  inbox_.syncer_lost = inbox.syncer_lost;
  return inbox;
}

void Communication::post(const link::Report& report) {
  const std::lock_guard lock(mutex_);
  report_ = report;
  report_is_new_ = true;
  last_post_ = now_seconds();
}

bool Communication::can_stage() const {
  const std::lock_guard lock(mutex_);
  return staged_.size() < kStagedFragments;
}

void Communication::stage(const link::FragmentHeader& header,
                          std::shared_ptr<const kernels::HostArray> values,
                          std::shared_ptr<const link::Bytes> base) {
  const std::lock_guard lock(mutex_);
  staged_.push_back({header, std::move(values), std::move(base)});
}

void Communication::flush(double seconds) {
  const double deadline = now_seconds() + seconds;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if ((!report_is_new_ && unfinished_ == 0) || inbox_.syncer_lost) return;
    }
    if (now_seconds() > deadline) return;
    sleep_seconds(kPollSeconds);
  }
}

void Communication::run(std::size_t term) try {
  std::vector<link::DownMessage> arrived;
  while (!stopping_) {
    const bool received = receive(term, arrived);
    const bool reported = send_report(term);
    const bool sent = send_fragment(term);
    if (received || reported || sent) continue;
    std::unique_lock lock(mutex_);
    const bool present = is_present(term) || only_merges(term);
    lock.unlock();
    sleep_seconds(present ? kPollSeconds : kStandbyPollSeconds);
  }
} catch (const std::exception& error) {
  log_error(std::string("the communication thread failed: ") + error.what());
  mpi::die_visibly();
}

bool Communication::receive(std::size_t term, std::vector<link::DownMessage>& arrived) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_[term]) return false;
  }
  arrived.clear();
  const auto state = ends_[term]->poll(arrived);
  for (auto& message : arrived) {
    if (!is_cut(term)) sort_in(term, std::move(message));
  }
  mark(term, state);
  return !arrived.empty();
}

void Communication::mark(std::size_t term, link::PeerState state) {
  if (state == link::PeerState::alive) return;
  const std::lock_guard lock(mutex_);
  lost_[term] = true;
  if (only_merges(term)) incomplete_since_ = now_seconds();
  if (term != term_) return;
  const std::size_t later = std::max(term, syncers_);
  const auto next =
      std::find(lost_.begin() + static_cast<std::ptrdiff_t>(later), lost_.end(), false);
  if (next == lost_.end()) {
    inbox_.syncer_lost = true;
  } else {
    turn_to(static_cast<std::size_t>(next - lost_.begin()));
  }
}

void Communication::turn_to(std::size_t term) {
  term_ = term;
  // What the syncer before asked for, its successor asks for again.
  inbox_.asks.clear();
  staged_.clear();
  report_is_new_ = last_post_ > 0;
}

void Communication::sort_in(std::size_t term, link::DownMessage message) {
  const auto& header = message.header;
  if (header.kind == link::DownKind::fault) {
    suffer(term, header);
    return;
  }
  if (header.kind == link::DownKind::fragment) {
    sort_in_fragment(term, std::move(message));
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!listens_to(term) || header.kind == link::DownKind::turn) return;
  if (is_order(header.kind)) {
    // What came before an order was meant for the life before it, save where another pair was
    // quicker.
    inbox_.order = header;
    std::erase_if(inbox_.fragments,
                  [&](const auto& entry) { return !is_for(entry.second.header, header); });
    inbox_.lease.reset();
    inbox_.asks.clear();
    inbox_.pause = false;
    staged_.clear();
  } else if (header.kind == link::DownKind::lease) {
    inbox_.lease = std::move(message);
  } else if (header.kind == link::DownKind::ask) {
    remember(inbox_.asks, header);
  } else if (header.kind == link::DownKind::pause) {
    inbox_.pause = true;
  } else if (header.kind == link::DownKind::finish) {
    inbox_.finish = header;
  } else if (header.kind == link::DownKind::leave) {
    inbox_.leave = true;
  }
}

// Decoded without the lock, which the compute thread may want.
void Communication::sort_in_fragment(std::size_t term, link::DownMessage message) {
  {
    const std::lock_guard lock(mutex_);
    if (!listens_to(term)) return;
  }
  auto fragment = decoder_->decode(std::move(message));
  if (!fragment) return;
  const std::lock_guard lock(mutex_);
  if (!listens_to(term)) return;
  forget_closed(inbox_.asks, fragment->header);
  inbox_.fragments[fragment->header.fragment] = *std::move(fragment);
}

bool Communication::listens_to(std::size_t term) {
  if (only_merges(term)) return term_ == 0;
  if (term > term_) turn_to(term);
  return term == term_;
}

bool Communication::is_cut(std::size_t term) const { return now_seconds() < cut_until_[term]; }

// Each fragment is merged by one of the syncers, until one has taken over.
std::size_t Communication::end_for(int fragment) const {
  return term_ == 0 ? static_cast<std::size_t>(fragment) % syncers_ : term_;
}

// A planned fault (chaos.h) happens where it belongs.
void Communication::suffer(std::size_t term, const link::DownHeader& fault) {
  const auto kind = static_cast<FaultKind>(fault.fault);
  const auto moment = static_cast<Moment>(fault.moment);
  if (kind == FaultKind::drop) {
    const double until = now_seconds() + fault.seconds;
    cut_until_[term] = until;
    for (std::size_t end = 0; end < ends_.size(); ++end) {
      if (term == 0 && only_merges(end)) cut_until_[end] = until;
    }
  } else if (kind == FaultKind::corrupt) {
    disturb({true, {}});
  } else if (kind == FaultKind::stall) {
    disturb({false, [seconds = fault.seconds] { sleep_seconds(seconds); }});
  } else if (kind == FaultKind::fill) {
    pretend_full_disk(fault.seconds);
  } else if (kind == FaultKind::slow || moment == Moment::checkpoint) {
    const std::lock_guard lock(mutex_);
    inbox_.faults.push_back(fault);
  } else if (moment == Moment::transfer) {
    disturb({false, [this, fault] { inflict_(fault); }});
  } else {
    inflict_(fault);
  }
}

// To whichever syncer it goes.
void Communication::disturb(link::Disturbance disturbance) {
  const std::lock_guard lock(mutex_);
  disturbances_.push_back(std::move(disturbance));
}

bool Communication::send_report(std::size_t term) {
  if (is_cut(term)) return false;
  link::Report report;
  {
    const std::lock_guard lock(mutex_);
    if (!is_present(term)) return false;
    const double now = now_seconds();
    const double patience = std::max(kPatienceSeconds, kPatienceSteps * report_.step_seconds);
    const bool expected = report_.phase != link::Phase::playing || now - last_post_ < patience;
    const bool heartbeat =
        last_post_ > 0 && expected && now - last_report_sent_ > kHeartbeatSeconds;
    if (!report_is_new_ && !heartbeat) return false;
    report = report_;
    report_is_new_ = false;
    ++unfinished_;
    last_report_sent_ = now;
  }
  mark(term, ends_[term]->put_report(report));
  const std::lock_guard lock(mutex_);
  --unfinished_;
  return true;
}

bool Communication::send_fragment(std::size_t term) {
  if (!ends_[term]->slot_free()) return false;
  Staged staged;
  {
    const std::lock_guard lock(mutex_);
    const auto next = std::ranges::find_if(
        staged_, [&](const Staged& each) { return end_for(each.header.fragment) == term; });
    if (next == staged_.end() || inbox_.syncer_lost || lost_[term]) return false;
    staged = std::move(*next);
    staged_.erase(next);
  }
  if (is_cut(term)) return true;
  link::Bytes buffer;
  const auto data = encoder_->encode(staged.header, *staged.values, staged.base.get(), buffer);
  {
    const std::lock_guard lock(mutex_);
    if (!disturbances_.empty()) {
      ends_[term]->disturb_next(std::move(disturbances_.front()));
      disturbances_.pop_front();
    }
  }
  mark(term, ends_[term]->put_fragment(staged.header, data));
  return true;
}

}  // namespace archipelago::runtime
