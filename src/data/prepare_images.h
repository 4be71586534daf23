#pragma once

#include <filesystem>
#include <string>

#include "data/image_file.h"

namespace archipelago::data {

struct PrepareImages {
  // Holds the four files of MNIST and its likes, packed by gzip or not: train-images-idx3-ubyte,
  // train-labels-idx1-ubyte, and t10k-... of both, which become the validation split.
  std::filesystem::path folder;
  std::string source = "not stated";
  std::string licence = "not stated";
};

// Throws Error(bad_data) naming the file that is missing or does not fit the others.
ImageFile prepare_images(const PrepareImages& request);

}  // namespace archipelago::data
