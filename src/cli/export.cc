#include <array>
#include <filesystem>
#include <iostream>

#include "checkpoint/hugging_face.h"
#include "cli/checkpoint_argument.h"
#include "cli/commands.h"
#include "config/options.h"
#include "core/error.h"
#include "core/file.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage = {
    .synopsis = "archipelago export CHECKPOINT OUT.safetensors [options]",
    .description =
        "Writes a checkpoint's parameters as Hugging Face's transformers reads them: "
        "OUT.safetensors and,\nfor a GPT-2 model, config.json beside it. "
        "CHECKPOINT: a file, or a run's folder for its\nnewest global checkpoint.",
    .positional = 2,
    .most_positional = 2};

}  // namespace

int run_export(std::span<const std::string> arguments) {
  std::string prefix;
  bool force = false;
  const std::array options = {
      config::verbatim_text(
          "prefix", prefix, "TEXT",
          "put before each tensor's name, e.g. transformer. for GPT2LMHeadModel's own"),
      config::flag("force", force, "replace existing files")};
  const auto positional = read_arguments(kUsage, options, arguments);
  if (!positional) return 0;
  const std::filesystem::path source = checkpoint_argument(positional->front());
  const std::filesystem::path target = positional->back();
  const std::filesystem::path description = target.parent_path() / "config.json";
  require_new_file(target, force, {&source, 1});

  const checkpoint::Common state = checkpoint::load_parameters(source);
  const config::Model model = config::from_map(state.config, source).model;
  const bool described = model.kind == "gpt";
  if (described) require_new_file(description, force, {&source, 1});
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
  checkpoint::export_safetensors(state, prefix, target);
  std::cout << target.string() << ": " << state.tensors.size() << " tensors, "
            << state.parameters.size() << " parameters\n";
  if (described) {
    write_file(description, checkpoint::hugging_face_config(model), Durability::flushed);
  }
  return 0;
}

}  // namespace archipelago::cli
