#include "data/image_dataset.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "data/idx_file.h"
#include "data/prepare_images.h"
#include "data/token_dataset.h"
#include "data/token_file.h"
#include "hdf5/attribute.h"
#include "hdf5/file.h"

namespace archipelago::data {
namespace {

constexpr std::int64_t kSide = 3;
constexpr std::int64_t kNumbers = kSide * kSide;

// An IDX file's bytes: a header of big-endian sizes, then the values.
std::string idx(std::vector<std::uint32_t> shape, const std::vector<std::uint8_t>& values) {
  std::string bytes{0, 0, 8, static_cast<char>(shape.size())};
  for (const std::uint32_t extent : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift);
  }
  return bytes + std::string(values.begin(), values.end());
}

void write_packed(const std::filesystem::path& path, const std::string& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

class ImageDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("image_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "images.h5";
    pixels_.resize(20 * kNumbers);
    std::iota(pixels_.begin(), pixels_.end(), std::uint8_t{0});
    labels_.resize(20);
    for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<std::uint8_t>(i % 4);
    // Packed and plain.
    write_packed(folder_ / "train-images-idx3-ubyte.gz", idx({20, kSide, kSide}, pixels_));
    write_file(folder_ / "train-labels-idx1-ubyte", idx({20}, labels_), Durability::unflushed);
    write_packed(folder_ / "t10k-images-idx3-ubyte.gz",
                 idx({2, kSide, kSide}, std::vector<std::uint8_t>(2 * kNumbers, 7)));
    write_file(folder_ / "t10k-labels-idx1-ubyte", idx({2}, {4, 0}), Durability::unflushed);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ImageDataset prepared() const {
    write_image_file(path_, prepare_images({folder_, "a test", "none"}));
    return ImageDataset(path_);
  }

  std::string refusal(const std::function<void()>& action) const {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      EXPECT_NE(std::string(error.what()).find(folder_.string()), std::string::npos);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "accepted";
  }

  std::vector<float> image(const ImageDataset& dataset, std::int64_t index,
                           const Distortion& distortion) const {
    std::vector<float> out(kNumbers);
    dataset.copy(Split::train, index, distortion, out);
    return out;
  }

  // By the definition of normalization, of pixel values.
  std::vector<double> normalized(const std::vector<int>& values) const {
    double sum = 0;
    double squares = 0;
    for (const std::uint8_t pixel : pixels_) sum += pixel / 255.0;
    const double mean = sum / static_cast<double>(pixels_.size());
    for (const std::uint8_t pixel : pixels_) squares += std::pow(pixel / 255.0 - mean, 2);
    const double deviation = std::sqrt(squares / static_cast<double>(pixels_.size()));
    std::vector<double> result;
    for (const int value : values) result.push_back((value / 255.0 - mean) / deviation);
    return result;
  }

  void expect_image(const std::vector<float>& image, const std::vector<int>& values) const {
    const std::vector<double> wanted = normalized(values);
    ASSERT_EQ(image.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(image[i], wanted[i], 1e-5) << i;
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
};

TEST_F(ImageDatasetTest, HoldsWhatWasPrepared) {
  const ImageDataset dataset = prepared();
  EXPECT_EQ(dataset.vocabulary(), 5);  // class 4 is seen in validation alone
  EXPECT_EQ(dataset.side(), kSide);
  EXPECT_EQ(dataset.channels(), 1);
  EXPECT_EQ(dataset.count(Split::train), 20);
  EXPECT_EQ(dataset.count(Split::validation), 2);
  EXPECT_EQ(dataset.label(Split::train, 6), 2);
  EXPECT_EQ(dataset.label(Split::validation, 0), 4);
  expect_image(image(dataset, 2, {}), {18, 19, 20, 21, 22, 23, 24, 25, 26});
  const ImageFile file = read_image_file(path_);
  EXPECT_EQ(file.source, "a test");
  EXPECT_EQ(file.licence, "none");
  EXPECT_NE(dynamic_cast<ImageDataset*>(open_dataset(path_).get()), nullptr);
}

TEST_F(ImageDatasetTest, MovesAndMirrors) {
  const ImageDataset dataset = prepared();
  expect_image(image(dataset, 1, {.right = 1, .down = 0}), {0, 9, 10, 0, 12, 13, 0, 15, 16});
  expect_image(image(dataset, 1, {.right = 0, .down = -1}), {12, 13, 14, 15, 16, 17, 0, 0, 0});
  expect_image(image(dataset, 1, {.mirrored = true}), {11, 10, 9, 14, 13, 12, 17, 16, 15});
  expect_image(image(dataset, 1, {.right = 1, .down = 1, .mirrored = true}),
               {0, 0, 0, 10, 9, 0, 13, 12, 0});
}

std::vector<ShardCursor> places(int shard, std::int64_t first, std::int64_t count) {
  std::vector<ShardCursor> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back({shard, first + i});
  return all;
}

TEST_F(ImageDatasetTest, EveryImageOnceAnEpochOverAllShards) {
  const ImageDataset dataset = prepared();
  const auto batches = dataset.training({.shards = 3, .seed = 5});
  const std::int64_t sizes[] = {7, 7, 6};
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::multiset<float> first_pixels;
    for (int shard = 0; shard < 3; ++shard) {
      const Samples samples = batches->load(places(shard, epoch * sizes[shard], sizes[shard]));
      for (std::int64_t i = 0; i < sizes[shard]; ++i) {
        first_pixels.insert(samples.images[static_cast<std::size_t>(i * kNumbers)]);
      }
    }
    EXPECT_EQ(first_pixels.size(), 20U);
    EXPECT_EQ(std::set<float>(first_pixels.begin(), first_pixels.end()).size(), 20U);
  }
}

TEST_F(ImageDatasetTest, SamplesDependOnSeedShardAndCursorAlone) {
  const ImageDataset dataset = prepared();
  const Course course{.shards = 2, .seed = 5, .shift = 1, .flip = true};
  const auto keep = [](const Samples& samples) {
    return std::pair(std::vector<float>(samples.images.begin(), samples.images.end()),
                     std::vector<std::int32_t>(samples.targets.begin(), samples.targets.end()));
  };
  const auto batches = dataset.training(course);
  const auto [images, targets] = keep(batches->load(places(1, 3, 40)));
  EXPECT_TRUE(batches->load(places(0, 0, 8)).inputs.empty());
  // Another object, in other pieces.
  const auto again = dataset.training(course);
  const auto [part, part_targets] = keep(again->load(places(1, 13, 5)));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), images.begin() + 10 * kNumbers));
  EXPECT_TRUE(std::equal(part_targets.begin(), part_targets.end(), targets.begin() + 10));
  // The copies of one image in other epochs differ, and so do other seeds.
  EXPECT_NE(
      keep(dataset.training({.shards = 2, .seed = 6, .shift = 1})->load(places(1, 3, 40))).first,
      images);
  std::set<std::vector<float>> copies;
  for (std::int64_t epoch = 0; epoch < 12; ++epoch) {
    const Samples samples = batches->load(places(0, epoch * 10, 10));
    for (std::int64_t i = 0; i < 10; ++i) {
      const auto start = samples.images.begin() + i * kNumbers;
      if (samples.targets[static_cast<std::size_t>(i)] == 1)
        copies.emplace(start, start + kNumbers);
    }
  }
  EXPECT_GT(copies.size(), 10U);
}

