#include "data/byte_pairs.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "core/random.h"

namespace archipelago::data {
namespace {

std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    pieces.emplace_back(first_piece(text));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

TEST(Pieces, AreWordsWithTheirSpace) {
  const std::vector<std::string> expected = {"In",  " the",   " ",  " beginning", ",",
                                             "\n ", " God",   "\'", "s",          " 7",
                                             "th",  " höhle", ".",  "\n"};
  EXPECT_EQ(pieces_of("In the  beginning,\n  God's 7th höhle.\n"), expected);
}

TEST(Pieces, AreNeverEmptyNorLong) {
  for (const std::string& text :
       {std::string(1000, 'x'), std::string(1000, ' '), " " + std::string(1000, 'x'),
        std::string(63, ' ') + "xy", std::string(64, ' ') + "xy", std::string(1000, '\0')}) {
    std::string joined;
    for (const std::string& piece : pieces_of(text)) {
      EXPECT_GE(piece.size(), 1u);
      EXPECT_LE(piece.size(), 64u);
      joined += piece;
    }
    EXPECT_EQ(joined, text);
  }
}

// By hand: in "aab aab aab ab" the pieces are "aab", " aab" twice, " ab". Pairs: (a,b) 4, (a,a) 3,
// (" ",a) 3. (a,b) becomes 256: "a 256", " a 256" twice, " 256": (a,256) 3, (" ",a) 2. It becomes
// 257: "257", " 257" twice, " 256": (" ",257) 2.
TEST(TrainMerges, FollowsTheHandWorkedExample) {
  const std::vector<Merge> expected = {{'a', 'b'}, {'a', 256}, {' ', 257}};
  EXPECT_EQ(train_merges("aab aab aab ab", 300), expected);
}

TEST(TrainMerges, TiesGoToTheSmallerPair) {
  EXPECT_EQ(train_merges("zy.ba.zy.ba", 257), (std::vector<Merge>{{'b', 'a'}}));
}

// The definition, without any bookkeeping: count all pairs anew for every merge.
std::vector<Merge> reference_merges(const std::string& text, std::int64_t vocabulary) {
  std::vector<std::vector<std::uint16_t>> pieces;
  for (const std::string& piece : pieces_of(text)) {
    std::vector<std::uint16_t> ids;
    for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
    pieces.push_back(ids);
  }
  std::vector<Merge> merges;
  while (kByteIds + static_cast<std::int64_t>(merges.size()) < vocabulary) {
    std::map<Merge, std::int64_t> counts;
    for (const auto& ids : pieces) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) ++counts[{ids[i], ids[i + 1]}];
    }
    Merge best;
    std::int64_t most = 1;
    for (const auto& [pair, count] : counts) {
      if (count > most) {
        best = pair;
        most = count;
      }
    }
    if (most < 2) break;
    const auto id = static_cast<std::uint16_t>(256 + merges.size());
    for (auto& ids : pieces) join(ids, best, id);
    merges.push_back(best);
  }
  return merges;
}

std::string random_text(std::size_t size, std::uint64_t letters, std::uint64_t seed) {
  Random random(seed);
  std::string text;
  while (text.size() < size) {
    text += random.below(5) == 0 ? ' ' : static_cast<char>('a' + random.below(letters));
  }
  return text;
}

TEST(TrainMerges, AgreesWithTheDefinition) {
  for (const std::uint64_t letters : {1, 2, 5, 26}) {
    const std::string text = random_text(3000, letters, letters);
    EXPECT_EQ(train_merges(text, 400), reference_merges(text, 400)) << letters << " letters";
  }
}

TEST(Tokenizer, RoundTripsAnyBytes) {
  const std::string text = random_text(20'000, 6, 1);
  Tokenizer tokenizer(train_merges(text, 500));
  EXPECT_EQ(tokenizer.vocabulary(), 500);
  EXPECT_LT(tokenizer.encode(text).size(), text.size() / 2);

  Random random(9);
  for (const std::size_t size : {0u, 1u, 2u, 63u, 64u, 65u, 129u, 5000u}) {
    for (int trial = 0; trial < 20; ++trial) {
      std::string bytes(size, '\0');
      for (char& c : bytes) {
        c = static_cast<char>(trial % 2 == 0 ? random.below(256) : 'a' + random.below(6));
      }
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
    }
  }
}

TEST(Tokenizer, AppliesMergesInTheirOrder) {
  const std::vector<Merge> merges = {{'b', 'c'}, {'a', 'b'}, {'a', 256}};
  Tokenizer tokenizer(merges);
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<std::uint16_t>{258}));
  EXPECT_EQ(tokenizer.encode("abd"), (std::vector<std::uint16_t>{257, 'd'}));
  EXPECT_EQ(tokenizer.encode("ab\xff"), (std::vector<std::uint16_t>{257, 255}));
}

TEST(Tokenizer, WithoutMergesAnIdIsAByte) {
  Tokenizer tokenizer({});
  EXPECT_EQ(tokenizer.encode("a\xff"), (std::vector<std::uint16_t>{'a', 255}));
}

TEST(Tokenizer, ImpossibleMergesAreRefused) {
  EXPECT_THROW(Tokenizer(std::vector<Merge>{{'a', 256}}), std::invalid_argument);
  EXPECT_THROW(Tokenizer(std::vector<Merge>{{'a', 'b'}, {'a', 'b'}}), std::invalid_argument);
  std::vector<Merge> doubling = {{'a', 'a'}};
  for (std::uint16_t id = 256; id < 262; ++id) doubling.push_back({id, id});
  EXPECT_THROW(Tokenizer{doubling}, std::invalid_argument);
  doubling.pop_back();
  EXPECT_NO_THROW(Tokenizer{doubling});
}

}  // namespace
}  // namespace archipelago::data
