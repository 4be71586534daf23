#include "link/tls_leader_end.h"

#include <span>
#include <utility>

#include "core/log.h"
#include "link/tls_frames.h"

namespace archipelago::link {
namespace {

using State = TlsStream::State;

constexpr double kLookSeconds = 1;
constexpr double kFarewellSeconds = 5;

}  // namespace

TlsLeaderEnd::TlsLeaderEnd(TlsConnection connection, const MailboxLayout& layout)
    : MailboxLeaderEnd(layout), layout_(layout), stream_(connection.take_stream()) {}

TlsLeaderEnd::~TlsLeaderEnd() {
  if (!syncer_lost()) stream_.finish(kFarewellSeconds);
}

bool TlsLeaderEnd::put(std::initializer_list<Piece> pieces, const char* doing) {
  for (const Piece& piece : pieces) {
    const TlsPut put{piece.offset, piece.bytes.size()};
    if (!write(std::as_bytes(std::span(&put, 1)), doing) || !write(piece.bytes, doing)) {
      return false;
    }
  }
  return true;
}

bool TlsLeaderEnd::put_flag(const std::uint64_t& flag, std::size_t offset, const char* doing) {
  return put({{std::as_bytes(std::span(&flag, 1)), offset}}, doing);
}

// Waits for room: this is the communication thread. The system ends the connection when the other
// end is gone for half a minute.
bool TlsLeaderEnd::write(std::span<const std::byte> bytes, const char* doing) {
  while (!bytes.empty()) {
    std::size_t done = 0;
    const State state = stream_.write(bytes, done);
    bytes = bytes.subspan(done);
    if (state == State::ended) {
      lose(doing, stream_.problem());
      return false;
    }
    if (state != State::ready) static_cast<void>(wait_for(stream_, state, kLookSeconds));
  }
  return true;
}

PeerState TlsLeaderEnd::poll(std::vector<DownMessage>& messages) {
  while (!syncer_lost() && read_on()) {
    if (received_ < sizeof incoming_.header) continue;
    if (received_ == sizeof incoming_.header) {
      if (!is_sound(incoming_.header, layout_)) {
        lose("receiving from the syncer", "its message is none");
        break;
      }
      incoming_.data.resize(static_cast<std::size_t>(incoming_.header.bytes));
    }
    if (received_ < sizeof incoming_.header + incoming_.data.size()) continue;
    deliver(std::exchange(incoming_, {}), messages);
    received_ = 0;
  }
  return state();
}

// Reads what comes next of the header or the data; false when nothing is there.
bool TlsLeaderEnd::read_on() {
  const auto header = std::as_writable_bytes(std::span(&incoming_.header, 1));
  const auto rest = received_ < header.size()
                        ? header.subspan(received_)
                        : std::span<std::byte>(incoming_.data).subspan(received_ - header.size());
  std::size_t done = 0;
  const State state = stream_.read(rest, done);
  received_ += done;
  if (state == State::ended) lose("receiving from the syncer", stream_.problem());
  return state == State::ready;
}

void TlsLeaderEnd::lose(const std::string& doing, const std::string& why) {
  log_line(LogLevel::debug, doing + ": " + why);  // the run may be over
  lose_syncer();
}

}  // namespace archipelago::link
