#include "data/byte_pairs.h"

#include <algorithm>
#include <stdexcept>

namespace archipelago::data {
namespace {

constexpr std::size_t kLongestPiece = 64;
constexpr std::size_t kMostSeen = std::size_t{1} << 20;  // pieces remembered, about 100 MB

enum class ByteClass { letter, digit, space, sign };

ByteClass class_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 128 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) {
    return ByteClass::letter;
  }
  if (byte >= '0' && byte <= '9') return ByteClass::digit;
  return byte == ' ' || (byte >= '\t' && byte <= '\r') ? ByteClass::space : ByteClass::sign;
}

// Bytes at the start of the text that are of its first byte's class.
std::size_t run_length(std::string_view text) {
  const ByteClass wanted = class_of(text.front());
  const auto end =
      std::find_if(text.begin(), text.end(), [wanted](char c) { return class_of(c) != wanted; });
  return static_cast<std::size_t>(end - text.begin());
}

std::uint32_t pair_key(Merge pair) { return std::uint32_t{pair.first} << 16 | pair.second; }

}  // namespace

std::string_view first_piece(std::string_view text) {
  const std::string_view head = text.substr(0, kLongestPiece);
  std::size_t length = run_length(head);
  const bool before_word =
      class_of(head.front()) == ByteClass::space && length < head.size() && head[length - 1] == ' ';
  // The last space before a word belongs to the word.
  if (before_word) length = length > 1 ? length - 1 : 1 + run_length(head.substr(1));
  return head.substr(0, length);
}

void join(std::vector<std::uint16_t>& ids, Merge pair, std::uint16_t id) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool found = ids[i] == pair.first && i + 1 < ids.size() && ids[i + 1] == pair.second;
    ids[kept++] = found ? id : ids[i];
    if (found) ++i;
  }
  ids.resize(kept);
}

Tokenizer::Tokenizer(std::span<const Merge> merges) : merges_(merges.begin(), merges.end()) {
  for (int byte = 0; byte < kByteIds; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
  for (const Merge& merge : merges_) {
    if (std::max(merge.first, merge.second) >= texts_.size()) {
      throw std::invalid_argument("a merge joins an id that is made later");
    }
    if (!ranks_.emplace(pair_key(merge), ranks_.size()).second) {
      throw std::invalid_argument("two merges join the same pair");
    }
    texts_.push_back(texts_[merge.first] + texts_[merge.second]);
    if (texts_.back().size() > kLongestPiece) {
      throw std::invalid_argument("a merge is longer than " + std::to_string(kLongestPiece) +
                                  " bytes");
    }
  }
}

std::vector<std::uint16_t> Tokenizer::encode_piece(std::string_view piece) const {
  std::vector<std::uint16_t> ids;
  for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
  for (;;) {
    std::size_t first = merges_.size();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks_.find(pair_key({ids[i], ids[i + 1]}));
      if (found != ranks_.end()) first = std::min(first, found->second);
    }
    if (first == merges_.size()) return ids;
    join(ids, merges_[first], static_cast<std::uint16_t>(kByteIds + static_cast<int>(first)));
  }
}

std::vector<std::uint16_t> Tokenizer::encode(std::string_view text) {
  std::vector<std::uint16_t> ids;
  while (!text.empty()) {
    const std::string_view piece = first_piece(text);
    auto found = seen_.find(piece);
    if (found == seen_.end()) {
      if (seen_.size() >= kMostSeen) seen_.clear();
      found = seen_.emplace(piece, encode_piece(piece)).first;
    }
    ids.insert(ids.end(), found->second.begin(), found->second.end());
    text.remove_prefix(piece.size());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::uint16_t> ids) const {
  std::string text;
  for (const std::uint16_t id : ids) text += texts_.at(id);
  return text;
}

}  // namespace archipelago::data
