#include "fake_cudnn.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "cuda_bf16.h"
#include "emulation.h"

using archipelago::emulation::DeviceAccess;
using archipelago::emulation::Misuse;
using archipelago::emulation::RecordedAttention;
using archipelago::emulation::RecordedConvolution;

struct FakeDnnHandle {
  cudaStream_t stream = nullptr;
};

namespace {

struct State {
  std::vector<RecordedAttention> attentions;
  std::vector<RecordedConvolution> convolutions;
  bool attention_refused = false;
  bool convolution_refused = false;
};

State& state() {
  static State state;
  return state;
}

cudnnStatus_t failure(const char* function) {
  return static_cast<cudnnStatus_t>(archipelago::emulation::take_failure(function));
}

}  // namespace

std::vector<RecordedAttention> archipelago::emulation::take_attentions() {
  return std::exchange(state().attentions, {});
}

std::vector<RecordedConvolution> archipelago::emulation::take_convolutions() {
  return std::exchange(state().convolutions, {});
}

void archipelago::emulation::refuse_attention(bool refused) { state().attention_refused = refused; }

void archipelago::emulation::refuse_convolution(bool refused) {
  state().convolution_refused = refused;
}

const char* cudnnGetErrorString(cudnnStatus_t) { return "CUDNN_STATUS_NOT_INITIALIZED"; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  const cudnnStatus_t status = failure("cudnnCreate");
  if (status == CUDNN_STATUS_SUCCESS) *handle = new FakeDnnHandle();
  return status;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

namespace cudnn_frontend::graph {
namespace {

using Tensor = Graph::Tensor;

// A tensor where it lies, in double.
class View {
 public:
  View(const Tensor& tensor, const std::unordered_map<std::int64_t, void*>& memory)
      : tensor_(*tensor), memory_(memory.at(tensor->uid)) {}

  double get(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d) const {
    const std::int64_t at = index(b, h, t, d);
    if (tensor_.type == DataType_t::FLOAT) {
      return static_cast<double>(static_cast<const float*>(memory_)[at]);
    }
    return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(memory_)[at]));
  }
  void set(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d, double value) const {
    const std::int64_t at = index(b, h, t, d);
    if (tensor_.type == DataType_t::FLOAT) {
      static_cast<float*>(memory_)[at] = static_cast<float>(value);
    } else {
      static_cast<__nv_bfloat16*>(memory_)[at] = __float2bfloat16(static_cast<float>(value));
    }
  }

 private:
  std::int64_t index(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d) const {
    const auto& s = tensor_.stride;
    return b * s[0] + h * s[1] + t * s[2] + d * s[3];
  }

  const Tensor_attributes& tensor_;
  void* memory_;
};

std::size_t bytes_of(const Tensor_attributes& tensor) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 4; ++i) last += (tensor.dim[i] - 1) * tensor.stride[i];
  return static_cast<std::size_t>(last + 1) * (tensor.type == DataType_t::BFLOAT16 ? 2 : 4);
}

}  // namespace

Tensor Graph::tensor(const Tensor_attributes& attributes) {
  tensors_.push_back(std::make_shared<Tensor_attributes>(attributes));
  return tensors_.back();
}

std::array<Tensor, 2> Graph::sdpa(Tensor q, Tensor k, Tensor v, SDPA_attributes attributes) {
  if (!attributes.statistics) throw Misuse("attention without the statistics that backward needs");
  attention_ = {
      q, k, v, tensor({}), tensor({}), {}, {}, {}, {}, attributes.scale, attributes.causal, {}, {}};
  return {attention_.o, attention_.statistics};
}

std::array<Tensor, 3> Graph::sdpa_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o,
                                           Tensor statistics, SDPA_backward_attributes attributes) {
  attention_ = {q,
                k,
                v,
                o,
                statistics,
                d_o,
                tensor({}),
                tensor({}),
                tensor({}),
                attributes.scale,
                attributes.causal,
                attributes.q_lengths,
                attributes.kv_lengths};
  if (attributes.padding != (attributes.q_lengths != nullptr && attributes.kv_lengths != nullptr)) {
    throw Misuse("cuDNN: a padding mask without lengths, or lengths without it");
  }
  deterministic_ = attributes.deterministic;
  return {attention_.d_q, attention_.d_k, attention_.d_v};
}

