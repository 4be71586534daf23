#include "fragment/contributions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"

namespace archipelago::fragment {
namespace {

class Contributions : public testing::Test {
 protected:
  ~Contributions() override { std::filesystem::remove_all(folder); }

  static std::vector<float> values(int seed, std::size_t count) {
    std::vector<float> result(count);
    for (std::size_t i = 0; i < count; ++i)
      result[i] = static_cast<float>(seed) + 0.5F * static_cast<float>(i);
    return result;
  }

  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("contributions-test-" + std::to_string(::getpid()));
};

TEST_F(Contributions, ComeBackByLife) {
  EXPECT_EQ(next_life(folder), 0);
  ContributionWriter first(folder, 0);
  first.add({1, 2, 3}, values(1, 10));
  first.add({1, 0, 0}, values(2, 7));
  EXPECT_EQ(next_life(folder), 1);
  ContributionWriter(folder, 1).add({1, 2, 3}, values(3, 10));

  const ContributionReader reader(folder, 0);
  EXPECT_EQ(reader.find({1, 2, 3}), values(1, 10));
  EXPECT_EQ(reader.find({1, 0, 0}), values(2, 7));
  EXPECT_EQ(reader.find({2, 2, 3}), std::nullopt);
  EXPECT_EQ(ContributionReader(folder, 1).find({1, 2, 3}), values(3, 10));
  EXPECT_EQ(ContributionReader(folder, 2).find({1, 2, 3}), std::nullopt);
}

TEST_F(Contributions, FilesStayBelow64MiB) {
  constexpr std::size_t kElements = 5 << 20;  // 20 MiB
  ContributionWriter writer(folder, 0);
  for (int round = 0; round < 7; ++round) writer.add({round, 0, 0}, values(round, kElements));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_LE(entry.file_size(), 64U << 20);
    ++files;
  }
  EXPECT_EQ(files, 3);
  EXPECT_EQ(ContributionReader(folder, 0).find({6, 0, 0}), values(6, kElements));
}

TEST_F(Contributions, WhatWasCutOffIsNotThere) {
  ContributionWriter writer(folder, 0);
  writer.add({1, 0, 0}, values(1, 100));
  writer.add({2, 0, 0}, values(2, 100));
  const auto file = folder / "0-0.contributions";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  const ContributionReader reader(folder, 0);
  EXPECT_EQ(reader.find({1, 0, 0}), values(1, 100));
  EXPECT_EQ(reader.find({2, 0, 0}), std::nullopt);
}

TEST_F(Contributions, DamageIsNamed) {
  ContributionWriter(folder, 0).add({1, 0, 0}, values(1, 100));
  const auto file = folder / "0-0.contributions";
  {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(200);
    stream.put('x');
  }
  EXPECT_THROW(ContributionReader(folder, 0).find({1, 0, 0}), Error);
  std::ofstream(file) << std::string(100, 'x');
  EXPECT_THROW(ContributionReader(folder, 0), Error);
}

}  // namespace
}  // namespace archipelago::fragment
