#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/file.h"
#include "example_state.h"

namespace archipelago::checkpoint {
namespace {

class SafetensorsTest : public testing::Test {
 protected:
  std::map<std::string, SafeTensor> read(const std::string& header, const std::string& data) const {
    const std::uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    write_file(path_, bytes + header + data, Durability::unflushed);
    return read_safetensors(path_);
  }

  std::string refusal(const std::string& header, const std::string& data) const {
    try {
      read(header, data);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos);
      return error.what();
    }
    return "accepted";
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.safetensors";
};

// The file byte by byte as the format's description has it.
TEST_F(SafetensorsTest, WritesTheFormat) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {-0.5F};
  const std::vector<NamedSpan> tensors = {{"a", {2, 3}, a}, {"b", {1}, b}};
  write_safetensors(path_, tensors);
  const std::string bytes = read_file(path_);
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}})";
  while (header.size() % 8 != 0) header += ' ';
  ASSERT_EQ(bytes.size(), 8 + header.size() + 28);
  EXPECT_EQ(static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])), header.size());
  EXPECT_EQ(bytes.substr(8, header.size()), header);
  float last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - 4, 4);
  EXPECT_EQ(last, -0.5F);
  EXPECT_EQ(read_safetensors(path_).at("a").values, a);
}

TEST_F(SafetensorsTest, ReadsNothingThatMayHaveNoEnd) {
  EXPECT_THROW(read_safetensors("/dev/zero"), Error);
  EXPECT_THROW(read_safetensors(folder_.path()), Error);
}

TEST_F(SafetensorsTest, ReadsHalfPrecisionAndPassesOverOtherTypes) {
  const auto tensors = read(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                            R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
                            R"("i":{"dtype":"I64","shape":[1],"data_offsets":[6,14]}})",
                            std::string("\x00\x3c\x00\xc0\x80\x3f", 6) + std::string(8, '\0'));
  EXPECT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors.at("h").values, (std::vector<float>{1.0F, -2.0F}));
  EXPECT_EQ(tensors.at("b").values, (std::vector<float>{1.0F}));
}

TEST(HalfPrecision, SpecialNumbers) {
  EXPECT_EQ(from_half(0x3555), 0.333251953125F);
  EXPECT_EQ(from_half(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(from_half(0x7BFF), 65504.0F);
  EXPECT_TRUE(std::signbit(from_half(0x8000)));
  EXPECT_EQ(from_half(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(from_half(0x7C01)));
  EXPECT_EQ(from_bfloat16(0xC049), -3.140625F);
}

TEST_F(SafetensorsTest, BadFilesAreRefused) {
  EXPECT_NE(refusal("{", ""), "accepted");
  EXPECT_NE(refusal(R"({"a":3})", ""), "accepted");
  const std::string four(4, '\0');
  const auto entry = [](const std::string& rest) {
    return R"({"a":{"dtype":"F32",)" + rest + "}}";
  };
  EXPECT_EQ(refusal(entry(R"("shape":[1],"data_offsets":[0,4])"), four), "accepted");
  EXPECT_NE(refusal(entry(R"("shape":[1],"data_offsets":[0,4])"), "123").find("beyond the end"),
            std::string::npos);
  EXPECT_NE(refusal(entry(R"("shape":[2],"data_offsets":[0,4])"), four).find("do not fit"),
            std::string::npos);
  EXPECT_NE(refusal(entry(R"("shape":[-1],"data_offsets":[0,4])"), four).find("negative"),
            std::string::npos);
  EXPECT_NE(refusal(entry(R"("shape":[4294967296,4294967296],"data_offsets":[0,0])"), four)
                .find("larger than the file"),
            std::string::npos);
  EXPECT_NE(refusal(entry(R"("shape":[1],"data_offsets":[4,0])"), four), "accepted");
  EXPECT_NE(refusal(entry(R"("shape":[1],"data_offsets":[0])"), four), "accepted");

  write_file(path_, std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), Durability::unflushed);
  EXPECT_THROW(read_safetensors(path_), Error);
  write_file(path_, "", Durability::unflushed);
  EXPECT_THROW(read_safetensors(path_), Error);
  std::filesystem::remove(path_);
  EXPECT_THROW(read_safetensors(path_), Error);
}

}  // namespace
}  // namespace archipelago::checkpoint