Tensor Graph::conv_fprop(Tensor x, Tensor w, Conv_fprop_attributes attributes) {
  convolution_ = {x, w, tensor({}), attributes};
  return convolution_.y;
}

Tensor Graph::conv_wgrad(Tensor d_y, Tensor x, Conv_wgrad_attributes attributes) {
  convolution_ = {x, tensor({}), d_y, attributes, true};
  return convolution_.w;
}

std::string Graph::attention_problem() const {
  if (state().attention_refused) return "no plan on this GPU";
  const auto& shape = attention_.q->dim;
  for (const Tensor& tensor : tensors_) {
    if (tensor == attention_.q_lengths || tensor == attention_.kv_lengths) {
      if (tensor->dim != std::vector<std::int64_t>{shape[0], 1, 1, 1} ||
          tensor->type != DataType_t::INT32) {
        return "lengths of another shape or type";
      }
      continue;
    }
    const bool statistics = tensor == attention_.statistics;
    auto expected = shape;
    if (statistics) expected[3] = 1;
    if (tensor->dim != expected) return "a tensor of another shape";
    if (statistics != (tensor->type == DataType_t::FLOAT)) return "a tensor of another type";
    if (!statistics && tensor->stride[3] != 1) return "a head that is not contiguous";
  }
  const std::vector<Tensor> outputs =
      attention_.is_backward() ? std::vector{attention_.d_q, attention_.d_k, attention_.d_v}
                               : std::vector{attention_.o, attention_.statistics};
  for (const Tensor& tensor : outputs) {
    if (!tensor->output) return "a result that is not an output";
  }
  if (shape[3] % 8 != 0 || shape[3] > 128) return "a head of that width";
  if (attention_.is_backward() && shape[2] == 1) return "one position backward";
  return {};
}

std::string Graph::convolution_problem() const {
  if (state().convolution_refused) return "no plan on this GPU";
  const auto& [x, w, y, attributes, backward] = convolution_;
  for (const auto* each : {&attributes.padding, &attributes.stride, &attributes.dilation}) {
    if (each->size() != 2) return "a convolution without padding, stride or dilation";
  }
  std::vector<std::int64_t> expected = {x->dim[0], w->dim[0]};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t window = attributes.dilation[i] * (w->dim[i + 2] - 1) + 1;
    expected.push_back(1 +
                       (x->dim[i + 2] + 2 * attributes.padding[i] - window) / attributes.stride[i]);
  }
  if (y->dim != expected || w->dim[1] != x->dim[1]) return "a tensor of another shape";
  for (const Tensor& tensor : tensors_) {
    if (tensor->type != DataType_t::BFLOAT16) return "a tensor of another type";
    const auto& d = tensor->dim;
    const std::vector<std::int64_t> channels_innermost = {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]};
    if (tensor->stride != channels_innermost) return "channels that are not innermost";
  }
  if (!(backward ? w : y)->output) return "a result that is not an output";
  return {};
}

std::string Graph::problem() const {
  if (compute_ != DataType_t::FLOAT || intermediate_ != DataType_t::FLOAT) return "sums not f32";
  std::set<std::int64_t> uids;
  for (const Tensor& tensor : tensors_) {
    if (tensor->dim.size() != 4 || tensor->stride.size() != 4) return "a tensor without a shape";
    if (!uids.insert(tensor->uid).second) return "two tensors of one number";
  }
  return attention_.q != nullptr ? attention_problem() : convolution_problem();
}

void Graph::advance(Stage from, Stage to) {
  if (stage_ != from) throw Misuse("cuDNN: a graph's steps in another order");
  stage_ = to;
}

error_t Graph::validate() {
  advance(Stage::empty, Stage::valid);
  for (const Tensor& tensor : tensors_) {
    if (tensor->type == DataType_t::NOT_SET) tensor->type = io_;
  }
  return {problem()};
}

error_t Graph::build_operation_graph(cudnnHandle_t handle) {
  advance(Stage::valid, Stage::lowered);
  if (handle == nullptr) throw Misuse("a graph is built for no device");
  return {};
}

error_t Graph::create_execution_plans(const std::vector<HeurMode_t>& modes) {
  advance(Stage::lowered, Stage::planned);
  if (modes.empty()) throw Misuse("cuDNN: plans of no kind");
  return {};
}

