#include "checkpoint/hugging_face.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "config/options.h"
#include "core/error.h"
#include "core/file.h"
#include "example_state.h"

namespace archipelago::checkpoint {
namespace {

config::RunConfig small_run() {
  config::RunConfig run;
  run.model.layers = 2;
  run.model.width = 12;
  run.model.heads = 3;
  run.model.context = 5;
  run.model.vocabulary = 17;
  run.sync.fragments = 4;
  return run;
}

Common small_state() {
  Common state;
  state.tensors = model::describe_tensors(small_run().model);
  state.parameters = random_floats(
      static_cast<std::size_t>(state.tensors.back().offset + state.tensors.back().size), 1);
  return state;
}

class HuggingFaceTest : public testing::Test {
 protected:
  std::string refusal() const {
    try {
      import_safetensors(file_, small_run());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      return error.what();
    }
    return "accepted";
  }

  void describe(const config::Model& model) const {
    write_file(folder_.path() / "config.json", hugging_face_config(model), Durability::unflushed);
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "model.safetensors";
};

TEST_F(HuggingFaceTest, ExportHasTheHubsNamesAndNoSecondTable) {
  export_safetensors(small_state(), "", file_);
  const auto tensors = read_safetensors(file_);
  EXPECT_EQ(tensors.at("wte.weight").shape, (std::vector<std::int64_t>{17, 12}));
  EXPECT_EQ(tensors.at("wpe.weight").shape, (std::vector<std::int64_t>{5, 12}));
  EXPECT_EQ(tensors.at("h.1.attn.c_attn.weight").shape, (std::vector<std::int64_t>{12, 36}));
  EXPECT_EQ(tensors.at("h.1.mlp.c_proj.weight").shape, (std::vector<std::int64_t>{48, 12}));
  EXPECT_EQ(tensors.at("ln_f.bias").shape, (std::vector<std::int64_t>{12}));
  EXPECT_EQ(tensors.size(), 2u + 2 * 12 + 2);
}

TEST_F(HuggingFaceTest, ImportGivesBackWhatWasExported) {
  const Common state = small_state();
  for (const std::string prefix : {"", "transformer."}) {
    export_safetensors(state, prefix, file_);
    describe(small_run().model);
    config::RunConfig run;  // other sizes
    run.sync.learners = 2;
    run.sync.fragments = 4;
    const Global again = import_safetensors(file_, run);
    EXPECT_EQ(again.common.parameters, state.parameters);
    const config::Model model = config::from_map(again.common.config, "test").model;
    EXPECT_EQ(model.layers, 2);
    EXPECT_EQ(model.width, 12);
    EXPECT_EQ(model.heads, 3);
    EXPECT_EQ(model.context, 5);
    EXPECT_EQ(model.vocabulary, 17);
    EXPECT_EQ(again.common.versions, (std::vector<std::int32_t>{0, 0, 0, 0}));
    EXPECT_EQ(again.merged_tokens.size(), 8u);
    EXPECT_EQ(again.momentum, std::vector<float>(state.parameters.size()));
    save_as(folder_.path() / "imported.h5", again);
    expect_same(load_global(folder_.path() / "imported.h5"), again);
  }
}

// As transformers names them in a model with a head. `state` must outlive it.
std::vector<NamedSpan> transformer_tensors(const Common& state) {
  std::vector<NamedSpan> tensors;
  for (const model::TensorInfo& tensor : state.tensors) {
    tensors.push_back({"transformer." + tensor.name, tensor.shape,
                       std::span(state.parameters).subspan(tensor.offset, tensor.size)});
  }
  return tensors;
}

TEST_F(HuggingFaceTest, BuffersAndTheTiedTableArePassedOver) {
  const Common state = small_state();
  auto tensors = transformer_tensors(state);
  const std::vector<float> ones(5 * 5, 1);
  tensors.push_back({"transformer.h.0.attn.bias", {1, 1, 5, 5}, ones});
  tensors.push_back({"lm_head.weight", {17, 12}, std::span(state.parameters).first(17 * 12)});
  write_safetensors(file_, tensors);
  EXPECT_EQ(import_safetensors(file_, small_run()).common.parameters, state.parameters);
}

TEST_F(HuggingFaceTest, AHeadOfItsOwnIsRefused) {
  const Common state = small_state();
  auto tensors = transformer_tensors(state);
  const std::vector<float> ones(17 * 12, 1);
  tensors.push_back({"lm_head.weight", {17, 12}, ones});
  write_safetensors(file_, tensors);
  EXPECT_NE(refusal().find("its lm_head.weight differs"), std::string::npos) << refusal();
}

TEST_F(HuggingFaceTest, OtherModelsAreRefused) {
  write_safetensors(file_, {});
  EXPECT_NE(refusal().find("no table wte.weight"), std::string::npos) << refusal();

  Common state = small_state();
  export_safetensors(state, "", file_);
  EXPECT_EQ(refusal(), "accepted");
  config::Model other = small_run().model;
  other.heads = 5;
  describe(other);
  EXPECT_NE(refusal().find("no multiple of 5 heads"), std::string::npos) << refusal();
  write_file(folder_.path() / "config.json", R"({"model_type":"llama","n_head":3})",
             Durability::unflushed);
  EXPECT_NE(refusal().find("llama"), std::string::npos) << refusal();
  write_file(folder_.path() / "config.json", "{", Durability::unflushed);
  EXPECT_NE(refusal(), "accepted");
  for (const std::string option :
       {"activation_function\":\"relu\"", "layer_norm_epsilon\":1e-6", "scale_attn_weights\":false",
        "scale_attn_by_inverse_layer_idx\":true", "tie_word_embeddings\":false"}) {
    write_file(folder_.path() / "config.json", R"({"n_head":3,")" + option + "}",
               Durability::unflushed);
    const std::string name = option.substr(0, option.find('"'));
    EXPECT_NE(refusal().find("its " + name + " is "), std::string::npos) << refusal();
  }
  write_file(folder_.path() / "config.json",
             R"({"n_head":3,"activation_function":"gelu_pytorch_tanh","layer_norm_epsilon":1e-05})",
             Durability::unflushed);
  EXPECT_EQ(refusal(), "accepted");
  std::filesystem::remove(folder_.path() / "config.json");

  state.tensors[5].name = "renamed";
  export_safetensors(state, "", file_);
  EXPECT_NE(refusal().find("is missing"), std::string::npos) << refusal();
}

TEST(HuggingFaceConfig, IsWhatTransformersAsksFor) {
  const auto json = nlohmann::json::parse(hugging_face_config(small_run().model));
  EXPECT_EQ(json.at("model_type"), "gpt2");
  EXPECT_EQ(json.at("n_layer"), 2);
  EXPECT_EQ(json.at("n_head"), 3);
  EXPECT_EQ(json.at("n_embd"), 12);
  EXPECT_EQ(json.at("n_positions"), 5);
  EXPECT_EQ(json.at("vocab_size"), 17);
  EXPECT_EQ(json.at("activation_function"), "gelu_new");
  EXPECT_EQ(json.at("tie_word_embeddings"), true);
}

}  // namespace
}  // namespace archipelago::checkpoint
