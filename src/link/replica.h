#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "link/link.h"
#include "link/message.h"
#include "mpi/communicator.h"

namespace archipelago::link {

enum class ReplicaKind : std::int32_t {
  event,      // text: an entry of the event tape; of one that merges: with no actions yet
  merged,     // theta and momentum of `fragment` at `version`; the event Merged follows
  chaos,      // the chaos plan was asked at `seconds`, and faults were due
  heartbeat,  // the sender lives; of one that merges, text: what it has counted
  collect,    // asks for every fragment that is held, for this `cut`
  part,       // theta and momentum of `fragment` at `version`, as they stood at `collect`
  finish,     // the run is concluded
};

struct ReplicaHeader {
  ReplicaKind kind = ReplicaKind::heartbeat;
  std::int32_t fragment = 0;
  std::int64_t number = 0;  // counts messages from 1; set by the sender
  std::int64_t text_bytes = 0;
  std::int64_t elements = 0;  // of theta, and as many of momentum
  std::int32_t version = 0;
  std::int32_t orderly = 0;  // finish: nobody died
  double seconds = 0;
  std::int64_t cut = 0;  // number of a global state that is collected
};

struct ReplicaMessage {
  ReplicaHeader header;
  std::string text;
  Values theta;
  Values momentum;
};

// One end of a stream from one syncer to another: from the syncer to its standby, all that this has
// to know to take over; between syncers that share the fragments, what one has to know of the
// other. Never waits. Not thread-safe.
class ReplicaSender {
 public:
  // `comm`: of the two, the sender first.
  explicit ReplicaSender(mpi::Communicator comm);
  ~ReplicaSender();
  ReplicaSender(const ReplicaSender&) = delete;
  ReplicaSender& operator=(const ReplicaSender&) = delete;

  // Returns the message's number. Does nothing once the receiver is lost.
  std::int64_t send_text(ReplicaHeader header, std::string text);
  std::int64_t send_fragment(ReplicaHeader header, std::shared_ptr<const Values> theta,
                             std::shared_ptr<const Values> momentum);

  void poll();

  bool lost() const { return lost_; }                          // the receiver is dead
  bool superseded() const { return superseded_; }              // it has taken over: end at once
  std::int64_t acknowledged() const { return acknowledged_; }  // it has all messages up to this one
  bool drained() const { return lost_ || sending_.empty(); }

  void close();  // collective over the pair

 private:
  struct Sending;

  std::int64_t start(std::unique_ptr<Sending> sending);
  void send_part(Sending& sending, const void* data, std::int64_t bytes, int tag);

  mpi::Communicator comm_;
  std::deque<std::unique_ptr<Sending>> sending_;
  std::int64_t number_ = 0;
  std::int64_t incoming_ = 0;
  MPI_Request receive_ = MPI_REQUEST_NULL;
  std::int64_t acknowledged_ = 0;
  bool lost_ = false;
  bool superseded_ = false;
};

// The other end.
class ReplicaReceiver {
 public:
  explicit ReplicaReceiver(mpi::Communicator comm);
  ReplicaReceiver(const ReplicaReceiver&) = delete;
  ReplicaReceiver& operator=(const ReplicaReceiver&) = delete;

  // Appends what has arrived whole, in order.
  PeerState poll(std::vector<ReplicaMessage>& messages);

  // Tells the sender that everything up to `number` is here.
  void acknowledge(std::int64_t number);

  // Tells a sender that may still live that its term is over.
  void supersede();

  void close();  // collective over the pair

 private:
  enum class Part { header, text, theta, momentum };

  void receive(Part part);
  bool advance(std::vector<ReplicaMessage>& messages);
  void send_word(std::int64_t word);

  mpi::Communicator comm_;
  Part part_ = Part::header;
  ReplicaMessage message_;
  MPI_Request receive_ = MPI_REQUEST_NULL;
  bool lost_ = false;
  std::int64_t word_ = 0;       // on its way up
  std::int64_t next_word_ = 0;  // to follow it
  MPI_Request send_ = MPI_REQUEST_NULL;
};

}  // namespace archipelago::link
