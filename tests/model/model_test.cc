#include "model/model.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "core/error.h"
#include "model_test.h"

namespace archipelago::model {
namespace {

TEST(MakeModel, NamesTensorsAsHuggingFaceDoes) {
  const config::Model config = small_config();
  const auto tensors = describe_tensors(config);
  std::set<std::string> names;
  std::int64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    names.insert(tensor.name);
    EXPECT_EQ(tensor.offset, end);
    std::int64_t size = 1;
    for (const std::int64_t extent : tensor.shape) size *= extent;
    EXPECT_EQ(tensor.size, size);
    end += size;
  }
  std::set<std::string> expected = {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"};
  for (const std::string layer : {"h.0.", "h.1."}) {
    for (const std::string part :
         {"ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"}) {
      expected.insert(layer + part + ".weight");
      expected.insert(layer + part + ".bias");
    }
  }
  EXPECT_EQ(names, expected);
  const auto model = make_model(config, 1, 1);
  EXPECT_EQ(model->parameters().size(), static_cast<std::size_t>(end));
  EXPECT_EQ(model->tensors().size(), tensors.size());
}

TEST(MakeModel, RolesAndShapes) {
  for (const TensorInfo& tensor : describe_tensors(small_config())) {
    if (tensor.name == "wte.weight") {
      EXPECT_EQ(tensor.role, TensorRole::table);
      EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{29, 21}));
    } else if (tensor.name == "h.1.attn.c_attn.weight") {
      EXPECT_EQ(tensor.role, TensorRole::matrix);
      EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{21, 63}));
    } else if (tensor.name == "h.0.mlp.c_proj.weight") {
      EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{84, 21}));
    } else if (tensor.shape.size() == 1) {
      EXPECT_EQ(tensor.role, TensorRole::vector) << tensor.name;
    }
  }
}

// What model.context has become of such an image, 0, is not what to change.
TEST(MakeModel, NamesThePatchThatIsLargerThanTheImage) {
  config::Model config = small_config();
  config.kind = "vit";
  config.image = 7;
  config.image_channels = 1;
  config.patch = 8;
  config.context = 0;
  try {
    describe_tensors(config);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("model.patch"), std::string::npos) << error.what();
  }
}

TEST(MakeModel, RefusesWhatCannotWorkInOneLine) {
  const auto code_of = [](auto change) {
    config::Model config = small_config();
    change(config);
    try {
      describe_tensors(config);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.code();
    }
    return ExitCode::done;
  };
  EXPECT_EQ(code_of([](config::Model&) {}), ExitCode::done);
  EXPECT_EQ(code_of([](config::Model& c) { c.width = 22; }), ExitCode::configuration);
  EXPECT_EQ(code_of([](config::Model& c) { c.kind = "rnn"; }), ExitCode::configuration);
  EXPECT_EQ(code_of([](config::Model& c) { c.layers = 0; }), ExitCode::configuration);
  EXPECT_EQ(code_of([](config::Model& c) { c.vocabulary = 0; }), ExitCode::configuration);
  const auto moe = [](std::int64_t experts, std::int64_t per_token) {
    return [=](config::Model& c) {
      c.kind = "moe";
      c.experts = experts;
      c.experts_per_token = per_token;
    };
  };
  EXPECT_EQ(code_of(moe(4, 4)), ExitCode::done);
  EXPECT_EQ(code_of(moe(4, 5)), ExitCode::configuration);
  EXPECT_EQ(code_of(moe(0, 0)), ExitCode::configuration);
  const auto vit = [](std::int64_t image, std::int64_t patch, std::int64_t context) {
    return [=](config::Model& c) {
      c.kind = "vit";
      c.image = image;
      c.image_channels = 1;
      c.patch = patch;
      c.context = context;
    };
  };
  EXPECT_EQ(code_of(vit(12, 4, 9)), ExitCode::done);
  EXPECT_EQ(code_of(vit(12, 5, 9)), ExitCode::configuration);
  EXPECT_EQ(code_of(vit(12, 4, 10)), ExitCode::configuration);
  EXPECT_EQ(code_of(vit(12, 0, 9)), ExitCode::configuration);
}

// Each tensor's values have mean 0 and the deviation `expected` of its name; biases are 0, norms 1.
void expect_deviations(const config::Model& config,
                       const std::function<double(const std::string&)>& expected) {
  const auto model = make_model(config, 1, 1);
  model->initialize(5);
  for (const TensorInfo& tensor : model->tensors()) {
    double sum = 0;
    double squares = 0;
    for (const float value : model->parameters().subspan(tensor.offset, tensor.size)) {
      const double wide = value;
      sum += wide;
      squares += wide * wide;
    }
    const auto n = static_cast<double>(tensor.size);
    if (tensor.role == TensorRole::vector) {
      EXPECT_EQ(sum, tensor.name.ends_with(".bias") ? 0 : n) << tensor.name;
    } else {
      const double deviation = expected(tensor.name);
      EXPECT_NEAR(sum / n, 0, 5 * deviation / std::sqrt(n)) << tensor.name;
      EXPECT_NEAR(std::sqrt(squares / n), deviation, 0.05 * deviation) << tensor.name;
    }
  }
}

TEST(Initialize, FollowsGpt2) {
  config::Model config;
  config.vocabulary = 256;
  expect_deviations(config, [](const std::string& name) {
    return name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(8.0) : 0.02;
  });
}

TEST(Initialize, ScalesAVisionTransformersMatricesByTheirInputs) {
  config::Model config;
  config.kind = "vit";
  config.vocabulary = 10;
  config.image = 28;
  config.image_channels = 1;
  config.patch = 7;
  config.context = 16;
  expect_deviations(config, [](const std::string& name) {
    if (name == "patches.weight") return 1 / 7.0;
    if (name == "positions.weight") return 0.2;
    if (name == "head.weight") return 0.02;
    if (name.ends_with("mlp.c_proj.weight")) return 1 / std::sqrt(512.0 * 8);
    if (name.ends_with("attn.c_proj.weight")) return 1 / std::sqrt(128.0 * 8);
    return 1 / std::sqrt(128.0);
  });
}

TEST(Initialize, FollowsItsSeed) {
  config::Model config;
  config.vocabulary = 256;
  const auto tensors = describe_tensors(config);
  const auto model = make_model(config, 1, 1);
  model->initialize(5);
  std::vector<float> same(model->parameters().size());
  initialize_parameters(tensors, config, 5, same);
  EXPECT_TRUE(std::equal(same.begin(), same.end(), model->parameters().begin()));
  std::vector<float> other(same.size());
  initialize_parameters(tensors, config, 6, other);
  EXPECT_NE(same, other);
}

}  // namespace
}  // namespace archipelago::model
