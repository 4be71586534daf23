#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "data/byte_pairs.h"

namespace archipelago::data {
namespace {

// A distinct piece of the text as its present ids.
struct Piece {
  std::vector<std::uint16_t> ids;
  std::int64_t count = 0;  // in the text
};

// A pair with its count at the time it was queued; most frequent first, then the smaller ids.
struct Candidate {
  std::int64_t count = 0;
  Merge pair;

  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

struct PairHash {
  std::size_t operator()(Merge pair) const {
    return std::hash<std::uint32_t>()(std::uint32_t{pair.first} << 16 | pair.second);
  }
};

std::vector<Piece> distinct_pieces(std::string_view text) {
  std::unordered_map<std::string_view, std::int64_t> counts;
  while (!text.empty()) {
    const std::string_view piece = first_piece(text);
    ++counts[piece];
    text.remove_prefix(piece.size());
  }
  std::vector<Piece> pieces;
  for (const auto& [piece, count] : counts) {
    pieces.push_back({.ids = {}, .count = count});
    for (const char c : piece) pieces.back().ids.push_back(static_cast<unsigned char>(c));
  }
  return pieces;
}

// Counts of all pairs of neighbours, kept up to date while pairs are merged.
class PairCounts {
 public:
  explicit PairCounts(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      count(i, +1);
      hold(i, [](Merge) { return true; });
    }
    queue_changed();
  }

  // The most frequent pair, or one with count 0 when there is none.
  Candidate most_frequent() {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      const std::int64_t now = counts_[top.pair];
      if (now == top.count) return top;
      queue_.pop();  // the count fell since; it comes again with its present count
      if (now > 0) queue_.push({now, top.pair});
    }
    return {};
  }

  void merge(Merge pair, std::uint16_t id) {
    const std::vector<std::size_t> holders = std::move(holders_[pair]);
    for (const std::size_t piece : holders) {
      count(piece, -1);
      join(pieces_[piece].ids, pair, id);
      count(piece, +1);
      // Pairs without the new id were there before, and can only have become rarer.
      hold(piece, [id](Merge held) { return held.first == id || held.second == id; });
    }
    queue_changed();
  }

 private:
  template <class Visit>
  void for_each_pair(std::size_t piece, Visit visit) {
    const std::vector<std::uint16_t>& ids = pieces_[piece].ids;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) visit(Merge{ids[i], ids[i + 1]});
  }

  void count(std::size_t piece, int sign) {
    const std::int64_t change = sign * pieces_[piece].count;
    for_each_pair(piece, [this, change](Merge pair) { counts_[pair] += change; });
  }

  template <class Wanted>
  void hold(std::size_t piece, Wanted wanted) {
    for_each_pair(piece, [this, piece, wanted](Merge pair) {
      if (!wanted(pair)) return;
      // Once for a pair that the piece has several times, or each merge would multiply them.
      std::vector<std::size_t>& holders = holders_[pair];
      if (holders.empty() || holders.back() != piece) holders.push_back(piece);
      changed_.insert(pair);
    });
  }

  void queue_changed() {
    for (const Merge& pair : changed_) queue_.push({counts_[pair], pair});
    changed_.clear();
  }

  std::vector<Piece> pieces_;
  std::unordered_map<Merge, std::int64_t, PairHash> counts_;
  // Pieces that hold, or once held, the pair.
  std::unordered_map<Merge, std::vector<std::size_t>, PairHash> holders_;
  std::unordered_set<Merge, PairHash> changed_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::vector<Merge> train_merges(std::string_view text, std::int64_t vocabulary) {
  PairCounts counts(distinct_pieces(text));
  std::vector<Merge> merges;
  while (kByteIds + static_cast<std::int64_t>(merges.size()) < vocabulary) {
    const Candidate best = counts.most_frequent();
    if (best.count < 2) break;
    counts.merge(best.pair, static_cast<std::uint16_t>(kByteIds + static_cast<int>(merges.size())));
    merges.push_back(best.pair);
  }
  return merges;
}

}  // namespace archipelago::data
