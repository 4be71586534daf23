#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "config/run_config.h"

// GPT-2 models as Hugging Face's transformers reads and writes them: a safetensors file and the
// model's sizes in a config.json beside it.
namespace archipelago::checkpoint {

// The config.json that describes a model of kind gpt.
std::string hugging_face_config(const config::Model& model);

// Writes the parameters under Hugging Face's names with `prefix` before each ("transformer." as in
// GPT2LMHeadModel's own state; none as on the hub). The tied output table is not written twice.
// Throws std::system_error naming the path.
void export_safetensors(const Common& state, const std::string& prefix,
                        const std::filesystem::path& file);

// A global checkpoint of round 0 with these parameters, no momentum, and `config`'s options but for
// the model's sizes, which come from `file` (context, layers, vocabulary, width) and from
// config.json beside it (heads; without that file `config.model.heads` holds). Throws
// Error(bad_data) naming the file and the tensor that is missing or has another shape.
Global import_safetensors(const std::filesystem::path& file, config::RunConfig config);

}  // namespace archipelago::checkpoint
