#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/log.h"
#include "runtime/clock.h"
#include "runtime/record_lines.h"
#include "runtime/syncer_process.h"

namespace archipelago::runtime {

void SyncerProcess::inflict_chaos() {
  if (!statistics_.started() || finish_) return;
  const double seconds = statistics_.seconds(now_seconds());
  const auto faults = chaos_.due(seconds, machine_.learners());
  if (standby_ != nullptr && !faults.empty()) {
    link::ReplicaHeader header;
    header.kind = link::ReplicaKind::chaos;
    header.seconds = seconds;
    standby_->send_text(header, "");
  }
  for (const Fault& fault : faults) inflict(fault);
}

void SyncerProcess::inflict(const Fault& fault) {
  const auto& view = machine_.learners()[static_cast<std::size_t>(fault.learner)];
  const auto peer = peer_of(fault.learner, view.incarnation);
  if (!peer) return;
  log_warning("chaos: " + to_string(fault.kind) +
              (fault.kind == FaultKind::fill ? " the disk"
                                             : " learner " + std::to_string(fault.learner) +
                                                   " at step " + std::to_string(view.step)));
  record_.add_event(fault_line(elapsed_ns(), fault, view));
  link::DownHeader header;
  header.kind = link::DownKind::fault;
  header.fault = static_cast<std::int32_t>(fault.kind);
  header.fault_rank = fault.rank;
  header.moment = static_cast<std::int32_t>(fault.moment);
  header.seconds = fault.seconds;
  header.factor = fault.factor;
  if (fault.kind != FaultKind::fill) {
    link_.send(*peer, header);
    return;
  }
  pretend_full_disk(fault.seconds);
  for (std::size_t each = 0; each < islands_.size(); ++each) {
    if (!islands_[each].lost) link_.send(static_cast<int>(each), header);
  }
}

// MPI loses no message, but a pair may (a planned fault, a damaged message that was dropped): what
// a report still lacks long after it was sent is sent again.
void SyncerProcess::mend(int peer, const link::Report& report) {
  IslandBook& book = islands_[static_cast<std::size_t>(peer)];
  const double now = now_seconds();
  if (now < book.next_mend || link_.data_in_flight(peer) > 0) return;
  book.next_mend = now + mend_pause(report.step_seconds);
  const auto before = std::exchange(book.sent, {book.order.number, state_.versions(), paused_});
  if (report.orders < before.orders) {
    link_.send(peer, book.order.header);
    send_lease(peer);
    if (book.learner >= 0) sender_.mark_all(peer);
  } else if (report.orders == book.order.number && book.learner >= 0 &&
             before.orders == book.order.number) {
    if (book.order.lease && report.lease < before.lease) send_lease(peer);
    sender_.mark_older(peer, report.held, before.versions);
    if (before.paused && report.phase == link::Phase::playing) send_pause(peer);
  }
  book.sent.lease = book.order.lease ? book.order.lease->header.round : 0;
  if (before.finishing && report.phase != link::Phase::finished) send_finish(peer);
  book.sent.finishing = finish_.has_value();
}

}  // namespace archipelago::runtime
