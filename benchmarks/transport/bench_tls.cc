// bench_tls TURNS MEBIBYTES_A_TURN KIBIBYTES...
//
// Two threads, a guest's leader and a syncer, exchange fragments of each size through the project's
// pair over TLS on the loopback, and plain TCP with an acknowledgment of a byte, in turns. Prints a
// line for each size: kibibytes, then the medians over the turns in bytes a second of plain TCP and
// of fragments (sent, read by the syncer and acknowledged), and of the turns' ratios of the two.

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "link/tls_leader_end.h"
#include "link/tls_listener.h"
#include "link/tls_syncer_end.h"
#include "runtime/clock.h"

namespace {

using namespace archipelago;
using runtime::now_seconds;

constexpr double kPollSeconds = 0.0002;
constexpr double kConnectSeconds = 10;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(ExitCode::internal, what);
}

// ---- Plain TCP ----

struct Sockets {
  FileDescriptor sender;
  FileDescriptor receiver;
};

Sockets connected_sockets() {
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  require(::bind(listener.get(), generic, size) == 0 && ::listen(listener.get(), 1) == 0 &&
              ::getsockname(listener.get(), generic, &size) == 0,
          "listening");
  Sockets sockets{FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0)), {}};
  require(::connect(sockets.sender.get(), generic, size) == 0, "connecting");
  sockets.receiver = FileDescriptor(::accept(listener.get(), nullptr, nullptr));
  for (const int socket : {sockets.sender.get(), sockets.receiver.get()}) {
    link::set_socket_options(socket);
  }
  return sockets;
}

// The receiver's thread: whole messages of so many bytes, each answered by a byte.
void acknowledge_all(const Sockets& sockets, std::size_t bytes) {
  std::vector<char> memory(bytes);
  for (;;) {
    for (std::size_t have = 0; have < bytes;) {
      const auto got = ::recv(sockets.receiver.get(), memory.data() + have, bytes - have, 0);
      if (got <= 0) return;
      have += static_cast<std::size_t>(got);
    }
    const char answer = 1;
    if (::send(sockets.receiver.get(), &answer, 1, MSG_NOSIGNAL) != 1) return;
  }
}

double plain_seconds(const Sockets& sockets, std::span<const std::byte> data, int count) {
  const double started = now_seconds();
  for (int i = 0; i < count; ++i) {
    for (auto rest = data; !rest.empty();) {
      const auto sent = ::send(sockets.sender.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      require(sent > 0, "sending");
      rest = rest.subspan(static_cast<std::size_t>(sent));
    }
    char answer = 0;
    require(::recv(sockets.sender.get(), &answer, 1, 0) == 1, "waiting for an answer");
  }
  return now_seconds() - started;
}

// ---- The pair over TLS ----

class Pair {
 public:
  explicit Pair(const link::MailboxLayout& layout) : syncer_(layout) {
    const link::Secret secret = link::random_secret();
    link::TlsListener listener({"127.0.0.1", 0}, secret);
    auto leader = std::async(std::launch::async, [&] {
      return link::TlsConnection::connect(listener.address(), secret, kConnectSeconds);
    });
    auto accepted = listener.accept(kConnectSeconds);
    require(accepted.has_value(), "waiting for the leader");
    syncer_.add(std::move(*accepted));
    leader_ = std::make_unique<link::TlsLeaderEnd>(leader.get(), layout);
    thread_ = std::thread([this] { acknowledge_all(); });
  }
  ~Pair() {
    stopping_ = true;
    thread_.join();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  double seconds(std::span<const std::byte> data, int count) {
    const double started = now_seconds();
    for (int i = 0; i < count; ++i) {
      wait_for_slots(1);
      require(leader_->put_fragment({}, data) == link::PeerState::alive, "putting a fragment");
    }
    wait_for_slots(link::MailboxLayout::kSlots);
    return now_seconds() - started;
  }

 private:
  void wait_for_slots(int count) {
    std::vector<link::DownMessage> none;
    while (leader_->free_slots() < count) {
      require(leader_->poll(none) == link::PeerState::alive, "waiting for a slot");
      if (leader_->free_slots() < count) runtime::sleep_seconds(kPollSeconds);
    }
  }

  // The syncer's loop, as in a run.
  void acknowledge_all() {
    while (!stopping_) {
      const auto fragment = syncer_.read_fragment(0);
      if (fragment) {
        syncer_.acknowledge(0, fragment->slot);
      } else {
        runtime::sleep_seconds(kPollSeconds);
      }
    }
  }

  link::TlsSyncerEnd syncer_;
  std::unique_ptr<link::TlsLeaderEnd> leader_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

void measure(std::int64_t kibibytes, int turns, std::int64_t mebibytes) {
  const auto count = static_cast<int>(std::max<std::int64_t>(4, (mebibytes << 10) / kibibytes));
  const std::vector<std::byte> data(static_cast<std::size_t>(kibibytes) << 10, std::byte{7});
  const double bytes = static_cast<double>(count) * static_cast<double>(data.size());
  Sockets sockets = connected_sockets();
  std::thread receiver([&] { acknowledge_all(sockets, data.size()); });
  {
    Pair pair(link::MailboxLayout(1, static_cast<std::int64_t>(data.size())));
    plain_seconds(sockets, data, 1);
    pair.seconds(data, 2);
    std::vector<double> plain, fragments, ratios;
    for (int turn = 0; turn < turns; ++turn) {
      const double before = plain_seconds(sockets, data, count);
      const double ours = pair.seconds(data, count);
      plain.push_back(bytes / before);
      fragments.push_back(bytes / ours);
      ratios.push_back(before / ours);
    }
    std::printf("%lld %.6g %.6g %.4f\n", static_cast<long long>(kibibytes), median(plain),
                median(fragments), median(ratios));
    std::fflush(stdout);
  }
  sockets.sender.reset();
  receiver.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: bench_tls TURNS MEBIBYTES_A_TURN KIBIBYTES...\n");
    return static_cast<int>(ExitCode::usage);
  }
  try {
    for (int i = 3; i < argc; ++i) {
      measure(std::atoll(argv[i]), std::atoi(argv[1]), std::atoll(argv[2]));
    }
  } catch (const Error& error) {
    log_error(error.what());
    return static_cast<int>(error.code());
  }
}