TEST_F(ImageDatasetTest, TooFewImagesForTheLearnersAreRefused) {
  EXPECT_THROW(prepared().training({.shards = 21}), Error);
}

TEST_F(ImageDatasetTest, BrokenIdxFilesAreRefusedByName) {
  const auto broken = folder_ / "broken";
  const auto refused = [&](const std::string& bytes) {
    write_file(broken, bytes, Durability::unflushed);
    return refusal([&] { read_idx(broken); });
  };
  EXPECT_EQ(read_idx(folder_ / "train-labels-idx1-ubyte").values, labels_);
  EXPECT_NE(refused("no IDX").find("no IDX file"), std::string::npos);
  EXPECT_NE(refused("").find("no IDX file"), std::string::npos);
  EXPECT_NE(refused(idx({3}, {1, 2, 3}).substr(0, 6)).find("header"), std::string::npos);
  EXPECT_NE(refused(idx({3}, {1, 2})).find("shorter"), std::string::npos);
  EXPECT_NE(refused(idx({3}, {1, 2, 3, 4})).find("longer"), std::string::npos);
  EXPECT_NE(refused(idx({4294967295, 4294967295}, {1})).find("larger"), std::string::npos);
  EXPECT_NE(refused(idx({4294967295}, {1})).find("shorter"), std::string::npos);
  EXPECT_NE(refusal([&] { read_idx(folder_ / "absent"); }).find("no such file"), std::string::npos);
  std::string packed = read_file(folder_ / "train-images-idx3-ubyte.gz");
  packed[packed.size() / 2] ^= 0x55;
  EXPECT_NE(refused(packed).find("damaged"), std::string::npos);
}

