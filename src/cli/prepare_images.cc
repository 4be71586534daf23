#include "cli/prepare_images.h"

#include <array>
#include <filesystem>
#include <iostream>
#include <vector>

#include "cli/commands.h"
#include "data/prepare_images.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage = {
    .synopsis = "archipelago prepare images FOLDER --out DATA.h5 [options]",
    .description =
        "Turns the four files of MNIST or one of its likes into an image file for training "
        "(format:\n"
        "docs/data.md): train-images-idx3-ubyte, train-labels-idx1-ubyte and the same with t10k-,\n"
        "packed as .gz or not. The t10k images become the validation split.",
    .positional = 1,
    .most_positional = 1};

struct Arguments {
  data::PrepareImages request;
  std::string out;
  bool force = false;
};

std::array<config::Option, 4> options_of(Arguments& arguments) {
  return {config::verbatim_text("out", arguments.out, "DATA.h5", "the image file to write"),
          config::verbatim_text("source", arguments.request.source, "TEXT",
                                "where the images come from"),
          config::verbatim_text("licence", arguments.request.licence, "TEXT",
                                "under what terms the images may be used"),
          config::flag("force", arguments.force, "replace an existing file")};
}

}  // namespace

int run_prepare_images(std::span<const std::string> given) {
  Arguments arguments;
  const auto positional = read_arguments(kUsage, options_of(arguments), given);
  if (!positional) return 0;
  arguments.request.folder = positional->front();
  std::error_code error;  // prepare_images() says what is wrong with the folder
  const std::vector<std::filesystem::path> files(
      std::filesystem::directory_iterator(arguments.request.folder, error), {});
  require_output(arguments.out, arguments.force, files);
  const data::ImageFile images = data::prepare_images(arguments.request);
  data::write_image_file(arguments.out, images);
  std::cout << arguments.out << ": " << images.train.labels.size() << " training and "
            << images.validation.labels.size() << " validation images of " << images.side << " x "
            << images.side << " pixels, " << images.channels
            << (images.channels == 1 ? " channel, " : " channels, ") << images.classes
            << " classes\n";
  return 0;
}

}  // namespace archipelago::cli
