#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <memory>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/fused_attention.h"
#include "kernels/cuda/patch_convolution.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/staging.h"
#include "kernels/cuda/stream.h"
#include "kernels/kernels.h"

namespace archipelago::kernels {

// Kernels on one GPU. Everything is queued on one stream, in the order of the calls; docs/gpu.md
// says which library or file each comes from.
class CudaKernels final : public Kernels {
 public:
  // `device`.index must be there.
  explicit CudaKernels(const Device& device);
  ~CudaKernels() override;

  float* allocate(std::int64_t count) override;
  void release(float* memory, std::int64_t count) noexcept override;
  bool on_host() const override { return false; }
  void copy_in(void* to, const void* host, std::int64_t bytes) override;
  void copy_out(void* host, const void* from, std::int64_t bytes) override;
  Numbers compact(float* memory) const override { return {memory, device_.precision}; }
  ConstNumbers rounded(const float* x, float* room, std::int64_t count) override;
  void round_parameters(std::span<const float> parameters) override;
  void clear(float* x, std::int64_t count) override;
  std::unique_ptr<Mover> make_mover(std::optional<Encoding> differences) override;
  // 2 GiB as floats: each time the table's whole gradient is read and written, so few times.
  std::int64_t logits_at_once() const override { return 1 << 29; }
  std::int64_t rows_at_once() const override { return kGpuRowsAtOnce; }
  void embedding_forward(float* x, const std::int32_t* tokens, const float* token_table,
                         const float* position_table, std::int64_t B, std::int64_t T,
                         std::int64_t C) override;
  void embedding_backward(float* d_token_table, float* d_position_table, const std::int32_t* tokens,
                          const float* d_x, std::int64_t B, std::int64_t T,
                          std::int64_t C) override;
  void layer_norm_forward(Numbers y, float* mean, float* rstd, const float* x, const float* weight,
                          const float* bias, std::int64_t R, std::int64_t C) override;
  void layer_norm_again(Numbers y, const float* x, const float* mean, const float* rstd,
                        const float* weight, const float* bias, std::int64_t R,
                        std::int64_t C) override;
  ConstNumbers layer_norm_backward(float* d_x, float* d_weight, float* d_bias, ConstNumbers d_y,
                                   const float* x, const float* mean, const float* rstd,
                                   const float* weight, float* room, std::int64_t R,
                                   std::int64_t C) override;
  void linear_forward(Numbers y, ConstNumbers x, const float* weight, const float* bias,
                      const float* residual, std::int64_t R, std::int64_t I,
                      std::int64_t O) override;
  void linear_gelu_forward(Numbers act, Numbers pre, ConstNumbers x, const float* weight,
                           const float* bias, std::int64_t R, std::int64_t I,
                           std::int64_t O) override;
  void gelu_backward(Numbers d_act, Numbers pre, std::int64_t count) override;
  void linear_backward_input(Numbers d_x, ConstNumbers d_y, const float* weight, std::int64_t R,
                             std::int64_t I, std::int64_t O) override;
  void linear_gelu_backward_input(Numbers d_pre, ConstNumbers d_y, const float* weight,
                                  ConstNumbers pre, std::int64_t R, std::int64_t I,
                                  std::int64_t O) override;
  void linear_backward_weight(float* d_weight, float* d_bias, ConstNumbers x, ConstNumbers d_y,
                              std::int64_t R, std::int64_t I, std::int64_t O) override;
  void matmul(Numbers c, ConstNumbers a, ConstNumbers b, Transpose transpose, bool add,
              std::int64_t m, std::int64_t n, std::int64_t k) override;
  void attention_forward(Numbers out, float* log_sum, ConstNumbers qkv, bool causal, std::int64_t B,
                         std::int64_t T, std::int64_t C, std::int64_t NH) override;
  void attention_backward(Numbers d_qkv, ConstNumbers d_out, ConstNumbers out, const float* log_sum,
                          ConstNumbers qkv, bool causal, std::int64_t B, std::int64_t T,
                          std::int64_t C, std::int64_t NH) override;
  void cross_entropy(float* losses, Numbers logits, const std::int32_t* targets,
                     float gradient_scale, std::int64_t R, std::int64_t V) override;
  void route_forward(float* probabilities, float* log_sum, std::int32_t* chosen, float* gates,
                     std::int64_t R, std::int64_t E, std::int64_t K) override;
  void route_backward(float* d_logits, const float* d_gates, const float* probabilities,
                      const float* log_sum, const std::int32_t* chosen, const float* gates,
                      const float* load, float balance_scale, float z_scale, std::int64_t R,
                      std::int64_t E, std::int64_t K) override;
  void group_by_expert(std::int32_t* first, std::int32_t* places, std::int32_t* rows,
                       float* place_gates, float* load, const std::int32_t* chosen,
                       const float* gates, std::int64_t R, std::int64_t E, std::int64_t K) override;
  void gather_rows(float* y, const float* x, const std::int32_t* rows, const float* scales,
                   std::int64_t count, std::int64_t C) override;
  void scatter_rows(float* x, const float* y, const std::int32_t* rows, std::int64_t count,
                    std::int64_t C) override;
  void combine_forward(float* out, const float* in, const float* y, const std::int32_t* places,
                       const float* gates, std::int64_t R, std::int64_t C, std::int64_t K) override;
  void combine_backward(float* d_gates, const float* d_out, const float* y,
                        const std::int32_t* places, std::int64_t R, std::int64_t C,
                        std::int64_t K) override;
  void patch_embedding_forward(float* y, float* patches, const float* images, const float* weight,
                               const float* bias, const PatchShape& shape) override;
  void patch_embedding_backward(float* d_weight, float* d_bias, float* patches, const float* images,
                                const float* d_y, const PatchShape& shape) override;
  void add_positions(float* x, const float* table, std::int64_t B, std::int64_t T,
                     std::int64_t C) override;
  void add_positions_backward(float* d_table, const float* d_x, std::int64_t B, std::int64_t T,
                              std::int64_t C) override;
  void mean_positions(float* y, const float* x, std::int64_t B, std::int64_t T,
                      std::int64_t C) override;
  void mean_positions_backward(float* d_x, const float* d_y, std::int64_t B, std::int64_t T,
                               std::int64_t C) override;
  double sum_of_squares(const float* x, std::int64_t count) override;
  void adamw(float* parameters, float* gradients, float* first_moment, float* second_moment,
             const AdamWStep& step, std::int64_t count) override;
  void sgd(float* parameters, float* gradients, float* momentum, const SgdStep& step,
           std::int64_t count) override;

