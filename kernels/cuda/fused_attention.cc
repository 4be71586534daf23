#include "kernels/cuda/fused_attention.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/log.h"
#include "kernels/cuda/attention_graph.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/scratch.h"

namespace archipelago::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;

void check_dnn(cudnnStatus_t status, const std::string& doing) {
  if (status != CUDNN_STATUS_SUCCESS) fail("cuDNN", cudnnGetErrorString(status), doing);
}

// cuDNN takes inputs and outputs alike.
void* pointer(const void* memory) { return const_cast<void*>(memory); }

}  // namespace

class FusedAttention::Impl {
 public:
  Impl(bool deterministic, cudaStream_t stream) : deterministic_(deterministic) {
    cudnnHandle_t handle = nullptr;
    check_dnn(cudnnCreate(&handle), "starting");
    handle_.reset(handle);
    check_dnn(cudnnSetStream(handle, stream), "choosing its stream");
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool run(bool backward, const AttentionShape& shape,
           std::unordered_map<std::int64_t, void*> memory) {
    const AttentionGraph& graph = plan(backward, shape);
    if (graph == nullptr) return false;
    void* workspace = workspace_.reserve<char>(graph->get_workspace_size());
    fe::error_t error = graph->execute(handle_.get(), memory, workspace);
    if (error.is_bad()) fail("cuDNN", error.get_message(), "running attention");
    return true;
  }

 private:
  const AttentionGraph& plan(bool backward, const AttentionShape& shape) {
    const auto [entry, is_new] = plans_.try_emplace({backward, shape});
    if (is_new) {
      AttentionGraph graph =
          backward ? backward_graph(shape, deterministic_) : forward_graph(shape);
      fe::error_t error = graph->build(handle_.get(), {fe::HeurMode_t::A});
      if (error.is_good()) {
        entry->second = std::move(graph);
      } else {
        log_warning("cuDNN has no attention for heads of " + std::to_string(shape.D) + " over " +
                    std::to_string(shape.T) + " positions (" + error.get_message() +
                    "); the slower f32 kernel is used");
      }
    }
    return entry->second;
  }

  bool deterministic_;
  struct Destroy {
    using pointer = cudnnHandle_t;
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };

  std::unique_ptr<cudnnHandle_t, Destroy> handle_;
  std::map<std::pair<bool, AttentionShape>, AttentionGraph> plans_;  // null where there is none
  Scratch workspace_;
};

FusedAttention::FusedAttention(bool deterministic, cudaStream_t stream)
    : impl_(std::make_unique<Impl>(deterministic, stream)) {}

FusedAttention::~FusedAttention() = default;

bool FusedAttention::forward(const AttentionShape& shape, __nv_bfloat16* out, float* log_sum,
                             const __nv_bfloat16* qkv) {
  const std::int64_t C = shape.C();
  return impl_->run(false, shape,
                    {{kQueries, pointer(qkv)},
                     {kKeys, pointer(qkv + C)},
                     {kValues, pointer(qkv + 2 * C)},
                     {kOut, out},
                     {kLogSum, log_sum}});
}

bool FusedAttention::backward(const AttentionShape& shape, __nv_bfloat16* d_qkv,
                              const __nv_bfloat16* d_out, const __nv_bfloat16* out,
                              const float* log_sum, const __nv_bfloat16* qkv) {
  const std::int64_t C = shape.C();
  return impl_->run(true, shape,
                    {{kQueries, pointer(qkv)},
                     {kKeys, pointer(qkv + C)},
                     {kValues, pointer(qkv + 2 * C)},
                     {kOut, pointer(out)},
                     {kOutGradient, pointer(d_out)},
                     {kLogSum, pointer(log_sum)},
                     {kQueryGradient, d_qkv},
                     {kKeyGradient, d_qkv + C},
                     {kValueGradient, d_qkv + 2 * C}});
}

}  // namespace archipelago::kernels::cuda
