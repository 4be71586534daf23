#include "data/image_file.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/checksum.h"
#include "data/data_file.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/file.h"

namespace archipelago::data {
namespace {

constexpr FileKind kKind{"image file", "archipelago prepare images", "images", kImageFormat,
                         kImageFormatVersion};
constexpr std::int64_t kMostClasses = 65536;
constexpr std::int64_t kMostChannels = 1024;
constexpr std::int64_t kLargestSide = 65536;

[[noreturn]] void refuse(const std::string& why) { throw hdf5::Failure(why); }

void write_split(hid_t file, const std::string& name, const ImageFile& images,
                 const ImageSplit& split) {
  const hdf5::Group group = hdf5::create_group(file, name);
  const std::int64_t shape[] = {static_cast<std::int64_t>(split.labels.size()), images.channels,
                                images.side, images.side};
  hdf5::write_dataset<std::uint8_t>(group.get(), "images", shape, split.pixels);
  hdf5::write_dataset<std::uint16_t>(group.get(), "labels", split.labels);
}

ImageSplit read_split(hid_t file, const std::string& name, ImageFile& images) {
  const hdf5::Group group = hdf5::open_group(file, name);
  const hdf5::Dataset dataset = hdf5::open_dataset(group.get(), "images");
  const std::vector<std::int64_t> shape = hdf5::shape_of(dataset);
  const bool fits = shape.size() == 4 && shape[1] >= 1 && shape[1] <= kMostChannels &&
                    shape[2] >= 1 && shape[2] <= kLargestSide && shape[2] == shape[3] &&
                    (images.side == 0 || (shape[1] == images.channels && shape[2] == images.side));
  if (!fits) refuse("dataset " + name + "/images is not (count, channels, side, side)");
  images.channels = shape[1];
  images.side = shape[2];
  ImageSplit split{hdf5::read_vector<std::uint8_t>(group.get(), "images"),
                   hdf5::read_vector<std::uint16_t>(group.get(), "labels")};
  if (std::cmp_not_equal(split.labels.size(), shape[0])) {
    refuse(name + " has " + std::to_string(shape[0]) + " images but " +
           std::to_string(split.labels.size()) + " labels");
  }
  const auto foreign = std::ranges::find_if(
      split.labels, [&images](std::uint16_t label) { return label >= images.classes; });
  if (foreign != split.labels.end()) {
    refuse(name + "/labels holds class " + std::to_string(*foreign) + " but there are " +
           std::to_string(images.classes) + " classes");
  }
  return split;
}

void read_normalization(hid_t file, ImageFile& images) {
  images.mean = hdf5::read_vector<float>(file, "mean");
  images.deviation = hdf5::read_vector<float>(file, "deviation");
  const auto channels = static_cast<std::size_t>(images.channels);
  const auto is_usable = [](float deviation) { return std::isfinite(deviation) && deviation > 0; };
  if (images.mean.size() != channels || images.deviation.size() != channels ||
      !std::ranges::all_of(images.mean, [](float mean) { return std::isfinite(mean); }) ||
      !std::ranges::all_of(images.deviation, is_usable)) {
    refuse("datasets mean and deviation are not a number and a positive number a channel");
  }
}

ImageFile read_images(hid_t file) {
  ImageFile images;
  images.classes = hdf5::read_number<std::int64_t>(file, "classes");
  if (images.classes < 1 || images.classes > kMostClasses) {
    refuse("its " + std::to_string(images.classes) + " classes are not within 1 to 65536");
  }
  images.train = read_split(file, "train", images);
  images.validation = read_split(file, "validation", images);
  read_normalization(file, images);
  images.source = hdf5::read_fixed_text(file, "source");
  images.licence = hdf5::read_fixed_text(file, "licence");
  return images;
}

}  // namespace

std::uint64_t digest_images(const ImageFile& images) {
  const std::int64_t sizes[] = {images.classes, images.channels, images.side,
                                static_cast<std::int64_t>(images.train.labels.size())};
  std::uint64_t sum = checksum(std::as_bytes(std::span(sizes)));
  sum = checksum(std::as_bytes(std::span(images.mean)), sum);
  sum = checksum(std::as_bytes(std::span(images.deviation)), sum);
  for (const ImageSplit* split : {&images.train, &images.validation}) {
    sum = checksum(std::as_bytes(std::span(split->pixels)), sum);
    sum = checksum(std::as_bytes(std::span(split->labels)), sum);
  }
  return sum;
}

void write_image_file(const std::filesystem::path& path, const ImageFile& images) {
  const std::size_t data_bytes =
      images.train.pixels.size() + images.validation.pixels.size() +
      (images.train.labels.size() + images.validation.labels.size()) * sizeof(std::uint16_t);
  write_data_file(path, kKind, data_bytes, digest_images(images), [&](hid_t file) {
    hdf5::write_fixed_text(file, "source", images.source);
    hdf5::write_fixed_text(file, "licence", images.licence);
    hdf5::write_number<std::int64_t>(file, "classes", images.classes);
    write_split(file, "train", images, images.train);
    write_split(file, "validation", images, images.validation);
    hdf5::write_dataset<float>(file, "mean", images.mean);
    hdf5::write_dataset<float>(file, "deviation", images.deviation);
  });
}

ImageFile read_image_file(const std::filesystem::path& path) {
  ImageFile images;
  read_data_file(path, kKind, [&](hid_t file) {
    images = read_images(file);
    return images.digest = digest_images(images);
  });
  return images;
}

}  // namespace archipelago::data
