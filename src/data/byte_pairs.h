#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace archipelago::data {

// A merge joins two ids, each a byte (0 to 255) or the result of an earlier merge, into a new one:
// merge i makes id 256 + i.
using Merge = std::pair<std::uint16_t, std::uint16_t>;

inline constexpr int kByteIds = 256;
inline constexpr std::int64_t kLargestVocabulary = 65536;  // ids are stored in 16 bits

// The first piece of a text that is not empty. Cut piece by piece, a text falls into parts that
// merges never reach across: a word with the space before it, a run of digits, of other signs, of
// white space (the shape of GPT-2's pattern, over bytes; bytes above 127 count as letters, so that
// UTF-8 needs no tables). No piece is longer than 64 bytes, which bounds the work on text without
// spaces.
std::string_view first_piece(std::string_view text);

// Puts `id` in the place of each occurrence of `pair`, from left to right.
void join(std::vector<std::uint16_t>& ids, Merge pair, std::uint16_t id);

// Byte-pair encoding (Sennrich, Haddow, Birch 2016) over bytes: repeatedly merges the most frequent
// pair of neighbours within pieces, ties by the smaller pair of ids. The same text gives the same
// merges everywhere. Returns fewer than vocabulary - 256 merges where no pair occurs twice any
// more.
std::vector<Merge> train_merges(std::string_view text, std::int64_t vocabulary);

// Text to ids and back by a list of merges; without merges an id is a byte. Not thread-safe: it
// remembers the pieces it has seen.
class Tokenizer {
 public:
  // Throws std::invalid_argument where train_merges() can't have made these merges: an id joined
  // before it is made, a pair joined twice, a result longer than a piece.
  explicit Tokenizer(std::span<const Merge> merges);

  std::int64_t vocabulary() const { return static_cast<std::int64_t>(texts_.size()); }
  // Bytes of the text that an id of the vocabulary stands for.
  std::int64_t bytes_of(std::uint16_t id) const {
    return static_cast<std::int64_t>(texts_[id].size());
  }
  std::vector<std::uint16_t> encode(std::string_view text);
  // Every id must lie within the vocabulary.
  std::string decode(std::span<const std::uint16_t> ids) const;

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  std::vector<std::uint16_t> encode_piece(std::string_view piece) const;

  std::vector<Merge> merges_;
  std::unordered_map<std::uint32_t, std::size_t> ranks_;  // pair -> place among the merges
  std::vector<std::string> texts_;                        // of every id
  std::unordered_map<std::string, std::vector<std::uint16_t>, TextHash, std::equal_to<>> seen_;
};

}  // namespace archipelago::data
