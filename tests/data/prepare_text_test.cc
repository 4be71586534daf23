#include "data/prepare_text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"

namespace archipelago::data {
namespace {

class PrepareTextTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("prepare_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text, Durability::unflushed);
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

TEST_F(PrepareTextTest, BytesAreTheirOwnIdsAndFilesFollowOneAnother) {
  const TokenFile tokens = prepare_text({.files = {file("a", "one\ntwo\n"), file("b", "three\n")},
                                         .validation = 0.4,
                                         .source = "s",
                                         .licence = "l"});
  EXPECT_EQ(tokens.vocabulary, 256);
  // 14 bytes; the last 5.6, rounded down, begin inside "three", whose line begins at byte 8, so
  // that the next line is the end: cut at the exact byte.
  const std::string train(tokens.train.begin(), tokens.train.end());
  const std::string validation(tokens.validation.begin(), tokens.validation.end());
  EXPECT_EQ(train + validation, "one\ntwo\nthree\n");
  EXPECT_EQ(validation.size(), 5u);
  EXPECT_EQ(tokens.train_bytes, 9);
  EXPECT_EQ(tokens.validation_bytes, 5);
  EXPECT_EQ(tokens.provenance.source, "s");
}

TEST_F(PrepareTextTest, ValidationBeginsWithALine) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + "\n";
  const TokenFile tokens = prepare_text({.files = {file("a", text)}, .validation = 0.1});
  const std::string validation(tokens.validation.begin(), tokens.validation.end());
  EXPECT_EQ(validation.substr(0, 5), "line ");
  EXPECT_LE(validation.size(), text.size() / 10);
  EXPECT_GT(validation.size(), text.size() / 10 - 9);
}

TEST_F(PrepareTextTest, MergesKnowNothingOfTheValidationPart) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "abcd abcd\n";
  std::string with_other_end = text;
  for (int i = 0; i < 10; ++i) with_other_end += "zzzzzzzz\n";
  const TokenFile tokens =
      prepare_text({.files = {file("a", with_other_end)}, .vocabulary = 258, .validation = 0.15});
  Tokenizer tokenizer(tokens.merges);
  EXPECT_EQ(tokenizer.decode(tokens.train) + tokenizer.decode(tokens.validation), with_other_end);
  for (const Merge& merge : tokens.merges) EXPECT_NE(merge.first, 'z');
}

TEST_F(PrepareTextTest, ImpossibleRequestsAreRefused) {
  EXPECT_THROW(prepare_text({.files = {file("empty", "")}}), Error);
  EXPECT_THROW(prepare_text({.files = {folder_ / "absent"}}), Error);
  const std::string packed = std::string("\x1f\x8b\x08") + std::string(100, 'a');
  EXPECT_THROW(prepare_text({.files = {file("plain", "ab\n"), file("packed", packed)}}), Error);
  try {
    prepare_text({.files = {file("a", "ab ab ab ab")}, .vocabulary = 1000, .validation = 0.1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_NE(std::string(error.what()).find("enough for 258"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace archipelago::data
