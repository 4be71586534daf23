#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cudnn.h"

// The part of cuDNN's frontend that kernels/cuda uses; fake_cudnn.h says what it checks.

// NOLINTBEGIN: cuDNN's names
namespace cudnn_frontend {

enum class DataType_t { NOT_SET, FLOAT, BFLOAT16, INT32 };
enum class HeurMode_t { A, B, FALLBACK };
enum class NumericalNote_t { TENSOR_CORE, NONDETERMINISTIC };

struct error_t {
  std::string message;
  bool is_good() const { return message.empty(); }
  bool is_bad() const { return !is_good(); }
  std::string get_message() { return message; }  // not const there either
};

namespace graph {

struct Tensor_attributes {
  std::int64_t uid = 0;
  std::vector<std::int64_t> dim, stride;
  DataType_t type = DataType_t::NOT_SET;
  bool output = false;

  Tensor_attributes& set_uid(std::int64_t value) { return uid = value, *this; }
  Tensor_attributes& set_dim(const std::vector<std::int64_t>& value) { return dim = value, *this; }
  Tensor_attributes& set_stride(const std::vector<std::int64_t>& value) {
    return stride = value, *this;
  }
  Tensor_attributes& set_data_type(DataType_t value) { return type = value, *this; }
  Tensor_attributes& set_output(bool value) { return output = value, *this; }
};

struct SDPA_attributes {
  bool statistics = false;
  float scale = 0;
  bool causal = false;

  SDPA_attributes& set_name(const std::string&) { return *this; }
  SDPA_attributes& set_generate_stats(bool value) { return statistics = value, *this; }
  SDPA_attributes& set_attn_scale(float value) { return scale = value, *this; }
  SDPA_attributes& set_causal_mask(bool value) { return causal = value, *this; }
};

struct SDPA_backward_attributes {
  float scale = 0;
  bool causal = false;
  bool deterministic = false;
  bool padding = false;
  std::shared_ptr<Tensor_attributes> q_lengths, kv_lengths;

  SDPA_backward_attributes& set_name(const std::string&) { return *this; }
  SDPA_backward_attributes& set_attn_scale(float value) { return scale = value, *this; }
  SDPA_backward_attributes& set_causal_mask(bool value) { return causal = value, *this; }
  SDPA_backward_attributes& set_deterministic_algorithm(bool value) {
    return deterministic = value, *this;
  }
  SDPA_backward_attributes& set_padding_mask(bool value) { return padding = value, *this; }
  SDPA_backward_attributes& set_seq_len_q(std::shared_ptr<Tensor_attributes> value) {
    return q_lengths = std::move(value), *this;
  }
  SDPA_backward_attributes& set_seq_len_kv(std::shared_ptr<Tensor_attributes> value) {
    return kv_lengths = std::move(value), *this;
  }
};

// Of both directions: the frontend has two classes of the same members.
struct Convolution_attributes {
  std::vector<std::int64_t> padding, stride, dilation;

  Convolution_attributes& set_padding(const std::vector<std::int64_t>& value) {
    return padding = value, *this;
  }
  Convolution_attributes& set_stride(const std::vector<std::int64_t>& value) {
    return stride = value, *this;
  }
  Convolution_attributes& set_dilation(const std::vector<std::int64_t>& value) {
    return dilation = value, *this;
  }
};
struct Conv_fprop_attributes : Convolution_attributes {};
struct Conv_wgrad_attributes : Convolution_attributes {};

class Graph {
 public:
  using Tensor = std::shared_ptr<Tensor_attributes>;

  Graph& set_io_data_type(DataType_t type) { return io_ = type, *this; }
  Graph& set_intermediate_data_type(DataType_t type) { return intermediate_ = type, *this; }
  Graph& set_compute_data_type(DataType_t type) { return compute_ = type, *this; }
  Tensor tensor(const Tensor_attributes& attributes);
  std::array<Tensor, 2> sdpa(Tensor q, Tensor k, Tensor v, SDPA_attributes attributes);
  std::array<Tensor, 3> sdpa_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o,
                                      Tensor statistics, SDPA_backward_attributes attributes);
  Tensor conv_fprop(Tensor x, Tensor w, Conv_fprop_attributes attributes);
  Tensor conv_wgrad(Tensor d_y, Tensor x, Conv_wgrad_attributes attributes);
  // To be called in this order.
  error_t validate();
  error_t build_operation_graph(cudnnHandle_t handle);
  error_t create_execution_plans(const std::vector<HeurMode_t>& modes);
  Graph& deselect_numeric_notes(const std::vector<NumericalNote_t>& notes);
  error_t check_support();
  error_t build_plans();
  std::int64_t get_workspace_size() const { return kWorkspace; }
  error_t execute(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*>& memory,
                  void* workspace);

 private:
  static constexpr std::int64_t kWorkspace = 4096;

  struct Attention {
    Tensor q, k, v, o, statistics;
    Tensor d_o, d_q, d_k, d_v;  // backward only
    float scale;
    bool causal;
    Tensor q_lengths, kv_lengths;  // of sequences; null: as the tensors have it
    bool is_backward() const { return d_o != nullptr; }
  };
  struct Convolution {
    Tensor x, w, y;  // backward: y's gradient is given, w's made
    Convolution_attributes attributes;
    bool backward = false;
  };
  enum class Stage { empty, valid, lowered, planned, supported, built };

  // Empty, or why there can be no plan.
  std::string problem() const;
  std::string attention_problem() const;
  std::string convolution_problem() const;
  void advance(Stage from, Stage to);
  void record() const;
  static void compute(const Attention& attention,
                      const std::unordered_map<std::int64_t, void*>& memory);
  static void compute(const Convolution& convolution,
                      const std::unordered_map<std::int64_t, void*>& memory);

  DataType_t io_ = DataType_t::NOT_SET;
  DataType_t intermediate_ = DataType_t::NOT_SET;
  DataType_t compute_ = DataType_t::NOT_SET;
  std::vector<Tensor> tensors_;
  Attention attention_;      // q is null where it is none
  Convolution convolution_;  // x is null where it is none
  bool deterministic_ = false;
  Stage stage_ = Stage::empty;
};

}  // namespace graph
}  // namespace cudnn_frontend
// NOLINTEND
