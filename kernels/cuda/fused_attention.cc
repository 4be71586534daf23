#include "kernels/cuda/fused_attention.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "kernels/cuda/attention_graph.h"

namespace archipelago::kernels::cuda {

class FusedAttention::Impl {
 public:
  Impl(Dnn& dnn, bool deterministic) : dnn_(dnn), deterministic_(deterministic) {}

  bool run(bool backward, const AttentionShape& shape,
           std::unordered_map<std::int64_t, void*> memory) {
    const DnnGraph& graph = plan(backward, shape);
    if (graph == nullptr) return false;
    dnn_.run(graph, std::move(memory), "running attention");
    return true;
  }

 private:
  const DnnGraph& plan(bool backward, const AttentionShape& shape) {
    const auto [entry, is_new] = plans_.try_emplace({backward, shape});
    if (is_new) {
      // Being deterministic is asked for in the graph itself.
      entry->second = dnn_.planned(
          backward ? backward_graph(shape, deterministic_) : forward_graph(shape), false,
          "attention for heads of " + std::to_string(shape.D) + " over " + std::to_string(shape.T) +
              " positions",
          "the slower f32 kernel is used");
    }
    return entry->second;
  }

  Dnn& dnn_;
  bool deterministic_;
  std::map<std::pair<bool, AttentionShape>, DnnGraph> plans_;  // null where there is none
};

FusedAttention::FusedAttention(Dnn& dnn, bool deterministic)
    : impl_(std::make_unique<Impl>(dnn, deterministic)) {}

FusedAttention::~FusedAttention() = default;

bool FusedAttention::forward(const AttentionShape& shape, __nv_bfloat16* out, float* log_sum,
                             const __nv_bfloat16* qkv) {
  const std::int64_t C = shape.C();
  return impl_->run(false, shape,
                    {{kQueries, dnn_pointer(qkv)},
                     {kKeys, dnn_pointer(qkv + C)},
                     {kValues, dnn_pointer(qkv + 2 * C)},
                     {kOut, out},
                     {kLogSum, log_sum}});
}

bool FusedAttention::backward(const AttentionShape& shape, __nv_bfloat16* d_qkv,
                              const __nv_bfloat16* d_out, const __nv_bfloat16* out,
                              const float* log_sum, const __nv_bfloat16* qkv) {
  const std::int64_t C = shape.C();
  return impl_->run(true, shape,
                    {{kQueries, dnn_pointer(qkv)},
                     {kKeys, dnn_pointer(qkv + C)},
                     {kValues, dnn_pointer(qkv + 2 * C)},
                     {kOut, dnn_pointer(out)},
                     {kOutGradient, dnn_pointer(d_out)},
                     {kLogSum, dnn_pointer(log_sum)},
                     {kQueryGradient, d_qkv},
                     {kKeyGradient, d_qkv + C},
                     {kValueGradient, d_qkv + 2 * C}});
}

}  // namespace archipelago::kernels::cuda
