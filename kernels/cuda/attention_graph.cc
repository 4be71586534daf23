#include "kernels/cuda/attention_graph.h"

#include <cudnn_frontend.h>

#include <cmath>

namespace archipelago::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;

// [B, NH, T, D] over rows of `width` elements a position.
Tensor_attributes& shape_heads(Tensor_attributes& tensor, const AttentionShape& shape,
                               std::int64_t width) {
  return tensor.set_dim({shape.B, shape.NH, shape.T, shape.D})
      .set_stride({shape.T * width, shape.D, width, 1});
}

// log_sum[B, NH, T] with the dimension of one that cuDNN's statistics have.
Tensor_attributes& shape_log_sum(Tensor_attributes& tensor, const AttentionShape& shape) {
  return tensor.set_dim({shape.B, shape.NH, shape.T, 1})
      .set_stride({shape.NH * shape.T, shape.T, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

std::shared_ptr<Tensor_attributes> input_heads(fe::graph::Graph& graph, AttentionTensor which,
                                               const AttentionShape& shape, std::int64_t width) {
  Tensor_attributes tensor;
  return graph.tensor(shape_heads(tensor.set_uid(which), shape, width));
}

float scale_of(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.D));
}

}  // namespace

DnnGraph forward_graph(const AttentionShape& shape) {
  const std::int64_t C = shape.C();
  DnnGraph graph = empty_dnn_graph();
  const auto queries = input_heads(*graph, kQueries, shape, 3 * C);
  const auto keys = input_heads(*graph, kKeys, shape, 3 * C);
  const auto values = input_heads(*graph, kValues, shape, 3 * C);
  const auto [out, log_sum] = graph->sdpa(queries, keys, values,
                                          fe::graph::SDPA_attributes()
                                              .set_name("attention")
                                              .set_generate_stats(true)
                                              .set_attn_scale(scale_of(shape))
                                              .set_causal_mask(shape.causal));
  shape_heads(out->set_output(true).set_uid(kOut), shape, C);
  shape_log_sum(log_sum->set_output(true).set_uid(kLogSum), shape);
  return graph;
}

DnnGraph backward_graph(const AttentionShape& shape, bool deterministic) {
  const std::int64_t C = shape.C();
  DnnGraph graph = empty_dnn_graph();
  const auto queries = input_heads(*graph, kQueries, shape, 3 * C);
  const auto keys = input_heads(*graph, kKeys, shape, 3 * C);
  const auto values = input_heads(*graph, kValues, shape, 3 * C);
  const auto out = input_heads(*graph, kOut, shape, C);
  const auto d_out = input_heads(*graph, kOutGradient, shape, C);
  Tensor_attributes statistics;
  const auto log_sum = graph->tensor(shape_log_sum(statistics.set_uid(kLogSum), shape));
  auto attributes = fe::graph::SDPA_backward_attributes()
                        .set_name("attention_backward")
                        .set_attn_scale(scale_of(shape))
                        .set_causal_mask(shape.causal)
                        .set_deterministic_algorithm(deterministic);
  if (needs_lengths(shape)) {
    const auto lengths = graph->tensor(Tensor_attributes()
                                           .set_uid(kLengths)
                                           .set_dim({shape.B, 1, 1, 1})
                                           .set_stride({1, 1, 1, 1})
                                           .set_data_type(fe::DataType_t::INT32));
    attributes.set_padding_mask(true).set_seq_len_q(lengths).set_seq_len_kv(lengths);
  }
  const auto [d_queries, d_keys, d_values] =
      graph->sdpa_backward(queries, keys, values, out, d_out, log_sum, attributes);
  shape_heads(d_queries->set_output(true).set_uid(kQueryGradient), shape, 3 * C);
  shape_heads(d_keys->set_output(true).set_uid(kKeyGradient), shape, 3 * C);
  shape_heads(d_values->set_output(true).set_uid(kValueGradient), shape, 3 * C);
  return graph;
}

}  // namespace archipelago::kernels::cuda
