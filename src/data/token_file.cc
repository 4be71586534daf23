#include "data/token_file.h"

#include <algorithm>
#include <stdexcept>

#include "core/checksum.h"
#include "data/data_file.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/file.h"

namespace archipelago::data {
namespace {

constexpr FileKind kKind{"token file", "archipelago prepare text", "tokens", kTokenFormat,
                         kTokenFormatVersion};

[[noreturn]] void refuse(const std::string& why) { throw hdf5::Failure(why); }

void write_split(hid_t file, const std::string& name, std::span<const std::uint16_t> tokens,
                 std::int64_t bytes) {
  const hdf5::Dataset dataset = hdf5::write_dataset<std::uint16_t>(file, name, tokens);
  hdf5::write_number<std::int64_t>(dataset.get(), "text_bytes", bytes);
}

// What the ids stand for.
constexpr const char* kBytes = "bytes";
constexpr const char* kBytePairs = "byte-level BPE";
constexpr const char* kOther = "other";  // of another program
// On average, with a tokenizer that is not known here.
constexpr std::int64_t kMostBytesAToken = 1024;

const char* tokenizer_of(const TokenFile& tokens) {
  if (!tokens.merges.empty()) return kBytePairs;
  return tokens.vocabulary <= kByteIds ? kBytes : kOther;
}

std::vector<std::uint16_t> read_split(hid_t file, const std::string& name, std::int64_t vocabulary,
                                      std::int64_t& bytes) {
  std::vector<std::uint16_t> tokens = hdf5::read_vector<std::uint16_t>(file, name);
  const hdf5::Dataset dataset = hdf5::open_dataset(file, name);
  bytes = hdf5::read_number<std::int64_t>(dataset.get(), "text_bytes");
  const auto foreign = std::find_if(tokens.begin(), tokens.end(),
                                    [vocabulary](std::uint16_t id) { return id >= vocabulary; });
  if (foreign != tokens.end()) {
    refuse("dataset " + name + " holds id " + std::to_string(*foreign) +
           ", outside its vocabulary of " + std::to_string(vocabulary));
  }
  return tokens;
}

void write_merges(hid_t file, const TokenFile& tokens) {
  if (tokens.merges.empty()) return;
  std::vector<std::uint16_t> flat;
  for (const auto& [left, right] : tokens.merges) flat.insert(flat.end(), {left, right});
  const std::int64_t shape[] = {static_cast<std::int64_t>(tokens.merges.size()), 2};
  hdf5::write_dataset<std::uint16_t>(file, "merges", shape, flat);
}

void read_merges(hid_t file, TokenFile& tokens) {
  if (!hdf5::has_member(file, "merges")) return;
  const std::vector<std::uint16_t> flat = hdf5::read_vector<std::uint16_t>(file, "merges");
  for (std::size_t i = 0; i + 1 < flat.size(); i += 2) {
    tokens.merges.emplace_back(flat[i], flat[i + 1]);
  }
  try {
    const Tokenizer tokenizer(tokens.merges);
    if (tokenizer.vocabulary() != tokens.vocabulary) {
      refuse("dataset merges does not make its vocabulary");
    }
  } catch (const std::invalid_argument& error) {
    refuse(std::string("dataset merges is wrong: ") + error.what());
  }
}

// Files of other programs may say nothing.
std::string read_tokenizer(hid_t file, const TokenFile& tokens) {
  if (!hdf5::has_attribute(file, "tokenizer")) return tokens.merges.empty() ? kOther : kBytePairs;
  std::string name = hdf5::read_fixed_text(file, "tokenizer");
  if (name != kBytes && name != kBytePairs && name != kOther) {
    refuse("its tokenizer \"" + name + "\" is not known here; there are \"" + kBytes + "\", \"" +
           kBytePairs + "\" and \"" + kOther + "\"");
  }
  if (name != kBytePairs && !tokens.merges.empty()) {
    refuse("its tokenizer is \"" + name + "\", but it has merges");
  }
  if (name == kBytes && tokens.vocabulary > kByteIds) {
    refuse("its tokenizer is \"" + name + "\", but its vocabulary " +
           std::to_string(tokens.vocabulary));
  }
  return name;
}

// Losses a byte of text are told by it.
void require_bytes(const std::string& split, const std::vector<std::uint16_t>& ids,
                   std::int64_t bytes, const std::string& tokenizer, const TokenFile& tokens) {
  const auto count = std::ssize(ids);
  const auto wrong = [&](const std::string& right) {
    refuse("attribute text_bytes of dataset " + split + " is " + std::to_string(bytes) +
           ", but its " + std::to_string(count) + " tokens stand for " + right);
  };
  if (tokenizer == kBytes || !tokens.merges.empty()) {
    const Tokenizer known(tokens.merges);
    std::int64_t sum = 0;
    for (const std::uint16_t id : ids) sum += known.bytes_of(id);
    if (bytes != sum) wrong(std::to_string(sum));
  } else if (bytes < (count > 0 ? 1 : 0) || bytes / kMostBytesAToken > count) {
    wrong("more than none and at most " + std::to_string(kMostBytesAToken) + " each");
  }
}

TokenFile read_tokens(hid_t file) {
  TokenFile tokens;
  tokens.vocabulary = hdf5::read_number<std::int64_t>(file, "vocabulary");
  if (tokens.vocabulary < 1 || tokens.vocabulary > kLargestVocabulary) {
    refuse("its vocabulary of " + std::to_string(tokens.vocabulary) + " is not within 1 to 65536");
  }
  tokens.train = read_split(file, "train", tokens.vocabulary, tokens.train_bytes);
  tokens.validation = read_split(file, "validation", tokens.vocabulary, tokens.validation_bytes);
  read_merges(file, tokens);
  const std::string tokenizer = read_tokenizer(file, tokens);
  require_bytes("train", tokens.train, tokens.train_bytes, tokenizer, tokens);
  require_bytes("validation", tokens.validation, tokens.validation_bytes, tokenizer, tokens);
  tokens.provenance = {.source = hdf5::read_fixed_text(file, "source"),
                       .licence = hdf5::read_fixed_text(file, "licence"),
                       .text_digest = hdf5::read_fixed_text(file, "text_digest")};
  return tokens;
}

std::uint64_t digest_of(const TokenFile& tokens) {
  return digest_tokens(tokens.vocabulary, tokens.train, tokens.validation);
}

}  // namespace

std::uint64_t digest_tokens(std::int64_t vocabulary, std::span<const std::uint16_t> train,
                            std::span<const std::uint16_t> validation) {
  const std::int64_t sizes[] = {vocabulary, static_cast<std::int64_t>(train.size())};
  const std::uint64_t of_sizes = checksum(std::as_bytes(std::span(sizes)));
  return checksum(std::as_bytes(validation), checksum(std::as_bytes(train), of_sizes));
}

void write_token_file(const std::filesystem::path& path, const TokenFile& tokens) {
  const std::size_t data_bytes =
      (tokens.train.size() + tokens.validation.size()) * sizeof(std::uint16_t) +
      tokens.merges.size() * sizeof(tokens.merges[0]);
  write_data_file(path, kKind, data_bytes, digest_of(tokens), [&](hid_t file) {
    hdf5::write_fixed_text(file, "source", tokens.provenance.source);
    hdf5::write_fixed_text(file, "licence", tokens.provenance.licence);
    hdf5::write_fixed_text(file, "text_digest", tokens.provenance.text_digest);
    hdf5::write_fixed_text(file, "tokenizer", tokenizer_of(tokens));
    hdf5::write_number<std::int64_t>(file, "vocabulary", tokens.vocabulary);
    write_split(file, "train", tokens.train, tokens.train_bytes);
    write_split(file, "validation", tokens.validation, tokens.validation_bytes);
    write_merges(file, tokens);
  });
}

TokenFile read_token_file(const std::filesystem::path& path) {
  TokenFile tokens;
  read_data_file(path, kKind, [&](hid_t file) {
    tokens = read_tokens(file);
    return tokens.digest = digest_of(tokens);
  });
  return tokens;
}

}  // namespace archipelago::data
