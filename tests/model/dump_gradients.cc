// Writes a model's parameters, one batch, its loss and every gradient as a safetensors file, for
// pytorch_parity.py.
//
//   dump_gradients OUT kind layers width heads context vocabulary batch threads

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/random.h"
#include "model/model.h"

namespace {

using archipelago::Random;
namespace model = archipelago::model;

class SafetensorsWriter {
 public:
  template <class T>
  void add(const std::string& name, const char* type, const std::vector<std::int64_t>& shape,
           std::span<const T> values) {
    const std::size_t begin = bytes_.size();
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    header_[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, bytes_.size()}}};
  }
  void describe(const nlohmann::json& metadata) { header_["__metadata__"] = metadata; }
  void write(const std::string& path) const {
    const std::string header = header_.dump();
    const std::uint64_t size = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), sizeof size);
    file << header << bytes_;
    if (!file.flush()) throw std::runtime_error("cannot write " + path);
  }

 private:
  nlohmann::json header_;
  std::string bytes_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10) {
    std::cerr << "usage: dump_gradients OUT kind layers width heads context vocabulary batch "
                 "threads\n";
    return 64;
  }
  archipelago::config::Model config;
  config.kind = argv[2];
  config.layers = std::stol(argv[3]);
  config.width = std::stol(argv[4]);
  config.heads = std::stol(argv[5]);
  config.context = std::stol(argv[6]);
  config.vocabulary = std::stol(argv[7]);
  config.image_channels = 3;
  if (config.kind == "vit") config.image = std::lround(std::sqrt(config.context)) * config.patch;
  const std::int64_t batch = std::stol(argv[8]);
  const auto network = model::make_model(config, batch, std::stoi(argv[9]));

  // Away from the symmetric start: every tensor's gradient is of a usual size.
  network->initialize(1);
  Random random(2);
  for (float& value : network->parameters()) value += static_cast<float>(0.02 * random.normal());
  const auto label = [&] {
    return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(config.vocabulary)));
  };
  const bool vit = config.kind == "vit";
  std::vector<std::int32_t> inputs(vit ? 0 : batch * config.context);
  std::vector<std::int32_t> targets(vit ? batch : batch * config.context);
  std::vector<float> images(vit ? batch * config.image_channels * config.image * config.image : 0);
  for (std::int32_t& input : inputs) input = label();
  for (std::int32_t& target : targets) target = label();
  for (std::size_t i = 3; i < targets.size(); i += 7) targets[i] = -1;
  for (float& pixel : images) pixel = static_cast<float>(random.normal());
  const float loss = network->forward_backward({batch, inputs, targets, images});

  SafetensorsWriter file;
  file.describe({{"kind", config.kind},
                 {"layers", std::to_string(config.layers)},
                 {"heads", std::to_string(config.heads)},
                 {"patch", std::to_string(config.patch)},
                 {"experts", std::to_string(config.experts)},
                 {"experts_per_token", std::to_string(config.experts_per_token)},
                 {"balance_loss", std::to_string(config.balance_loss)},
                 {"router_z_loss", std::to_string(config.router_z_loss)}});
  const std::int64_t per_sequence = vit ? 1 : config.context;
  file.add<std::int32_t>("targets", "I32", {batch, per_sequence}, targets);
  if (vit) {
    file.add<float>("images", "F32", {batch, config.image_channels, config.image, config.image},
                    images);
  } else {
    file.add<std::int32_t>("inputs", "I32", {batch, config.context}, inputs);
  }
  file.add<float>("loss", "F32", {1}, {&loss, 1});
  for (const model::TensorInfo& tensor : network->tensors()) {
    const auto part = [&](std::span<float> all) { return all.subspan(tensor.offset, tensor.size); };
    file.add<float>("parameter." + tensor.name, "F32", tensor.shape, part(network->parameters()));
    file.add<float>("gradient." + tensor.name, "F32", tensor.shape, part(network->gradients()));
  }
  file.write(argv[1]);
}
