#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/run_config.h"
#include "kernels/kernels.h"

namespace archipelago::model {

// How a tensor is treated outside the model.
enum class TensorRole {
  matrix,  // weight decay; merged by direction and radius
  vector,  // biases and norms: no weight decay
  table,   // embeddings and output tables: weight decay; merged by the weighted mean
};

// One named tensor inside the flat parameter buffer (and the gradient and moment buffers, which
// have the same layout).
struct TensorInfo {
  std::string name;                 // Hugging Face's name, e.g. "h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  // row-major
  std::int64_t offset;              // first element in the flat buffer
  std::int64_t size;                // elements
  TensorRole role;
};

// Input of one step on one rank, in the host's memory. Text: inputs and targets are (batch,
// context) token ids, targets the ids one position on. Images: (batch, channels, side, side) and
// the class of each, (batch). -1 as a target counts for nothing.
struct Batch {
  std::int64_t batch = 0;
  std::span<const std::int32_t> inputs;
  std::span<const std::int32_t> targets;
  std::span<const float> images = {};
};

// Told in the course of a backward pass that the gradients of all elements from `from` on, in the
// flat buffer, will not change any more.
using GradientsReady = std::function<void(std::int64_t from)>;

// A network with its parameters, gradients and workspace. Not thread-safe; one owner.
class Model {
 public:
  virtual ~Model() = default;

  // In the order of the flat buffer, which they cover without holes. The same on every rank.
  virtual std::span<const TensorInfo> tensors() const = 0;

  // What it computes on.
  virtual kernels::Kernels& kernels() = 0;

  // Flat buffers of all tensors' elements, f32, in the memory of kernels(); valid as long as the
  // model.
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradients() = 0;

  // Fills the parameters from `seed`: normal with the deviation 0.02 (GPT-2), in a vision
  // transformer 1/sqrt(inputs) in matrices (LeCun et al. 1998; with 0.02 layers as narrow as ours
  // all but start at zero) and 0.2 in the table of positions; residual projections that by
  // sqrt(2L); biases 0, norms 1. The same on every machine.
  virtual void initialize(std::uint64_t seed) = 0;

  // Mean loss (nats a target) of the batch; gradients of that mean are ADDED to gradients().
  virtual float forward_backward(const Batch& batch) = 0;

  // Every forward_backward from now on calls `ready` with ever smaller places; those that are never
  // named are final when it returns.
  void watch_gradients(GradientsReady ready) { gradients_ready_ = std::move(ready); }

  // Mean loss without gradients.
  virtual float loss(const Batch& batch) = 0;

  // Image models: share of the last batch's targets that had the largest logit. Nothing for text.
  virtual std::optional<double> accuracy() const { return std::nullopt; }

  // Text models: logits (vocabulary) of the token that follows `tokens`, of which there are 1 to
  // context. Image models throw Error(configuration).
  virtual void next_logits(std::span<const std::int32_t> tokens, std::span<float> logits);

  // Bytes of activations that one step of `batch` sequences keeps.
  virtual std::int64_t activation_bytes(std::int64_t batch) const = 0;

 protected:
  const GradientsReady& gradients_ready() const { return gradients_ready_; }

 private:
  GradientsReady gradients_ready_;
};

// Whether that kind of model takes images (vit, linear).
bool is_image_model(const config::Model& config);

// Positions of an image in such a model, which model.context must be: patches, or 1.
std::int64_t image_positions(const config::Model& config);

class ExpertExchange;

// Makes the model that `config.kind` names, with vocabulary > 0, for up to `max_batch` sequences a
// step on this rank. With an `exchange`, which must outlive the model and needs kernels whose
// memory is the host's, its ranks divide the experts of a mixture among them: they then make every
// call together. Throws Error(configuration) when a size does not fit (width not a multiple of
// heads ...).
std::unique_ptr<Model> make_model(const config::Model& config, std::int64_t max_batch,
                                  std::shared_ptr<kernels::Kernels> kernels,
                                  ExpertExchange* exchange = nullptr);

// On `threads` OpenMP threads.
std::unique_ptr<Model> make_model(const config::Model& config, std::int64_t max_batch, int threads,
                                  ExpertExchange* exchange = nullptr);

// The tensors of that model without making it.
std::vector<TensorInfo> describe_tensors(const config::Model& config);

// What Model::initialize does, for a model whose `tensors` are laid out in `parameters`; each
// tensor's values depend on `config`, `seed` and its index alone.
void initialize_parameters(std::span<const TensorInfo> tensors, const config::Model& config,
                           std::uint64_t seed, std::span<float> parameters);

// The same into the parameters of a model that may be on a GPU.
void initialize_on_device(Model& model, const config::Model& config, std::uint64_t seed);

}  // namespace archipelago::model
