#include "checkpoint/hugging_face.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "checkpoint/safetensors.h"
#include "config/options.h"
#include "core/error.h"
#include "core/file.h"
#include "fragment/partition.h"

namespace archipelago::checkpoint {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::map<std::string, SafeTensor>;

constexpr std::string_view kLanguageModelPrefix = "transformer.";

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw Error(ExitCode::bad_data, "cannot import " + file.string() + ": " + why);
}

Tensors without_prefix(Tensors tensors) {
  Tensors named;
  for (auto& [name, tensor] : tensors) {
    const bool prefixed = name.starts_with(kLanguageModelPrefix);
    named[prefixed ? name.substr(kLanguageModelPrefix.size()) : name] = std::move(tensor);
  }
  return named;
}

const SafeTensor& require_table(const Tensors& tensors, const std::string& name,
                                const std::filesystem::path& file) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.shape.size() != 2) {
    refuse(file, "it holds no GPT-2 model: there is no table " + name);
  }
  return found->second;
}

std::int64_t count_layers(const Tensors& tensors) {
  std::int64_t layers = 0;
  while (tensors.contains("h." + std::to_string(layers) + ".ln_1.weight")) ++layers;
  return layers;
}

// Options of GPT-2 that make another network of the same shapes; where they are missing they are as
// ours.
void require_our_network(const Json& json, const std::filesystem::path& config_file) {
  const std::pair<const char*, Json> ours[] = {
      {"activation_function", Json::array({"gelu_new", "gelu_pytorch_tanh"})},
      {"layer_norm_epsilon", Json::array({1e-5})},
      {"scale_attn_weights", Json::array({true})},
      {"scale_attn_by_inverse_layer_idx", Json::array({false})},
      {"add_cross_attention", Json::array({false})},
      {"tie_word_embeddings", Json::array({true})}};
  for (const auto& [name, values] : ours) {
    const auto found = json.find(name);
    if (found == json.end() || std::ranges::find(values, *found) != values.end()) continue;
    refuse(config_file, "its " + std::string(name) + " is " + found->dump() +
                            "; only models with " + values.front().dump() + " can be imported");
  }
}

// A head of its own is none of our models'.
void require_tied_head(const Tensors& tensors, const std::filesystem::path& file) {
  const auto head = tensors.find("lm_head.weight");
  if (head != tensors.end() && head->second.values != tensors.at("wte.weight").values) {
    refuse(
        file,
        "its lm_head.weight differs from its wte.weight; only models that use one table for both "
        "can be imported");
  }
}

// Heads are all that shapes do not show.
std::int64_t heads_of(const std::filesystem::path& config_file, std::int64_t otherwise) {
  if (!std::filesystem::exists(config_file)) return otherwise;
  try {
    const Json json = Json::parse(read_file(config_file));
    if (const std::string kind = json.value("model_type", "gpt2"); kind != "gpt2") {
      refuse(config_file, "its model_type is " + kind + ", not gpt2");
    }
    require_our_network(json, config_file);
    return json.at("n_head").get<std::int64_t>();
  } catch (const Json::exception&) {
    refuse(config_file, "it is not the description of a GPT-2 model");
  }
}

void set_sizes(config::Model& model, const Tensors& tensors, const std::filesystem::path& file) {
  const SafeTensor& token_table = require_table(tensors, "wte.weight", file);
  model.kind = "gpt";
  model.vocabulary = token_table.shape[0];
  model.width = token_table.shape[1];
  require_tied_head(tensors, file);
  model.context = require_table(tensors, "wpe.weight", file).shape[0];
  model.layers = count_layers(tensors);
  model.heads = heads_of(file.parent_path() / "config.json", model.heads);
  if (model.heads < 1 || model.width % model.heads != 0) {
    refuse(file, "its width " + std::to_string(model.width) + " is no multiple of " +
                     std::to_string(model.heads) + " heads; put its config.json beside it");
  }
}

std::vector<float> flat_parameters(const std::vector<model::TensorInfo>& wanted,
                                   const Tensors& tensors, const std::filesystem::path& file) {
  std::vector<float> flat;
  for (const model::TensorInfo& tensor : wanted) {
    const auto found = tensors.find(tensor.name);
    if (found == tensors.end()) refuse(file, "tensor " + tensor.name + " is missing");
    if (found->second.shape != tensor.shape) {
      refuse(file, "tensor " + tensor.name + " has another shape than a GPT-2 model of its sizes");
    }
    flat.insert(flat.end(), found->second.values.begin(), found->second.values.end());
  }
  return flat;
}

std::vector<fragment::Fragment> fragments_of(const std::vector<model::TensorInfo>& tensors,
                                             int fragments) {
  std::vector<fragment::TensorExtent> extents;
  for (const model::TensorInfo& tensor : tensors) extents.push_back({tensor.offset, tensor.size});
  return fragment::partition(extents, fragments);
}

Common common_of(const Tensors& tensors, const config::RunConfig& config,
                 const std::filesystem::path& file) {
  Common common;
  common.tensors = model::describe_tensors(config.model);
  common.parameters = flat_parameters(common.tensors, tensors, file);
  common.config = config::to_map(config);
  const auto fragments = fragments_of(common.tensors, config.sync.fragments);
  common.versions.resize(fragments.size());
  common.fragment_of_tensor.resize(common.tensors.size());
  for (std::size_t p = 0; p < fragments.size(); ++p) {
    for (const fragment::Piece& piece : fragments[p].pieces) {
      common.fragment_of_tensor[static_cast<std::size_t>(piece.tensor)] = static_cast<int>(p);
    }
  }
  return common;
}

}  // namespace

std::string hugging_face_config(const config::Model& model) {
  const Json json{{"architectures", {"GPT2LMHeadModel"}},
                  {"model_type", "gpt2"},
                  {"n_layer", model.layers},
                  {"n_head", model.heads},
                  {"n_embd", model.width},
                  {"n_positions", model.context},
                  {"vocab_size", model.vocabulary},
                  {"activation_function", "gelu_new"},
                  {"layer_norm_epsilon", 1e-5},
                  {"attn_pdrop", 0.0},
                  {"embd_pdrop", 0.0},
                  {"resid_pdrop", 0.0},
                  {"tie_word_embeddings", true},
                  {"bos_token_id", nullptr},
                  {"eos_token_id", nullptr},
                  {"torch_dtype", "float32"}};
  return json.dump(2) + '\n';
}

void export_safetensors(const Common& state, const std::string& prefix,
                        const std::filesystem::path& file) {
  std::vector<NamedSpan> tensors;
  for (const model::TensorInfo& tensor : state.tensors) {
    tensors.push_back({prefix + tensor.name, tensor.shape,
                       std::span(state.parameters)
                           .subspan(static_cast<std::size_t>(tensor.offset),
                                    static_cast<std::size_t>(tensor.size))});
  }
  write_safetensors(file, tensors);
}

Global import_safetensors(const std::filesystem::path& file, config::RunConfig config) {
  const Tensors tensors = without_prefix(read_safetensors(file));
  set_sizes(config.model, tensors, file);
  Global state;
  state.common = common_of(tensors, config, file);
  state.momentum.resize(state.common.parameters.size());
  state.incarnations.resize(static_cast<std::size_t>(config.sync.learners));
  state.merged_tokens.resize(state.incarnations.size() * state.common.versions.size());
  return state;
}

}  // namespace archipelago::checkpoint
