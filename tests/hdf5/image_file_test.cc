#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/file.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/file.h"

namespace archipelago::hdf5 {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

class ImageFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("hdf5_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "file.h5";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  LibraryLock lock_;
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

void write_example(const std::filesystem::path& path) {
  MappedFile output(path, image_capacity(0, 2));  // grows
  ImageFile image(output);
  write_attribute(image.id(), "text", "Grüße");
  write_fixed_text(image.id(), "fixed text", "Grüße");
  write_fixed_text(image.id(), "no text", "");
  write_flag(image.id(), "yes", true);
  write_number<std::uint64_t>(image.id(), "large", UINT64_MAX);
  write_number<double>(image.id(), "share", 0.1);
  // Three chunks, the last one partly padding.
  std::vector<float> values(3 * 100'001);
  std::iota(values.begin(), values.end(), 0.5f);
  const std::int64_t shape[] = {100'001, 3};
  write_dataset<float>(image.id(), "values", shape, values);
  write_dataset<std::int64_t>(image.id(), "none", std::vector<std::int64_t>{});
  output.commit(std::move(image).finish(), Durability::unflushed);
}

TEST_F(ImageFileTest, ReadsBackWhatWasWritten) {
  write_example(path_);
  const File file = open_file(path_);
  EXPECT_EQ(read_text(file.get(), "text"), "Grüße");
  EXPECT_EQ(read_text(file.get(), "fixed text"), "Grüße");
  EXPECT_EQ(read_fixed_text(file.get(), "fixed text"), "Grüße");
  EXPECT_EQ(read_fixed_text(file.get(), "no text"), "");
  EXPECT_THROW(read_fixed_text(file.get(), "text"), Failure);
  EXPECT_TRUE(read_flag(file.get(), "yes"));
  EXPECT_EQ(read_number<std::uint64_t>(file.get(), "large"), UINT64_MAX);
  EXPECT_EQ(read_number<double>(file.get(), "share"), 0.1);
  const std::vector<float> values = read_vector<float>(file.get(), "values");
  ASSERT_EQ(values.size(), 300'003u);
  EXPECT_EQ(values.front(), 0.5f);
  EXPECT_EQ(values.back(), 300'002.5f);
  EXPECT_EQ(shape_of(open_dataset(file.get(), "values")), (std::vector<std::int64_t>{100'001, 3}));
  EXPECT_TRUE(read_vector<std::int64_t>(file.get(), "none").empty());
  EXPECT_EQ(member_names(file.get()), (std::vector<std::string>{"none", "values"}));
}

TEST_F(ImageFileTest, SameContentGivesSameBytes) {
  write_example(path_);
  write_example(folder_ / "other.h5");
  EXPECT_EQ(read_file(path_), read_file(folder_ / "other.h5"));
}

TEST_F(ImageFileTest, FlippedBitInDataIsFound) {
  write_example(path_);
  std::string bytes = read_file(path_);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_file(path_, bytes, Durability::unflushed);
  const File file = open_file(path_);
  const std::string message = message_of([&] { read_through(file.get(), "values"); });
  EXPECT_NE(message.find("values"), std::string::npos) << message;
  EXPECT_NE(message.find("checksum"), std::string::npos) << message;
}

TEST_F(ImageFileTest, MissingAndMistakenMembersAreNamed) {
  write_example(path_);
  const File file = open_file(path_);
  EXPECT_EQ(message_of([&] { read_vector<float>(file.get(), "absent"); }),
            "cannot open dataset absent: it is missing");
  EXPECT_EQ(message_of([&] { read_text(file.get(), "share"); }),
            "cannot read attribute share: it has another type or shape than expected");
  EXPECT_EQ(message_of([&] { read_vector<std::int32_t>(file.get(), "values"); }),
            "cannot read dataset values: it holds another type of numbers than expected");
}

TEST_F(ImageFileTest, NumbersThatHaveNoRoomAreRefused) {
  MappedFile output(path_, image_capacity(0, 3));
  ImageFile image(output);
  write_dataset<std::int64_t>(image.id(), "fit", std::vector<std::int64_t>{0, 65535, 7});
  write_dataset<std::int64_t>(image.id(), "large", std::vector<std::int64_t>{1, 65536});
  write_dataset<std::int64_t>(image.id(), "negative", std::vector<std::int64_t>{1, -1});
  output.commit(std::move(image).finish(), Durability::unflushed);
  const File file = open_file(path_);
  EXPECT_EQ(read_vector<std::uint16_t>(file.get(), "fit"),
            (std::vector<std::uint16_t>{0, 65535, 7}));
  for (const std::string name : {"large", "negative"}) {
    EXPECT_EQ(message_of([&] { read_vector<std::uint16_t>(file.get(), name); }),
              "cannot read dataset " + name +
                  ": it holds numbers that 16 bits without a sign have no room for");
  }
  EXPECT_EQ(read_vector<std::int32_t>(file.get(), "negative"), (std::vector<std::int32_t>{1, -1}));
}

std::size_t leave_as_it_is(unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                           void**) {
  return bytes;
}

TEST_F(ImageFileTest, AFilterThatIsNotHereIsNamed) {
  constexpr H5Z_filter_t kFilter = 300;
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, kFilter, 1,       1,
                               "squeeze",        nullptr, nullptr, leave_as_it_is};
  ASSERT_GE(H5Zregister(&filter), 0);
  {
    const File file(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "create");
    const hsize_t extent = 4;
    const Dataspace space(H5Screate_simple(1, &extent, nullptr), "make a space");
    const PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "make a list");
    check(H5Pset_chunk(creation.get(), 1, &extent), "set chunks");
    check(H5Pset_filter(creation.get(), kFilter, H5Z_FLAG_MANDATORY, 0, nullptr), "set a filter");
    const Dataset dataset(H5Dcreate2(file.get(), "d", H5T_STD_I32LE, space.get(), H5P_DEFAULT,
                                     creation.get(), H5P_DEFAULT),
                          "make a dataset");
    const std::vector<std::int32_t> values = {1, 2, 3, 4};
    check(H5Dwrite(dataset.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
          "write");
  }
  ASSERT_GE(H5Zunregister(kFilter), 0);
  const File file = open_file(path_);
  const std::string words =
      "cannot read dataset d: it was compressed by the filter squeeze (300), which is not here; "
      "write it again with gzip, or without compression";
  EXPECT_EQ(message_of([&] { read_vector<std::int32_t>(file.get(), "d"); }), words);
  EXPECT_EQ(message_of([&] { read_through(file.get(), "d"); }), words);
}

TEST_F(ImageFileTest, ForeignFileIsRefused) {
  write_file(path_, "no HDF5 in here", Durability::unflushed);
  EXPECT_NE(message_of([&] { open_file(path_); }), "");
}

// An empty file whose dataset says to be of these extents.
void write_without_elements(const std::filesystem::path& path,
                            const std::vector<hsize_t>& extents) {
  MappedFile output(path, image_capacity(0, 1));
  ImageFile image(output);
  const int rank = static_cast<int>(extents.size());
  const std::vector<hsize_t> chunk(extents.size(), 1);
  {
    const Dataspace space(H5Screate_simple(rank, extents.data(), nullptr), "make a space");
    const PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "make a list");
    check(H5Pset_chunk(creation.get(), rank, chunk.data()), "set chunks");
    const Dataset dataset(H5Dcreate2(image.id(), "d", H5T_STD_I32LE, space.get(), H5P_DEFAULT,
                                     creation.get(), H5P_DEFAULT),
                          "make a dataset");
  }
  output.commit(std::move(image).finish(), Durability::unflushed);
}

TEST_F(ImageFileTest, ShapesThatCannotBeAreRefused) {
  const auto refusal = [&](const std::vector<hsize_t>& extents) {
    write_without_elements(path_, extents);
    return message_of([&] {
      const File file = open_file(path_);
      read_vector<std::int32_t>(file.get(), "d");
    });
  };
  const std::string missing = "cannot read dataset d: its elements are not in the file";
  EXPECT_EQ(refusal({5}), missing);
  // 2^64 + 2 and 2^64 elements.
  EXPECT_EQ(refusal({3, 6148914691236517206}), missing);
  EXPECT_EQ(refusal({hsize_t{1} << 32, hsize_t{1} << 32}), missing);
  EXPECT_EQ(refusal({0, 7}), "");
}

}  // namespace
}  // namespace archipelago::hdf5
