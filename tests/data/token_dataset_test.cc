#include "data/token_dataset.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/file.h"
#include "core/random.h"
#include "data/token_file.h"
#include "hdf5/attribute.h"
#include "hdf5/file.h"

namespace archipelago::data {
namespace {

class TokenDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("data_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "tokens.h5";
    file_.vocabulary = 300;
    file_.train.resize(1000);
    std::iota(file_.train.begin(), file_.train.end(), std::uint16_t{0});
    for (std::uint16_t& id : file_.train) id = static_cast<std::uint16_t>(id % 300);
    file_.validation = {5, 299, 7, 0};
    file_.train_bytes = 1500;
    file_.validation_bytes = 10;
    file_.provenance = {.source = "a test", .licence = "none", .text_digest = "0"};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string refusal() const {
    try {
      TokenDataset{path_};
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
  TokenFile file_;
};

TEST_F(TokenDatasetTest, ReadsBack) {
  write_token_file(path_, file_);
  const TokenDataset dataset(path_);
  EXPECT_EQ(dataset.vocabulary(), 300);
  EXPECT_TRUE(std::ranges::equal(dataset.tokens(Split::train), file_.train));
  EXPECT_TRUE(std::ranges::equal(dataset.tokens(Split::validation), file_.validation));
  EXPECT_EQ(dataset.bytes_per_token(Split::train), 1.5);
  EXPECT_EQ(dataset.bytes_per_token(Split::validation), 2.5);
  const TokenFile again = read_token_file(path_);
  EXPECT_EQ(again.provenance.source, "a test");
  EXPECT_EQ(again.provenance.licence, "none");
}

TEST_F(TokenDatasetTest, MergesReadBackOrAreRefused) {
  file_.vocabulary = 258;
  file_.train = {1, 257};
  file_.validation = {2};
  file_.train_bytes = 4;
  file_.validation_bytes = 1;
  file_.merges = {{'a', 'b'}, {256, 'c'}};
  write_token_file(path_, file_);
  EXPECT_EQ(read_token_file(path_).merges, file_.merges);

  file_.vocabulary = 259;
  write_token_file(path_, file_);
  EXPECT_NE(refusal().find("merges does not make its vocabulary"), std::string::npos) << refusal();

  file_.vocabulary = 258;
  file_.merges = {{'a', 'b'}, {257, 'c'}};
  write_token_file(path_, file_);
  EXPECT_NE(refusal().find("joins an id that is made later"), std::string::npos) << refusal();
}

TEST_F(TokenDatasetTest, TextOfAnotherLengthThanItsTokensIsRefused) {
  const auto refuses = [this](std::int64_t bytes, const std::string& words) {
    const auto right = file_.validation_bytes;
    file_.validation_bytes = bytes;
    write_token_file(path_, file_);
    EXPECT_NE(refusal().find("text_bytes of dataset validation is " + std::to_string(bytes) + ","),
              std::string::npos)
        << refusal();
    EXPECT_NE(refusal().find(words), std::string::npos) << refusal();
    file_.validation_bytes = right;
    write_token_file(path_, file_);
    EXPECT_EQ(refusal(), "accepted");
  };
  // Of a tokenizer that is not known here.
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 60}) {
    refuses(bytes, "its 4 tokens stand for more than none");
  }
  file_.vocabulary = 257;
  file_.merges = {{'a', 'b'}};
  file_.train = {'x', 256};
  file_.train_bytes = 3;
  file_.validation = {256, 'a', 256};
  file_.validation_bytes = 5;
  for (const std::int64_t bytes : {4, 6}) refuses(bytes, "its 3 tokens stand for 5");
  file_.vocabulary = 256;
  file_.merges.clear();
  file_.train = {'x', 'y', 'z'};
  file_.validation = {'a', 'b'};
  file_.validation_bytes = 2;
  for (const std::int64_t bytes : {0, 1, 3}) refuses(bytes, "its 2 tokens stand for 2");
}

// As another program may have written it.
TEST_F(TokenDatasetTest, TokenizersAreKnownOrRefused) {
  const auto rename = [this](const char* name) {
    write_token_file(path_, file_);
    const hdf5::LibraryLock lock;
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Adelete(file, "tokenizer");
    if (name != nullptr) hdf5::write_fixed_text(file, "tokenizer", name);
    H5Fclose(file);
  };
  for (const char* const name : {"other", "byte-level BPE"}) {
    rename(name);
    EXPECT_EQ(refusal(), "accepted") << name;
  }
  rename(nullptr);
  EXPECT_EQ(refusal(), "accepted");
  rename("sentencepiece");
  EXPECT_NE(refusal().find("tokenizer \"sentencepiece\" is not known"), std::string::npos);
  rename("bytes");
  EXPECT_NE(refusal().find("its vocabulary 300"), std::string::npos) << refusal();
  file_.vocabulary = 257;
  file_.merges = {{'a', 'b'}};
  file_.train = {'x'};
  file_.train_bytes = 1;
  file_.validation = {256};
  file_.validation_bytes = 2;
  rename("other");
  EXPECT_NE(refusal().find("it has merges"), std::string::npos) << refusal();
}

TEST_F(TokenDatasetTest, DigestTellsDataApart) {
  const auto digest = [this] {
    return digest_tokens(file_.vocabulary, file_.train, file_.validation);
  };
  const std::uint64_t first = digest();
  file_.vocabulary = 301;
  const std::uint64_t other_vocabulary = digest();
  file_.vocabulary = 300;
  // The same ids, split elsewhere.
  file_.train.push_back(file_.validation.front());
  file_.validation.erase(file_.validation.begin());
  EXPECT_NE(first, other_vocabulary);
  EXPECT_NE(first, digest());
}

TEST_F(TokenDatasetTest, BadFilesAreRefused) {
  EXPECT_NE(refusal().find("no such file"), std::string::npos);

  write_file(path_, "In the beginning", Durability::unflushed);
  EXPECT_NE(refusal(), "accepted");

  file_.validation[1] = 300;
  write_token_file(path_, file_);
  EXPECT_NE(refusal().find("validation holds id 300"), std::string::npos) << refusal();

  file_.validation[1] = 0;
  const std::int64_t bytes = file_.validation_bytes;
  file_.validation_bytes = -1;
  write_token_file(path_, file_);
  EXPECT_NE(refusal().find("text_bytes of dataset validation"), std::string::npos) << refusal();

  file_.validation_bytes = bytes;
  write_token_file(path_, file_);
  const std::string whole = read_file(path_);
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{100}}) {
    write_file(path_, whole.substr(0, size), Durability::unflushed);
    EXPECT_NE(refusal(), "accepted") << size;
  }
}

