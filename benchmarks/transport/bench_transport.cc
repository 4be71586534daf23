// bench_transport TURNS MEBIBYTES_A_TURN KIBIBYTES...
//
// Two ranks, a leader and a syncer, exchange fragments of each size through the project's own pair,
// and raw MPI_Put with flush, in turns; the raw puts go to where the fragments' data stands, to one
// slot after the other, since some memory is quicker than other. Prints a line for each size:
// kibibytes, then the medians over the turns in bytes a second of raw puts and of fragments (sent,
// read by the syncer and acknowledged), and of the turns' ratios of the two.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "link/mpi_leader_end.h"
#include "link/mpi_pair.h"
#include "link/mpi_syncer_end.h"
#include "mpi/check.h"
#include "mpi/session.h"
#include "runtime/clock.h"

namespace {

using namespace archipelago;
using runtime::now_seconds;

constexpr int kSyncerRank = 0;
constexpr double kPollSeconds = 0.0002;
constexpr std::int64_t kLastRound = -1;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The syncer's loop, as in a run: it makes progress, reads what has arrived, gives the slot back.
void play_syncer(link::MpiSyncerEnd& end) {
  std::vector<int> lost;
  for (bool last = false; !last || !end.drained();) {
    end.poll(lost);
    if (!lost.empty()) throw Error(ExitCode::internal, "the leader died");
    bool read = false;
    while (const auto fragment = end.read_fragment(0)) {
      read = true;
      last = fragment->header.round == kLastRound;
      end.acknowledge(0, fragment->slot);
    }
    if (!read) runtime::sleep_seconds(kPollSeconds);
  }
}

class Leader {
 public:
  Leader(link::MpiPair pair, const link::MailboxLayout& layout, std::vector<float> values)
      : layout_(layout),
        window_(pair.window.get()),
        end_(std::move(pair), layout),
        values_(std::move(values)) {}

  double raw_seconds(int count) {
    const double started = now_seconds();
    for (int i = 0; i < count; ++i) {
      const auto place =
          static_cast<MPI_Aint>(layout_.data_offset(i % link::MailboxLayout::kSlots));
      const auto bytes = static_cast<int>(values_.size() * sizeof(float));
      mpi::check(MPI_Put(values_.data(), bytes, MPI_BYTE, link::MpiPair::kSyncer, place, bytes,
                         MPI_BYTE, window_),
                 "putting");
      mpi::check(MPI_Win_flush(link::MpiPair::kSyncer, window_), "putting");
    }
    return now_seconds() - started;
  }

  double fragment_seconds(int count) {
    const double started = now_seconds();
    for (int i = 0; i < count; ++i) send(1);
    wait_for_slots(link::MailboxLayout::kSlots);
    return now_seconds() - started;
  }

  void finish() {
    send(kLastRound);
    wait_for_slots(link::MailboxLayout::kSlots);
    end_.close();
  }

 private:
  static void require(bool alive) {
    if (!alive) throw Error(ExitCode::internal, "the syncer died");
  }

  void send(std::int64_t round) {
    wait_for_slots(1);
    link::FragmentHeader header;
    header.round = round;
    header.elements = static_cast<std::int64_t>(values_.size());
    require(end_.put_fragment(header, std::as_bytes(std::span(values_))) == link::PeerState::alive);
  }

  void wait_for_slots(int count) {
    std::vector<link::DownMessage> none;
    for (;;) {
      require(end_.poll(none) == link::PeerState::alive);
      if (end_.free_slots() >= count) return;
      runtime::sleep_seconds(kPollSeconds);
    }
  }

  link::MailboxLayout layout_;
  MPI_Win window_;
  link::MpiLeaderEnd end_;
  std::vector<float> values_;
};

void measure(Leader& leader, std::int64_t kibibytes, int turns, std::int64_t mebibytes) {
  const auto count = static_cast<int>(std::max<std::int64_t>(4, (mebibytes << 10) / kibibytes));
  const double bytes = static_cast<double>(count) * static_cast<double>(kibibytes << 10);
  leader.raw_seconds(1);
  leader.fragment_seconds(2);
  std::vector<double> raw, fragments, ratios;
  for (int turn = 0; turn < turns; ++turn) {
    const double before = leader.raw_seconds(count);
    const double ours = leader.fragment_seconds(count);
    const double after = leader.raw_seconds(count);
    raw.push_back(bytes / std::min(before, after));
    fragments.push_back(bytes / ours);
    ratios.push_back(std::min(before, after) / ours);
  }
  std::printf("%lld %.6g %.6g %.4f\n", static_cast<long long>(kibibytes), median(raw),
              median(fragments), median(ratios));
  std::fflush(stdout);
}

void play(mpi::Session& session, std::int64_t kibibytes, int turns, std::int64_t mebibytes,
          int tag) {
  const std::int64_t elements = (kibibytes << 10) / static_cast<std::int64_t>(sizeof(float));
  const link::MailboxLayout layout(1, kibibytes << 10);
  auto pair = link::MpiPair::create(0, 1, tag, layout);
  if (!pair) throw Error(ExitCode::internal, "a rank died");
  if (session.rank() == kSyncerRank) {
    link::MpiSyncerEnd end(layout);
    end.add(std::move(*pair));
    play_syncer(end);
    end.close();
  } else {
    std::vector<float> values(static_cast<std::size_t>(elements));
    std::iota(values.begin(), values.end(), 1.0F);
    Leader leader(std::move(*pair), layout, std::move(values));
    measure(leader, kibibytes, turns, mebibytes);
    leader.finish();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: bench_transport TURNS MEBIBYTES_A_TURN KIBIBYTES...\n");
    return static_cast<int>(ExitCode::usage);
  }
  mpi::Session session;
  try {
    for (int i = 3; i < argc; ++i) {
      play(session, std::atoll(argv[i]), std::atoi(argv[1]), std::atoll(argv[2]), i);
    }
  } catch (const Error& error) {
    log_error(error.what());
    mpi::die_visibly();
  }
  session.leave(0, mpi::Ending::orderly);
}