TEST_F(ImageDatasetTest, FilesThatDoNotFitTogetherAreRefusedByName) {
  const auto prepare = [&] { return refusal([&] { prepare_images({folder_, "", ""}); }); };
  write_file(folder_ / "t10k-labels-idx1-ubyte", idx({3}, {0, 1, 2}), Durability::unflushed);
  EXPECT_NE(prepare().find("t10k-labels-idx1-ubyte: it does not hold one label"),
            std::string::npos);
  write_packed(folder_ / "t10k-images-idx3-ubyte.gz", idx({1, 2, 2}, {1, 2, 3, 4}));
  EXPECT_NE(prepare().find("t10k-images-idx3-ubyte.gz: its images are not as large"),
            std::string::npos);
  write_packed(folder_ / "train-images-idx3-ubyte.gz", idx({1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_NE(prepare().find("no square images"), std::string::npos);
}

TEST_F(ImageDatasetTest, ForeignAndDamagedFilesAreRefusedByName) {
  ImageFile file = prepare_images({folder_, "a test", "none"});
  const auto rewritten = [&] {
    write_image_file(path_, file);
    return refusal([&] { open_dataset(path_); });
  };
  EXPECT_EQ(rewritten(), "accepted");
  file.train.labels[3] = 5;
  EXPECT_NE(rewritten().find("class 5"), std::string::npos);
  file.train.labels[3] = 0;
  file.deviation = {0};
  EXPECT_NE(rewritten().find("deviation"), std::string::npos);
  file.deviation = {1};
  const ImageFile sound = file;
  file.train = file.validation = {};
  file.side = std::int64_t{1} << 40;
  EXPECT_NE(rewritten().find("(count, channels, side, side)"), std::string::npos);
  file = sound;
  ASSERT_EQ(rewritten(), "accepted");
  std::string bytes = read_file(path_);
  const auto at = bytes.find(std::string("\x12\x13\x14\x15\x16", 5));  // pixels
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'x';
  write_file(path_, bytes, Durability::unflushed);
  EXPECT_NE(refusal([&] { open_dataset(path_); }).find("dataset images"), std::string::npos);
  write_file(path_, bytes.substr(0, bytes.size() / 2), Durability::unflushed);
  EXPECT_NE(refusal([&] { ImageDataset{path_}; }), "accepted");
}

TEST_F(ImageDatasetTest, WhatIsNoDataFileIsToBeMadeOfTheWantedKind) {
  const auto missing = folder_ / "missing.h5";
  EXPECT_NE(refusal([&] { open_dataset(missing, Kind::images); }).find("prepare images"),
            std::string::npos);
  EXPECT_NE(refusal([&] { open_dataset(missing, Kind::text); }).find("prepare text"),
            std::string::npos);
  write_image_file(path_, prepare_images({folder_, "a test", "none"}));
  EXPECT_NE(dynamic_cast<ImageDataset*>(open_dataset(path_, Kind::text).get()), nullptr);
}

}  // namespace
}  // namespace archipelago::data
