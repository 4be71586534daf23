#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace archipelago::kernels {

// Kernels on the processor's cores: every kernel is one parallel region over static ranges, so that
// the same number of threads gives the same bits.
class CpuKernels final : public Kernels {
 public:
  explicit CpuKernels(int threads) : threads_(threads), scratch_(threads) {}

  float* allocate(std::int64_t count) override;
  void release(float* memory, std::int64_t count) noexcept override;
  bool on_host() const override { return true; }
  void copy_in(void* to, const void* host, std::int64_t bytes) override;
  void copy_out(void* host, const void* from, std::int64_t bytes) override;
  Numbers compact(float* memory) const override { return memory; }
  ConstNumbers rounded(const float* x, float*, std::int64_t) override { return x; }
  void round_parameters(std::span<const float>) override {}
  void clear(float* x, std::int64_t count) override;
  // Differences are encoded on the thread that sends them.
  std::unique_ptr<Mover> make_mover(std::optional<Encoding>) override {
    return make_host_mover(threads_);
  }
  std::int64_t logits_at_once() const override { return kHostLogitsAtOnce; }
  std::int64_t rows_at_once() const override { return kHostRowsAtOnce; }
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

 private:
  // At least `count` floats for each thread, kept from call to call: only the first step allocates.
  void reserve_scratch(std::int64_t count);

  int threads_;
  std::vector<Buffer> scratch_;
  std::vector<std::int32_t> next_place_;  // of each expert
  Buffer turned_weight_;
};

}  // namespace archipelago::kernels
