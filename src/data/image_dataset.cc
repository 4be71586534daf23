#include "data/image_dataset.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "data/token_dataset.h"

namespace archipelago::data {
namespace {

class ImageBatches final : public Batches {
 public:
  ImageBatches(const ImageDataset& dataset, const Course& course)
      : dataset_(dataset),
        course_(course),
        // Images are windows of one token.
        order_(dataset.count(Split::train) + 1, 1, course.shards, course.seed) {}

  Samples load(std::span<const ShardCursor> places) override {
    const auto numbers = static_cast<std::size_t>(dataset_.numbers());
    images_.resize(places.size() * numbers);
    classes_.resize(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::int64_t index = order_.window_start(places[i]);
      dataset_.copy(Split::train, index, distortion(places[i]),
                    std::span(images_).subspan(i * numbers, numbers));
      classes_[i] = dataset_.label(Split::train, index);
    }
    return {{}, classes_, images_};
  }

 private:
  // A pure function of seed and place in the order of all epochs.
  Distortion distortion(const ShardCursor& at) const {
    const auto place = static_cast<std::uint64_t>(order_.shards().position(at));
    Random random(mix_bits(course_.seed) ^ mix_bits(place));
    const auto offset = [&] {
      const auto choices = static_cast<std::uint64_t>(2 * course_.shift + 1);
      return static_cast<std::int64_t>(random.below(choices)) - course_.shift;
    };
    const std::int64_t right = offset();
    const std::int64_t down = offset();
    return {right, down, course_.flip && random.below(2) == 1};
  }

  const ImageDataset& dataset_;
  Course course_;
  SequenceOrder order_;
  std::vector<float> images_;
  std::vector<std::int32_t> classes_;
};

}  // namespace

ImageDataset::ImageDataset(const std::filesystem::path& path) : file_(read_image_file(path)) {
  for (std::size_t channel = 0; channel < file_.mean.size(); ++channel) {
    auto& table = normalized_.emplace_back();
    for (std::size_t value = 0; value < table.size(); ++value) {
      table[value] =
          (static_cast<float>(value) / 255.0F - file_.mean[channel]) / file_.deviation[channel];
    }
  }
}

std::int64_t ImageDataset::bytes() const {
  return static_cast<std::int64_t>(file_.train.pixels.size() + file_.validation.pixels.size() +
                                   (file_.train.labels.size() + file_.validation.labels.size()) *
                                       sizeof(std::uint16_t));
}

std::int64_t ImageDataset::count(Split split) const {
  return static_cast<std::int64_t>(of(split).labels.size());
}

std::int32_t ImageDataset::label(Split split, std::int64_t index) const {
  return of(split).labels[static_cast<std::size_t>(index)];
}

std::unique_ptr<Batches> ImageDataset::training(const Course& course) const {
  if (count(Split::train) < course.shards) {
    throw Error(ExitCode::bad_data, "the data file has " + std::to_string(count(Split::train)) +
                                        " training images, too few for " +
                                        std::to_string(course.shards) + " learners");
  }
  return std::make_unique<ImageBatches>(*this, course);
}

void ImageDataset::copy(Split split, std::int64_t index, const Distortion& distortion,
                        std::span<float> out) const {
  const std::int64_t side = file_.side;
  const std::uint8_t* pixels = of(split).pixels.data() + index * numbers();
  float* target = out.data();
  for (const auto& table : normalized_) {
    const float black = table[0];
    for (std::int64_t y = 0; y < side; ++y, target += side) {
      const std::int64_t from_y = y - distortion.down;
      if (from_y < 0 || from_y >= side) {
        std::fill_n(target, side, black);
        continue;
      }
      const std::uint8_t* const row = pixels + from_y * side;
      for (std::int64_t x = 0; x < side; ++x) {
        const std::int64_t seen = distortion.mirrored ? side - 1 - x : x;
        const std::int64_t from_x = seen - distortion.right;
        target[x] = from_x < 0 || from_x >= side ? black : table[row[from_x]];
      }
    }
    pixels += side * side;
  }
}

}  // namespace archipelago::data
