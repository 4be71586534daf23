#include "link/replica.h"

#include <utility>

#include "mpi/check.h"

namespace archipelago::link {
namespace {

constexpr int kSender = 0;  // ranks of the pair
constexpr int kReceiver = 1;

constexpr int kHeaderTag = 1;
constexpr int kTextTag = 2;
constexpr int kValuesTag = 3;
constexpr int kWordTag = 4;

constexpr std::int64_t kSuperseded = -1;  // as a word upwards; others acknowledge

void cancel(MPI_Request& request) {
  if (request == MPI_REQUEST_NULL) return;
  mpi::check(MPI_Cancel(&request), "cancelling a receive of a pair of syncers");
  mpi::check(MPI_Wait(&request, MPI_STATUS_IGNORE), "cancelling a receive of a pair of syncers");
}

}  // namespace

struct ReplicaSender::Sending {
  ReplicaHeader header;
  std::string text;
  std::shared_ptr<const Values> theta;
  std::shared_ptr<const Values> momentum;
  std::vector<MPI_Request> requests;
};

ReplicaSender::ReplicaSender(mpi::Communicator comm) : comm_(std::move(comm)) {
  mpi::check(MPI_Irecv(&incoming_, 1, MPI_INT64_T, kReceiver, kWordTag, comm_.get(), &receive_),
             "listening to another syncer");
}

ReplicaSender::~ReplicaSender() {
  // MPI may still look at what was on its way to a dead receiver.
  for (auto& sending : sending_) static_cast<void>(sending.release());
}

std::int64_t ReplicaSender::send_text(ReplicaHeader header, std::string text) {
  auto sending = std::make_unique<Sending>();
  sending->header = header;
  sending->header.text_bytes = static_cast<std::int64_t>(text.size());
  sending->text = std::move(text);
  return start(std::move(sending));
}

std::int64_t ReplicaSender::send_fragment(ReplicaHeader header, std::shared_ptr<const Values> theta,
                                          std::shared_ptr<const Values> momentum) {
  auto sending = std::make_unique<Sending>();
  sending->header = header;
  sending->header.elements = static_cast<std::int64_t>(theta->size());
  sending->theta = std::move(theta);
  sending->momentum = std::move(momentum);
  return start(std::move(sending));
}

std::int64_t ReplicaSender::start(std::unique_ptr<Sending> sending) {
  if (lost_) return number_;
  sending->header.number = ++number_;
  Sending& message = *sending;
  sending_.push_back(std::move(sending));
  send_part(message, &message.header, sizeof message.header, kHeaderTag);
  send_part(message, message.text.data(), message.header.text_bytes, kTextTag);
  if (message.theta) {
    const auto bytes = message.header.elements * static_cast<std::int64_t>(sizeof(float));
    send_part(message, message.theta->data(), bytes, kValuesTag);
    send_part(message, message.momentum->data(), bytes, kValuesTag);
  }
  return number_;
}

void ReplicaSender::send_part(Sending& sending, const void* data, std::int64_t bytes, int tag) {
  if (lost_ || bytes == 0) return;
  sending.requests.push_back(MPI_REQUEST_NULL);
  const int code = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, kReceiver, tag, comm_.get(),
                             &sending.requests.back());
  lost_ = mpi::outcome_of(code, "sending to another syncer") != mpi::Outcome::ok;
}

void ReplicaSender::poll() {
  while (!lost_ && !superseded_) {
    int done = 0;
    lost_ = mpi::outcome_of(MPI_Test(&receive_, &done, MPI_STATUS_IGNORE),
                            "listening to another syncer") != mpi::Outcome::ok;
    if (lost_ || !done) break;
    if (incoming_ == kSuperseded) {
      superseded_ = true;
    } else {
      acknowledged_ = incoming_;
      mpi::check(MPI_Irecv(&incoming_, 1, MPI_INT64_T, kReceiver, kWordTag, comm_.get(), &receive_),
                 "listening to another syncer");
    }
  }
  while (!lost_ && !sending_.empty()) {
    for (MPI_Request& request : sending_.front()->requests) {
      if (request == MPI_REQUEST_NULL) continue;
      int done = 0;
      lost_ = mpi::outcome_of(MPI_Test(&request, &done, MPI_STATUS_IGNORE),
                              "sending to another syncer") != mpi::Outcome::ok;
      if (lost_ || !done) return;
    }
    sending_.pop_front();
  }
}

void ReplicaSender::close() {
  cancel(receive_);
  comm_.close();
}

ReplicaReceiver::ReplicaReceiver(mpi::Communicator comm) : comm_(std::move(comm)) {
  receive(Part::header);
}

void ReplicaReceiver::receive(Part part) {
  part_ = part;
  void* data = &message_.header;
  std::size_t bytes = sizeof message_.header;
  int tag = kHeaderTag;
  if (part == Part::text) {
    message_.text.resize(static_cast<std::size_t>(message_.header.text_bytes));
    data = message_.text.data();
    bytes = message_.text.size();
    tag = kTextTag;
  } else if (part != Part::header) {
    Values& values = part == Part::theta ? message_.theta : message_.momentum;
    values.resize(static_cast<std::size_t>(message_.header.elements));
    data = values.data();
    bytes = values.size() * sizeof(float);
    tag = kValuesTag;
  }
  mpi::check(
      MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, kSender, tag, comm_.get(), &receive_),
      "listening to another syncer");
}

PeerState ReplicaReceiver::poll(std::vector<ReplicaMessage>& messages) {
  while (!lost_) {
    int done = 0;
    lost_ = mpi::outcome_of(MPI_Test(&receive_, &done, MPI_STATUS_IGNORE),
                            "listening to another syncer") != mpi::Outcome::ok;
    if (lost_) break;
    if (send_ != MPI_REQUEST_NULL) {
      int sent = 0;
      lost_ = mpi::outcome_of(MPI_Test(&send_, &sent, MPI_STATUS_IGNORE),
                              "answering another syncer") != mpi::Outcome::ok;
    }
    if (send_ == MPI_REQUEST_NULL && next_word_ != word_) send_word(next_word_);
    if (!done) return lost_ ? PeerState::lost : PeerState::alive;
    if (!advance(messages)) receive(Part::header);
  }
  return PeerState::lost;
}

// Goes on with the next part of the message; false: it was the last one.
bool ReplicaReceiver::advance(std::vector<ReplicaMessage>& messages) {
  if (part_ == Part::header && message_.header.text_bytes > 0) {
    receive(Part::text);
  } else if (part_ == Part::header && message_.header.elements > 0) {
    receive(Part::theta);
  } else if (part_ == Part::theta) {
    receive(Part::momentum);
  } else {
    messages.push_back(std::exchange(message_, {}));
    return false;
  }
  return true;
}

void ReplicaReceiver::acknowledge(std::int64_t number) {
  next_word_ = number;
  if (!lost_ && send_ == MPI_REQUEST_NULL) send_word(number);
}

void ReplicaReceiver::send_word(std::int64_t word) {
  word_ = word;
  const int code = MPI_Isend(&word_, 1, MPI_INT64_T, kSender, kWordTag, comm_.get(), &send_);
  lost_ = mpi::outcome_of(code, "answering another syncer") != mpi::Outcome::ok;
}

void ReplicaReceiver::supersede() {
  if (!lost_) send_word(kSuperseded);
}

void ReplicaReceiver::close() {
  cancel(receive_);
  comm_.close();
}

}  // namespace archipelago::link
