#include "kernels/cuda/patch_convolution.h"

#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "kernels/cuda/patch_graph.h"

namespace archipelago::kernels::cuda {

class PatchConvolution::Impl {
 public:
  Impl(Dnn& dnn, bool deterministic) : dnn_(dnn), deterministic_(deterministic) {}

  bool run(bool backward, const PatchShape& shape, std::unordered_map<std::int64_t, void*> memory) {
    const auto [entry, is_new] = plans_.try_emplace({backward, shape});
    DnnGraph& graph = entry->second;
    if (is_new) {
      graph = dnn_.planned(backward ? patch_backward_graph(shape) : patch_forward_graph(shape),
                           deterministic_,
                           "convolution of " + std::to_string(shape.channels) +
                               " channels in steps of " + std::to_string(shape.patch),
                           "patches are cut and multiplied");
    }
    if (graph == nullptr) return false;
    dnn_.run(graph, std::move(memory), "running a convolution");
    return true;
  }

 private:
  Dnn& dnn_;
  bool deterministic_;
  std::map<std::pair<bool, PatchShape>, DnnGraph> plans_;  // null where there is none
};

PatchConvolution::PatchConvolution(Dnn& dnn, bool deterministic)
    : impl_(std::make_unique<Impl>(dnn, deterministic)) {}

PatchConvolution::~PatchConvolution() = default;

bool PatchConvolution::forward(const PatchShape& shape, __nv_bfloat16* y,
                               const __nv_bfloat16* images, const __nv_bfloat16* filter) {
  return impl_->run(
      false, shape,
      {{kImages, dnn_pointer(images)}, {kFilter, dnn_pointer(filter)}, {kPatchOut, y}});
}

bool PatchConvolution::backward(const PatchShape& shape, __nv_bfloat16* d_filter,
                                const __nv_bfloat16* images, const __nv_bfloat16* d_y) {
  return impl_->run(
      true, shape,
      {{kImages, dnn_pointer(images)}, {kFilter, d_filter}, {kPatchOut, dnn_pointer(d_y)}});
}

}  // namespace archipelago::kernels::cuda
