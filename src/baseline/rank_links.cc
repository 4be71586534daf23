#include "baseline/rank_links.h"

#include <algorithm>
#include <cstring>

#include "mpi/check.h"

namespace archipelago::baseline {
namespace {

constexpr char kListening[] = "listening to a rank";
constexpr char kTelling[] = "telling a rank what to do";

}  // namespace

RankLinks::RankLinks(int world_size) : links_(static_cast<std::size_t>(world_size)) {
  for (int rank = kCoordinator + 1; rank < world_size; ++rank) listen(rank);
}

void RankLinks::listen(int rank) {
  Link& link = links_[static_cast<std::size_t>(rank)];
  link.refused = mpi::outcome_of(MPI_Irecv(&link.answer, sizeof link.answer, MPI_BYTE, rank,
                                           kAnswerTag, MPI_COMM_WORLD, &link.request),
                                 kListening) != mpi::Outcome::ok;
  link.open = true;
}

bool RankLinks::poll(std::vector<std::pair<int, Answer>>& answers, std::vector<int>& lost) {
  const std::size_t before = answers.size() + lost.size();
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    const int rank = static_cast<int>(i);
    while (link.open) {
      int done = 0;
      if (link.refused || mpi::outcome_of(MPI_Test(&link.request, &done, MPI_STATUS_IGNORE),
                                          kListening) != mpi::Outcome::ok) {
        link.open = false;
        lost.push_back(rank);
        break;
      }
      if (done == 0) break;
      answers.emplace_back(rank, link.answer);
      link.open = link.answer.kind != AnswerKind::left;
      if (link.open) listen(rank);
    }
  }
  clear_sent();
  return answers.size() + lost.size() > before;
}

void RankLinks::send(int rank, const OrderHeader& header, std::span<const RingMember> members) {
  if (!links_[static_cast<std::size_t>(rank)].open) return;
  Sent& sent = sent_.emplace_back();
  const auto head = std::as_bytes(std::span(&header, 1));
  const auto tail = std::as_bytes(members);
  sent.bytes.assign(head.begin(), head.end());
  sent.bytes.insert(sent.bytes.end(), tail.begin(), tail.end());
  const auto outcome =
      mpi::outcome_of(MPI_Isend(sent.bytes.data(), static_cast<int>(sent.bytes.size()), MPI_BYTE,
                                rank, kOrderTag, MPI_COMM_WORLD, &sent.request),
                      kTelling);
  if (outcome != mpi::Outcome::ok) sent_.pop_back();
}

void RankLinks::clear_sent() {
  std::erase_if(sent_, [](Sent& sent) {
    int done = 0;
    const auto outcome =
        mpi::outcome_of(MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE), kTelling);
    return outcome != mpi::Outcome::ok || done != 0;
  });
}

bool RankLinks::any() const { return std::ranges::any_of(links_, &Link::open); }

}  // namespace archipelago::baseline
