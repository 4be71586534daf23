#include "kernels/cuda/patch_graph.h"

#include <cudnn_frontend.h>

#include <vector>

namespace archipelago::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;

// `outer` x channels x height x width, the channels innermost.
Tensor_attributes& shape_tensor(Tensor_attributes& tensor, std::int64_t outer,
                                std::int64_t channels, std::int64_t side) {
  return tensor.set_dim({outer, channels, side, side})
      .set_stride({side * side * channels, 1, side * channels, channels});
}

Tensor_attributes& shape_images(Tensor_attributes& tensor, const PatchShape& shape) {
  return shape_tensor(tensor.set_uid(kImages), shape.B, shape.channels, shape.side);
}
Tensor_attributes& shape_filter(Tensor_attributes& tensor, const PatchShape& shape) {
  return shape_tensor(tensor.set_uid(kFilter), shape.O, shape.channels, shape.patch);
}
Tensor_attributes& shape_out(Tensor_attributes& tensor, const PatchShape& shape) {
  return shape_tensor(tensor.set_uid(kPatchOut), shape.B, shape.O, shape.side / shape.patch);
}

template <typename Attributes>
Attributes side_by_side(const PatchShape& shape) {
  Attributes attributes;
  attributes.set_padding({0, 0}).set_stride({shape.patch, shape.patch}).set_dilation({1, 1});
  return attributes;
}

}  // namespace

DnnGraph patch_forward_graph(const PatchShape& shape) {
  DnnGraph graph = empty_dnn_graph();
  Tensor_attributes images, filter;
  const auto out = graph->conv_fprop(graph->tensor(shape_images(images, shape)),
                                     graph->tensor(shape_filter(filter, shape)),
                                     side_by_side<fe::graph::Conv_fprop_attributes>(shape));
  shape_out(out->set_output(true), shape);
  return graph;
}

DnnGraph patch_backward_graph(const PatchShape& shape) {
  DnnGraph graph = empty_dnn_graph();
  Tensor_attributes images, d_out;
  const auto d_filter = graph->conv_wgrad(graph->tensor(shape_out(d_out, shape)),
                                          graph->tensor(shape_images(images, shape)),
                                          side_by_side<fe::graph::Conv_wgrad_attributes>(shape));
  shape_filter(d_filter->set_output(true), shape);
  return graph;
}

}  // namespace archipelago::kernels::cuda
