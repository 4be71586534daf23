#include "kernels/cuda/fused_attention.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_graph.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/scratch.h"

namespace archipelago::kernels::cuda {

class FusedAttention::Impl {
 public:
  Impl(Dnn& dnn, bool deterministic) : dnn_(dnn), deterministic_(deterministic) {}

  bool run(bool backward, const AttentionShape& shape,
           std::unordered_map<std::int64_t, void*> memory) {
    const Plan& plan = planned(backward, shape);
    if (plan.graph == nullptr) return false;
    if (const auto* lengths = plan.lengths.get<std::int32_t>()) {
      memory[kLengths] = dnn_pointer(lengths);
    }
    dnn_.run(plan.graph, std::move(memory), "running attention");
    return true;
  }

 private:
  struct Plan {
    DnnGraph graph;   // null where there is none
    Scratch lengths;  // where the graph wants them
  };

  const Plan& planned(bool backward, const AttentionShape& shape) {
    const auto [entry, is_new] = plans_.try_emplace({backward, shape});
    Plan& plan = entry->second;
    if (is_new) {
      // Being deterministic is asked for in the graph itself.
      plan.graph = dnn_.planned(
          backward ? backward_graph(shape, deterministic_) : forward_graph(shape), false,
          "attention for heads of " + std::to_string(shape.D) + " over " + std::to_string(shape.T) +
              " positions",
          "the slower f32 kernel is used");
      if (backward && needs_lengths(shape)) fill_lengths(plan.lengths, shape);
    }
    return plan;
  }

  void fill_lengths(Scratch& lengths, const AttentionShape& shape) {
    const std::vector<std::int32_t> all(static_cast<std::size_t>(shape.B),
                                        static_cast<std::int32_t>(shape.T));
    check(cudaMemcpyAsync(lengths.reserve<std::int32_t>(shape.B), all.data(),
                          all.size() * sizeof all[0], cudaMemcpyHostToDevice, dnn_.stream()),
          "copying the lengths of sequences in");
  }

  Dnn& dnn_;
  bool deterministic_;
  std::map<std::pair<bool, AttentionShape>, Plan> plans_;
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
