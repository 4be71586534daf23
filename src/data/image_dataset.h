#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/image_file.h"

namespace archipelago::data {

// How a copy of an image differs from it.
struct Distortion {
  std::int64_t right = 0;  // pixels; what comes in from outside is black
  std::int64_t down = 0;
  bool mirrored = false;  // left and right, after the move
};

// An HDF5 image file made by `archipelago prepare images`. File format: docs/data.md.
class ImageDataset final : public Dataset {
 public:
  // Throws Error(bad_data) naming the file and what is wrong with it.
  explicit ImageDataset(const std::filesystem::path& path);

  std::int64_t vocabulary() const override { return file_.classes; }
  std::uint64_t digest() const override { return file_.digest; }
  std::int64_t bytes() const override;
  std::int64_t samples(std::int64_t) const override { return count(Split::train); }
  std::unique_ptr<Batches> training(const Course& course) const override;

  std::int64_t channels() const { return file_.channels; }
  std::int64_t side() const { return file_.side; }
  std::int64_t numbers() const { return file_.numbers(); }  // of one image
  std::int64_t count(Split split) const;

  std::int32_t label(Split split, std::int64_t index) const;
  // Writes an image as (channels, side, side) normalized numbers.
  void copy(Split split, std::int64_t index, const Distortion& distortion,
            std::span<float> out) const;

 private:
  const ImageSplit& of(Split split) const {
    return split == Split::train ? file_.train : file_.validation;
  }

  ImageFile file_;
  std::vector<std::array<float, 256>> normalized_;  // by channel, of each value of a pixel
};

}  // namespace archipelago::data
