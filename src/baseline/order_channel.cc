#include "baseline/order_channel.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "mpi/check.h"
#include "mpi/communicator.h"
#include "mpi/session.h"
#include "runtime/chaos.h"
#include "runtime/clock.h"

namespace archipelago::baseline {
namespace {

constexpr char kListening[] = "listening to the coordinator";
constexpr char kAnswering[] = "answering the coordinator";

void require_coordinator(mpi::Outcome outcome) {
  if (outcome != mpi::Outcome::ok) {
    throw Error(ExitCode::internal, "the coordinator has died; start the run anew");
  }
}

Order order_from(const std::vector<std::byte>& bytes) {
  Order order;
  std::memcpy(&order.header, bytes.data(), sizeof order.header);
  order.members.resize(static_cast<std::size_t>(order.header.members));
  std::memcpy(order.members.data(), bytes.data() + sizeof order.header,
              order.members.size() * sizeof(RingMember));
  return order;
}

}  // namespace

OrderChannel::OrderChannel(int most_members)
    : bytes_(sizeof(OrderHeader) + static_cast<std::size_t>(most_members) * sizeof(RingMember)) {
  post();
}

void OrderChannel::post() {
  require_coordinator(
      mpi::outcome_of(MPI_Irecv(bytes_.data(), static_cast<int>(bytes_.size()), MPI_BYTE,
                                kCoordinator, kOrderTag, MPI_COMM_WORLD, &request_),
                      kListening));
}

bool OrderChannel::has_order() {
  const std::lock_guard lock(mutex_);
  while (!waiting_) {
    int done = 0;
    require_coordinator(mpi::outcome_of(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), kListening));
    if (done == 0) return false;
    Order order = order_from(bytes_);
    if (order.header.kind == OrderKind::fault) {
      strike(order.header);
    } else {
      waiting_ = std::move(order);
    }
    // The last order has none after it.
    if (!waiting_ || waiting_->header.kind != OrderKind::leave) post();
  }
  return true;
}

Order OrderChannel::take() {
  constexpr double kLongestPause = 0.002;
  constexpr double kShare = 0.02;  // of the time waited so far
  const double began = runtime::now_seconds();
  while (!has_order()) {
    const double waited = runtime::now_seconds() - began;
    runtime::sleep_seconds(std::clamp(kShare * waited, 0.0001, kLongestPause));
  }
  const std::lock_guard lock(mutex_);
  return *std::exchange(waiting_, std::nullopt);
}

void OrderChannel::answer(const Answer& answer) {
  while (!sent_.empty()) {
    int done = 0;
    require_coordinator(
        mpi::outcome_of(MPI_Test(&sent_.front().request, &done, MPI_STATUS_IGNORE), kAnswering));
    if (done == 0) break;
    sent_.pop_front();
  }
  Sent& sent = sent_.emplace_back();
  sent.answer = answer;
  require_coordinator(
      mpi::outcome_of(MPI_Isend(&sent.answer, sizeof sent.answer, MPI_BYTE, kCoordinator,
                                kAnswerTag, MPI_COMM_WORLD, &sent.request),
                      kAnswering));
}

void OrderChannel::flush() {
  for (Sent& sent : sent_) require_coordinator(mpi::wait(sent.request, kAnswering));
  sent_.clear();
}

double OrderChannel::slowness() const {
  return runtime::now_seconds() < slow_until_ ? slow_factor_.load() : 1;
}

void OrderChannel::strike(const OrderHeader& fault) {
  if (fault.fault == static_cast<std::int32_t>(runtime::FaultKind::kill)) mpi::die_visibly();
  slow_factor_ = fault.factor;
  slow_until_ = runtime::now_seconds() + fault.seconds;
  log_warning("slowed " + std::to_string(fault.factor) + " times by the chaos plan");
}

}  // namespace archipelago::baseline
