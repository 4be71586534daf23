#include "link/tls_syncer_end.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "link/tls_frames.h"

namespace archipelago::link {
namespace {

using State = TlsStream::State;

// Zeroed; a page of it costs nothing before it is used.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(std::calloc(bytes, 1)), size_(bytes) {
    if (bytes_ == nullptr) throw std::bad_alloc();
  }
  ~Memory() { std::free(bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::span<std::byte> span() const { return {static_cast<std::byte*>(bytes_), size_}; }

 private:
  void* bytes_;
  std::size_t size_;
};

FileDescriptor make_bell() {
  FileDescriptor bell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!bell.valid()) {
    throw Error(ExitCode::internal,
                std::string("no more events can be waited for: ") + std::strerror(errno));
  }
  return bell;
}

}  // namespace

class TlsSyncerEnd::Peer {
 public:
  Peer(TlsConnection connection, const MailboxLayout& layout)
      : layout_(layout),
        stream_(connection.take_stream()),
        memory_(layout.bytes()),
        bell_(make_bell()),
        reader_(layout, memory_.span()),
        thread_([this] { run(); }) {}
  ~Peer() {
    stopping_ = true;
    ring();
    thread_.join();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // ---- for the syncer's thread ----

  bool has_ended() const { return ended_; }
  bool seen_to_end = false;
  bool lost = false;  // and poll() has said so

  std::optional<Report> read_report() {
    const std::lock_guard lock(mutex_);
    return reader_.read_report();
  }
  std::optional<ArrivedFragment> read_fragment(std::optional<int>& damaged_slot) {
    const std::lock_guard lock(mutex_);
    return reader_.read_fragment(damaged_slot);
  }
  void send(const DownHeader& header, const Payload& data) {
    const std::lock_guard lock(mutex_);
    sending_.push_back({header, data});
    ring();
  }
  int data_in_flight() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(sending_.begin(), sending_.end(),
                                          [](const auto& s) { return s.header.bytes > 0; }));
  }
  bool drained() const {
    const std::lock_guard lock(mutex_);
    return ended_ || sending_.empty();
  }

 private:
  struct Sending {
    DownHeader header;
    Payload data;
  };

  void ring() {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(bell_.get(), &one, sizeof one));
  }

  // ---- on the thread ----

  void run() noexcept try {
    while (!stopping_ && !ended_) {
      const State reading = read_some();
      const State writing = write_some();
      if (reading == State::ended || writing == State::ended) {
        end(stream_.problem());
      } else if (reading != State::ready && writing != State::ready) {
        wait(reading, writing);
      }
    }
  } catch (const std::exception& error) {
    end(error.what());
  }

  void end(const std::string& why) noexcept {
    if (!stopping_) log_info("the connection with a guest has ended: " + why);
    ::shutdown(stream_.socket(), SHUT_RDWR);  // the other end hears of it
    ended_ = true;
  }

  void wait(State reading, State writing) {
    const bool wants_room = reading == State::wants_write || writing == State::wants_write;
    pollfd waiting[2] = {
        {stream_.socket(), static_cast<short>(wants_room ? POLLIN | POLLOUT : POLLIN), 0},
        {bell_.get(), POLLIN, 0}};
    ::poll(waiting, 2, -1);
    std::uint64_t rings = 0;
    static_cast<void>(!::read(bell_.get(), &rings, sizeof rings));
  }

  // Where the bytes of the put that is coming in belong: what the syncer reads at any time waits
  // beside the mailbox until it is whole, a fragment's data goes to its slot at once.
  std::span<std::byte> target() {
    return is_small() ? std::span<std::byte>(small_)
                      : memory_.span().subspan(put_.offset, put_.bytes);
  }
  bool is_small() const {
    return put_.bytes <= std::max(layout_.report_bytes(), sizeof(SlotHeader));
  }

  // Ready where there may be more.
  State read_some() {
    std::size_t done = 0;
    if (received_ < sizeof put_) {
      const State state =
          stream_.read(std::as_writable_bytes(std::span(&put_, 1)).subspan(received_), done);
      received_ += done;
      if (received_ < sizeof put_) return state;
      if (!is_within(put_, layout_)) {
        end("what it sends is none of a leader's messages");
        return State::ready;
      }
      if (is_small()) small_.resize(put_.bytes);
    }
    const State state = stream_.read(target().subspan(received_ - sizeof put_), done);
    received_ += done;
    if (received_ == sizeof put_ + put_.bytes) take_in();
    return state;
  }

  void take_in() {
    if (is_small()) {
      const std::lock_guard lock(mutex_);
      std::ranges::copy(small_, memory_.span().subspan(put_.offset).begin());
    }
    received_ = 0;
  }

  // Wants to read where there is nothing to send.
  State write_some() {
    DownHeader header;
    Payload data;
    {
      const std::lock_guard lock(mutex_);
      if (sending_.empty()) return State::wants_read;
      header = sending_.front().header;
      data = sending_.front().data;
    }
    const auto words = std::as_bytes(std::span(&header, 1));
    const auto rest =
        sent_ < words.size() ? words.subspan(sent_) : data.bytes().subspan(sent_ - words.size());
    std::size_t done = 0;
    const State state = stream_.write(rest, done);
    sent_ += done;
    if (sent_ == words.size() + data.bytes().size()) {
      const std::lock_guard lock(mutex_);
      sending_.pop_front();
      sent_ = 0;
    }
    return state;
  }

  MailboxLayout layout_;
  TlsStream stream_;
  Memory memory_;
  FileDescriptor bell_;

  mutable std::mutex mutex_;
  MailboxReader reader_;
  std::deque<Sending> sending_;

  // The thread's.
  TlsPut put_;
  std::vector<std::byte> small_;
  std::size_t received_ = 0;  // bytes of the put and what follows it
  std::size_t sent_ = 0;      // of the first message that is queued

  std::atomic<bool> ended_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