Graph& Graph::deselect_numeric_notes(const std::vector<NumericalNote_t>& notes) {
  if (stage_ != Stage::planned) throw Misuse("cuDNN: plans are chosen from before there are any");
  deterministic_ = std::ranges::count(notes, NumericalNote_t::NONDETERMINISTIC) > 0;
  return *this;
}

error_t Graph::check_support() {
  advance(Stage::planned, Stage::supported);
  return {};
}

error_t Graph::build_plans() {
  advance(Stage::supported, Stage::built);
  return {};
}

void Graph::record() const {
  if (attention_.q != nullptr) {
    state().attentions.push_back({attention_.is_backward(), deterministic_, attention_.causal,
                                  attention_.q->dim, attention_.q->stride});
  } else {
    const auto& [x, w, y, attributes, backward] = convolution_;
    state().convolutions.push_back(
        {backward, deterministic_, x->dim, x->stride, w->dim, w->stride, attributes.stride});
  }
}

error_t Graph::execute(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*>& memory,
                       void* workspace) {
  if (failure("execute") != CUDNN_STATUS_SUCCESS) return {"execution failed"};
  if (stage_ != Stage::built) throw Misuse("a graph without a plan is run");
  archipelago::emulation::require_device(workspace, kWorkspace, "cuDNN's workspace");
  if (memory.size() != tensors_.size()) throw Misuse("cuDNN: memory for other tensors");
  for (const Tensor& tensor : tensors_) {
    archipelago::emulation::require_device(memory.at(tensor->uid), bytes_of(*tensor),
                                           "cuDNN: a tensor");
    if (reinterpret_cast<std::uintptr_t>(memory.at(tensor->uid)) % 16 != 0) {
      throw Misuse("cuDNN: a tensor that is not aligned to 16 bytes");
    }
  }
  record();
  archipelago::emulation::enqueue(handle->stream,
                                  [attention = attention_, convolution = convolution_, memory] {
                                    const DeviceAccess access;
                                    if (attention.q != nullptr) {
                                      compute(attention, memory);
                                    } else {
                                      compute(convolution, memory);
                                    }
                                  });
  return {};
}

// Goes over every element of y, and under its window over every element of w.
void Graph::compute(const Convolution& c, const std::unordered_map<std::int64_t, void*>& memory) {
  const View x(c.x, memory), w(c.w, memory), y(c.y, memory);
  const auto& y_dim = c.y->dim;
  const auto& w_dim = c.w->dim;
  const std::int64_t inside = w_dim[1] * w_dim[2] * w_dim[3];
  std::vector<double> d_w(static_cast<std::size_t>(w_dim[0] * inside), 0.0);
  const auto place = [&](std::size_t axis, std::int64_t window, std::int64_t offset) {
    return window * c.attributes.stride[axis] + offset * c.attributes.dilation[axis] -
           c.attributes.padding[axis];
  };
  const auto is_inside = [&](std::size_t axis, std::int64_t at) {
    return at >= 0 && at < c.x->dim[axis + 2];
  };
  for (std::int64_t out = 0; out < y_dim[0] * y_dim[1] * y_dim[2] * y_dim[3]; ++out) {
    const std::int64_t q = out % y_dim[3], p = out / y_dim[3] % y_dim[2];
    const std::int64_t k = out / y_dim[3] / y_dim[2] % y_dim[1];
    const std::int64_t n = out / y_dim[3] / y_dim[2] / y_dim[1];
    double sum = 0;
    for (std::int64_t in = 0; in < inside; ++in) {
      const std::int64_t s = in % w_dim[3], r = in / w_dim[3] % w_dim[2];
      const std::int64_t channel = in / w_dim[3] / w_dim[2];
      const std::int64_t row = place(0, p, r), column = place(1, q, s);
      if (!is_inside(0, row) || !is_inside(1, column)) continue;
      const double value = x.get(n, channel, row, column);
      if (c.backward) {
        d_w[static_cast<std::size_t>(k * inside + in)] += value * y.get(n, k, p, q);
      } else {
        sum += value * w.get(k, channel, r, s);
      }
    }
    if (!c.backward) y.set(n, k, p, q, sum);
  }
  if (!c.backward) return;
  for (std::int64_t i = 0; i < w_dim[0] * inside; ++i) {
    w.set(i / inside, i % inside / w_dim[3] / w_dim[2], i / w_dim[3] % w_dim[2], i % w_dim[3],
          d_w[static_cast<std::size_t>(i)]);
  }
}