#ifndef __SANITIZE_ADDRESS__  // which ends the process where memory ends
// Room for a terabyte in the file is no room in memory.
TEST_F(TokenDatasetTest, MoreThanMemoryHoldsIsRefused) {
  {
    const hdf5::LibraryLock lock;
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hdf5::write_fixed_text(file, "format", kTokenFormat);
    hdf5::write_fixed_text(file, "format_version", kTokenFormatVersion);
    hdf5::write_number<std::int64_t>(file, "vocabulary", 300);
    const hsize_t size = std::uint64_t{1} << 39;
    const hid_t space = H5Screate_simple(1, &size, nullptr);
    const hid_t early = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(early, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(early, H5D_FILL_TIME_NEVER);
    H5Dclose(H5Dcreate2(file, "train", H5T_STD_U16LE, space, H5P_DEFAULT, early, H5P_DEFAULT));
    H5Pclose(early);
    H5Sclose(space);
    H5Fclose(file);
  }
  EXPECT_NE(refusal().find("no memory"), std::string::npos) << refusal();
}
#endif

// Whatever bit is damaged, the file is refused at once or its tokens are the right ones (the bit
// was in unused space).
TEST_F(TokenDatasetTest, NoFlippedBitGoesUnseen) {
  write_token_file(path_, file_);
  const std::string whole = read_file(path_);
  Random random(2);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string bytes = whole;
    const std::size_t at = random.below(bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
    write_file(path_, bytes, Durability::unflushed);
    try {
      const TokenFile read = read_token_file(path_);
      EXPECT_EQ(read.train, file_.train) << "byte " << at;
      EXPECT_EQ(read.validation, file_.validation) << "byte " << at;
      EXPECT_EQ(read.provenance.source, file_.provenance.source) << "byte " << at;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 250);
}

TEST_F(TokenDatasetTest, TextThatNothingProtectsIsRefused) {
  MappedFile output(path_, 1 << 20);
  const hdf5::LibraryLock lock;
  hdf5::ImageFile image(output);
  hdf5::write_attribute(image.id(), "format", kTokenFormat);
  output.commit(std::move(image).finish(), Durability::unflushed);
  EXPECT_NE(refusal().find("variable length"), std::string::npos) << refusal();
}

TEST_F(TokenDatasetTest, BatchHoldsTheWindowsOfItsShard) {
  write_token_file(path_, file_);
  const TokenDataset dataset(path_);
  const std::int64_t context = 9;
  const SequenceOrder order(1000, context, 2, 5);
  std::vector<std::int32_t> inputs(3 * 9);
  std::vector<std::int32_t> targets(3 * 9);
  ASSERT_EQ(order.shards().epoch_size(1), 55);
  for (std::int64_t row = 0; row < 3; ++row) {  // crosses into the next epoch
    fill_row(dataset, order, {1, 54 + row}, row, context, inputs, targets);
  }
  for (std::int64_t sequence = 0; sequence < 3; ++sequence) {
    const std::int64_t start = order.window_start({1, 54 + sequence});
    for (std::int64_t position = 0; position < context; ++position) {
      const auto at = static_cast<std::size_t>(sequence * context + position);
      EXPECT_EQ(inputs[at], (start + position) % 300);
      EXPECT_EQ(targets[at], (start + position + 1) % 300);
    }
  }
}

}  // namespace
}  // namespace archipelago::data