TlsSyncerEnd::TlsSyncerEnd(const MailboxLayout& layout) : MailboxSyncerEnd(layout, "guest") {}

TlsSyncerEnd::~TlsSyncerEnd() = default;

int TlsSyncerEnd::add(TlsConnection connection) {
  peers_.push_back(std::make_unique<Peer>(std::move(connection), layout()));
  return peers() - 1;
}

void TlsSyncerEnd::wait_for_leaders(double seconds) const {
  constexpr std::chrono::milliseconds kPause{2};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const auto has_ended = [](const auto& peer) { return peer->has_ended(); };
  while (!std::ranges::all_of(peers_, has_ended) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPause);
  }
}

void TlsSyncerEnd::poll(std::vector<int>& lost) {
  for (int i = 0; i < peers(); ++i) {
    Peer& peer = peer_at(i);
    if (!peer.has_ended()) continue;
    // What it has said last is read first.
    if (!std::exchange(peer.seen_to_end, true)) continue;
    if (!std::exchange(peer.lost, true)) lost.push_back(i);
  }
}

bool TlsSyncerEnd::is_lost(int peer) const { return peer_at(peer).lost; }

std::optional<Report> TlsSyncerEnd::take_report(int peer) { return peer_at(peer).read_report(); }

std::optional<ArrivedFragment> TlsSyncerEnd::take_fragment(int peer,
                                                           std::optional<int>& damaged_slot) {
  return peer_at(peer).read_fragment(damaged_slot);
}

void TlsSyncerEnd::queue(int peer, const DownHeader& header, const Payload& data) {
  peer_at(peer).send(header, data);
}

int TlsSyncerEnd::data_in_flight(int peer) const { return peer_at(peer).data_in_flight(); }

bool TlsSyncerEnd::drained() const {
  return std::ranges::all_of(peers_, [](const auto& peer) { return peer->drained(); });
}

}  // namespace archipelago::link
