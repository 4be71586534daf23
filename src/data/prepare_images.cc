#include "data/prepare_images.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "data/idx_file.h"

namespace archipelago::data {
namespace {

std::filesystem::path packed_or_plain(const std::filesystem::path& folder,
                                      const std::string& name) {
  auto packed = folder / (name + ".gz");
  return std::filesystem::exists(packed) ? packed : folder / name;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::bad_data, "cannot use " + path.string() + ": " + why);
}

// One of the sets' two splits; `side` is 0 before the first.
ImageSplit read_split(const std::filesystem::path& folder, const std::string& prefix,
                      std::int64_t& side) {
  const auto images_path = packed_or_plain(folder, prefix + "-images-idx3-ubyte");
  const auto labels_path = packed_or_plain(folder, prefix + "-labels-idx1-ubyte");
  IdxArray images = read_idx(images_path);
  const IdxArray labels = read_idx(labels_path);
  if (images.shape.size() != 3 || images.shape[0] == 0 || images.shape[1] == 0 ||
      images.shape[1] != images.shape[2]) {
    refuse(images_path, "it holds no square images");
  }
  if (side != 0 && images.shape[1] != side) {
    refuse(images_path, "its images are not as large as those of the training split");
  }
  if (labels.shape.size() != 1 || labels.shape[0] != images.shape[0]) {
    refuse(labels_path, "it does not hold one label for each image");
  }
  side = images.shape[1];
  return {std::move(images.values), {labels.values.begin(), labels.values.end()}};
}

// Of one channel's values from 0 to 255, as numbers from 0 to 1.
std::pair<float, float> mean_and_deviation(const std::vector<std::uint8_t>& pixels) {
  double sum = 0;
  double squares = 0;
  for (const std::uint8_t pixel : pixels) {
    const double value = pixel / 255.0;
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(pixels.size());
  const double mean = sum / count;
  const double variance = squares / count - mean * mean;
  return {static_cast<float>(mean), static_cast<float>(std::sqrt(std::max(variance, 1e-12)))};
}

}  // namespace

ImageFile prepare_images(const PrepareImages& request) {
  ImageFile images;
  images.train = read_split(request.folder, "train", images.side);
  images.validation = read_split(request.folder, "t10k", images.side);
  for (const ImageSplit* split : {&images.train, &images.validation}) {
    images.classes =
        std::max<std::int64_t>(images.classes, *std::ranges::max_element(split->labels) + 1);
  }
  const auto [mean, deviation] = mean_and_deviation(images.train.pixels);
  images.mean = {mean};
  images.deviation = {deviation};
  images.source = request.source;
  images.licence = request.licence;
  return images;
}

}  // namespace archipelago::data
