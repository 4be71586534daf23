#include <filesystem>
#include <iostream>

#include "checkpoint/hugging_face.h"
#include "cli/commands.h"
#include "config/options.h"
#include "core/error.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage = {
    .synopsis = "archipelago import IN.safetensors OUT.h5 [options]",
    .description =
        "Makes a global checkpoint of a GPT-2 model in Hugging Face's form, with config.json "
        "beside it.\nTo train on from it, write RUN/checkpoints/global-0000000000.h5 and give "
        "train --out RUN --resume.",
    .positional = 2,
    .most_positional = 2};

}  // namespace

int run_import(std::span<const std::string> arguments) {
  config::RunConfig config;
  bool force = false;
  const std::vector<config::Option> options = {
      config::integer("model.heads", config.model.heads, 1, 1024,
                      "attention heads, where there is no config.json"),
      config::integer("sync.learners", config.sync.learners, 1, 4096,
                      "learners of the run that will go on from it"),
      config::integer("sync.fragments", config.sync.fragments, 1, 65'536, "its fragments"),
      config::flag("force", force, "replace an existing file")};
  const auto positional = read_arguments(kUsage, options, arguments);
  if (!positional) return 0;
  const std::filesystem::path source = positional->front();
  const std::filesystem::path target = positional->back();
  require_new_file(target, force, {&source, 1});
  const checkpoint::Global state = checkpoint::import_safetensors(source, config);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
  checkpoint::save_as(target, state);
  std::cout << target.string() << ": " << state.common.tensors.size() << " tensors, "
            << state.common.parameters.size() << " parameters\n";
  return 0;
}

}  // namespace archipelago::cli