void Graph::compute(const Attention& a, const std::unordered_map<std::int64_t, void*>& memory) {
  const std::int64_t T = a.q->dim[2];
  const std::int64_t D = a.q->dim[3];
  const View q(a.q, memory), k(a.k, memory), v(a.v, memory), o(a.o, memory);
  const View statistics(a.statistics, memory);
  const auto score = [&](std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) {
    double sum = 0;
    for (std::int64_t d = 0; d < D; ++d) sum += q.get(b, h, t, d) * k.get(b, h, s, d);
    return sum * static_cast<double>(a.scale);
  };
  const auto forward_query = [&](std::int64_t b, std::int64_t h, std::int64_t t) {
    const std::int64_t keys = a.causal ? t + 1 : T;
    std::vector<double> scores;
    for (std::int64_t s = 0; s < keys; ++s) scores.push_back(score(b, h, t, s));
    const double largest = *std::ranges::max_element(scores);
    double total = 0;
    for (const double value : scores) total += std::exp(value - largest);
    for (std::int64_t d = 0; d < D; ++d) {
      double sum = 0;
      for (std::int64_t s = 0; s < keys; ++s) {
        sum += std::exp(scores[static_cast<std::size_t>(s)] - largest) / total * v.get(b, h, s, d);
      }
      o.set(b, h, t, d, sum);
    }
    statistics.set(b, h, t, 0, largest + std::log(total));
  };
  const auto length = [&](const Tensor& lengths, std::int64_t b) -> std::int64_t {
    return lengths == nullptr ? T : static_cast<const std::int32_t*>(memory.at(lengths->uid))[b];
  };
  // As cuDNN's kernels for sm_90: keys behind the last, up to a multiple of 128, count as zeros
  // where nothing masks them.
  const bool sees_padding = !a.causal && a.kv_lengths == nullptr && T % 128 == 64;
  const auto backward_head = [&](std::int64_t b, std::int64_t h) {
    const View d_o(a.d_o, memory), d_q(a.d_q, memory), d_k(a.d_k, memory), d_v(a.d_v, memory);
    std::vector<double> q_sums(static_cast<std::size_t>(T * D)), k_sums(q_sums), v_sums(q_sums);
    const std::int64_t keys = length(a.kv_lengths, b);
    for (std::int64_t t = 0; t < length(a.q_lengths, b); ++t) {
      double delta = 0;
      for (std::int64_t d = 0; d < D; ++d) delta += d_o.get(b, h, t, d) * o.get(b, h, t, d);
      if (sees_padding) {
        const float weight = std::exp(static_cast<float>(-statistics.get(b, h, t, 0)));
        for (std::int64_t d = 0; d < D; ++d) {
          q_sums[static_cast<std::size_t>(t * D + d)] += static_cast<double>(weight * 0.0F);
        }
      }
      for (std::int64_t s = 0; s < (a.causal ? t + 1 : keys); ++s) {
        const double weight = std::exp(score(b, h, t, s) - statistics.get(b, h, t, 0));
        double d_weight = 0;
        for (std::int64_t d = 0; d < D; ++d) d_weight += d_o.get(b, h, t, d) * v.get(b, h, s, d);
        const double d_score = weight * (d_weight - delta) * static_cast<double>(a.scale);
        for (std::int64_t d = 0; d < D; ++d) {
          q_sums[static_cast<std::size_t>(t * D + d)] += d_score * k.get(b, h, s, d);
          k_sums[static_cast<std::size_t>(s * D + d)] += d_score * q.get(b, h, t, d);
          v_sums[static_cast<std::size_t>(s * D + d)] += weight * d_o.get(b, h, t, d);
        }
      }
    }
    for (std::int64_t i = 0; i < T * D; ++i) {
      const auto at = static_cast<std::size_t>(i);
      d_q.set(b, h, i / D, i % D, q_sums[at]);
      d_k.set(b, h, i / D, i % D, k_sums[at]);
      d_v.set(b, h, i / D, i % D, v_sums[at]);
    }
  };
  for (std::int64_t b = 0; b < a.q->dim[0]; ++b) {
    for (std::int64_t h = 0; h < a.q->dim[1]; ++h) {
      if (a.is_backward()) {
        backward_head(b, h);
      } else {
        for (std::int64_t t = 0; t < T; ++t) forward_query(b, h, t);
      }
    }
  }
}

}  // namespace cudnn_frontend::graph
