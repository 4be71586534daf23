#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace archipelago::data {

struct ImageSplit {
  std::vector<std::uint8_t> pixels;   // (count, channels, side, side)
  std::vector<std::uint16_t> labels;  // (count), below ImageFile::classes
};

// What an image file holds. File format: docs/data.md.
struct ImageFile {
  std::int64_t classes = 0;
  std::int64_t channels = 1;
  std::int64_t side = 0;  // pixels
  ImageSplit train;
  ImageSplit validation;
  // Of each channel's training pixels, as numbers from 0 to 1: what training and evaluation
  // normalize by.
  std::vector<float> mean;
  std::vector<float> deviation;
  std::string source;
  std::string licence;
  std::uint64_t digest = 0;  // digest_images(), once read

  std::int64_t numbers() const { return channels * side * side; }  // of one image
};

inline constexpr const char* kImageFormat = "archipelago-images";
inline constexpr const char* kImageFormatVersion = "1.0";

// Hash over sizes, normalization and both splits.
std::uint64_t digest_images(const ImageFile& images);

// Writes the file whole or not at all. Throws std::system_error naming the path.
void write_image_file(const std::filesystem::path& path, const ImageFile& images);

// Throws Error(bad_data) naming the file and what is wrong with it.
ImageFile read_image_file(const std::filesystem::path& path);

}  // namespace archipelago::data
