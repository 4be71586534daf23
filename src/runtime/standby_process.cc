#include "runtime/standby_process.h"

#include <utility>
#include <vector>

#include "core/log.h"
#include "runtime/clock.h"

namespace archipelago::runtime {
namespace {

constexpr double kPollSeconds = 0.001;

}  // namespace

StandbyProcess::StandbyProcess(link::ReplicaReceiver& syncer, Mirror& mirror, double silence)
    : syncer_(syncer), mirror_(mirror), silence_(silence) {}

StandbyProcess::End StandbyProcess::run() {
  std::vector<link::ReplicaMessage> messages;
  double last_heard = now_seconds();
  double last_turn = last_heard;
  for (;;) {
    const double now = now_seconds();
    // Where this process itself was held up, the syncer's words may wait to be read.
    if (now - last_turn > silence_ / 2) last_heard = now;
    last_turn = now;
    messages.clear();
    const auto state = syncer_.poll(messages);
    for (auto& message : messages) {
      const auto header = message.header;
      last_heard = now;
      if (header.kind == link::ReplicaKind::finish) {
        return header.orderly != 0 ? End::concluded : End::concluded_after_losses;
      }
      mirror_.apply(std::move(message));
      syncer_.acknowledge(header.number);
    }
    if (state == link::PeerState::lost) {
      log_warning("the syncer is dead; the standby takes over");
      return End::take_over;
    }
    if (now - last_heard > silence_) {
      log_warning("the syncer is silent; the standby takes over");
      syncer_.supersede();
      return End::take_over;
    }
    if (messages.empty()) sleep_seconds(kPollSeconds);
  }
}

}  // namespace archipelago::runtime