  // The stream that all of it runs on, for what has to run before or after.
  cudaStream_t stream() const { return stream_.get(); }

 private:
  // What round_parameters() has made of x[count], where a product takes it; else null.
  const __nv_bfloat16* rounded_parameter(const float* x, std::int64_t count) const;
  // That is no longer true of the parameters from x on, if they are of those.
  void forget_rounded(const void* x);
  // The operand as the product takes it: f32 in bf16 mode as a copy, in `scratch` until the next
  // call with that scratch if it is no parameter's.
  ConstNumbers operand(cuda::Scratch& scratch, ConstNumbers x, std::int64_t count);
  // c[m, n] of a and b as matmul() has them.
  cuda::Product product(Numbers c, ConstNumbers a, ConstNumbers b, Transpose transpose,
                        std::int64_t m, std::int64_t n, std::int64_t k);
  // The product of a linear map, with its bias.
  cuda::Product linear_map(Numbers y, ConstNumbers x, const float* weight, const float* bias,
                           std::int64_t R, std::int64_t I, std::int64_t O);
  // Queues a product whose bias is its own, if cuBLASLt has it, else added afterwards.
  void multiply_with_bias(cuda::Product map);
  // bias[n], of c's type, is added to every row of c[m, n].
  void add_bias(Numbers c, const void* bias, std::int64_t m, std::int64_t n);
  // Rounds f32 to bf16, and the way back.
  void narrow(__nv_bfloat16* out, const float* in, std::int64_t count);
  void widen(float* out, const __nv_bfloat16* in, std::int64_t count);
  void copy(void* to, const void* from, std::int64_t bytes);
  // The numbers as bf16 that cuDNN takes, where they are or copied to `room`, and what it has made
  // to where it is wanted.
  const __nv_bfloat16* as_bf16(__nv_bfloat16* room, ConstNumbers x, std::int64_t count);
  void hand_over(Numbers to, const __nv_bfloat16* made, std::int64_t count);
  // Attention by cuDNN; false where it has none, and nothing is queued that matters.
  bool fused_attention_forward(Numbers out, float* log_sum, ConstNumbers qkv,
                               const cuda::AttentionShape& shape);
  bool fused_attention_backward(Numbers d_qkv, ConstNumbers d_out, ConstNumbers out,
                                const float* log_sum, ConstNumbers qkv,
                                const cuda::AttentionShape& shape);
  void attention_forward_f32(float* out, float* log_sum, const float* qkv, bool causal,
                             std::int64_t B, std::int64_t T, std::int64_t C, std::int64_t NH);
  void attention_backward_f32(float* d_qkv, const float* d_out, const float* out,
                              const float* log_sum, const float* qkv, bool causal, std::int64_t B,
                              std::int64_t T, std::int64_t C, std::int64_t NH);
  void gelu(Numbers act, Numbers pre, std::int64_t count);
  // d_pre[count] is multiplied by the GELU's slope at pre.
  void multiply_by_gelu_slope(Numbers d_pre, ConstNumbers pre, std::int64_t count);
  // The rows 0 to R - 1 in the order of their tokens, a token's in their own; in sums_.
  const std::int32_t* order_by_token(const std::int32_t* tokens, std::int64_t R);
  // patches[R, I] of images[B, channels, side, side].
  void cut_patches(float* patches, const float* images, const PatchShape& shape);
  // To and from the layouts of cuda::PatchConvolution; the filter's gradient is added to d_weight.
  void narrow_images(__nv_bfloat16* out, const float* images, const PatchShape& shape);
  void narrow_filter(__nv_bfloat16* filter, const float* weight, const PatchShape& shape);
  void add_filter(float* d_weight, const __nv_bfloat16* d_filter, const PatchShape& shape);
  void widen_with_bias(float* y, const __nv_bfloat16* in, const float* bias,
                       const PatchShape& shape);
  // The sums over the rows of d_y[R, C] are added to d_bias[C].
  void add_column_sums(float* d_bias, ConstNumbers d_y, std::int64_t R, std::int64_t C);
  // Those of partial[tiles, 2, C] to first[C] and second[C]; [tiles, C] where second is null.
  void add_partial_sums(float* first, float* second, const float* partial, std::int64_t tiles,
                        std::int64_t C);

  Device device_;
  cuda::Stream stream_;
  cuda::Staging staging_;
  cuda::Blas blas_;
  // bf16 only
  std::unique_ptr<cuda::Dnn> dnn_;
  std::unique_ptr<cuda::FusedAttention> fused_attention_;
  std::unique_ptr<cuda::PatchConvolution> patch_convolution_;
  cuda::Scratch left_, right_;         // of a product, or of attention
  cuda::Scratch bias_;                 // of a product, as its result is
  cuda::Scratch sums_;                 // partial sums
  std::span<const float> parameters_;  // of which rounded_ is what products take
  cuda::Scratch rounded_;
};

}  // namespace archipelago::kernels
