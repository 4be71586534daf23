#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "kernels/mover.h"

// The numerical kernels that models are made of, behind one interface: kernels/cpu/ and
// kernels/cuda/.
//
// Dimensions
//   B   sequences of a batch              C   width (channels)          I   inputs of a linear map
//   T   positions of a sequence           NH  heads                     O   outputs of a linear map
//   R   rows, usually B * T               D   width of a head, C / NH   V   vocabulary
//   E   experts                           K   experts that a row goes through
// Arrays are dense, row-major, the shape in brackets: f32, Numbers also bf16; token ids are int32.
// Pointers are memory that allocate() gave. Arguments stand in the order outputs, inputs, sizes. An
// output is overwritten unless its text says "added to"; gradients of parameters are always added
// to. Outputs may not overlap inputs unless stated.
//
// Device memory
// On a GPU allocate() gives memory that the host cannot touch, and a call only queues its work:
// copy_in() and copy_out() are the way there and back. What returns a value to the host, and
// copy_out(), wait for what was queued before; nothing else does.

namespace archipelago::kernels {

// What a product's operands are rounded to, and what compact() numbers are; sums, parameters, the
// residual stream and everything else are f32. The processor's kernels know f32 only.
enum class Precision { f32, bf16 };

// Logits that are worth making at a time on a processor: about 4 MiB, so that they stay in the
// cache between the kernels that make and use them.
constexpr std::int64_t kHostLogitsAtOnce = 1 << 20;

// Rows (positions of sequences) that are worth taking through a model at a time on a processor:
// enough for efficient products, few enough that a small model's activations stay in the cache.
constexpr std::int64_t kHostRowsAtOnce = 1024;

// On a GPU: all that there are.
constexpr std::int64_t kGpuRowsAtOnce = std::numeric_limits<std::int64_t>::max();

// What one kernel leaves for the next ones of a layer: numbers in memory for as many floats, f32
// or, as Kernels::compact() says, bf16. Where they are wanted, f32 ones may be given as they are.
struct Numbers {
  Numbers(float* f32) : data(f32) {}  // NOLINT: f32 may be given as it is
  Numbers(void* memory, Precision of) : data(memory), precision(of) {}
  // Only where they are f32.
  float* f32() const { return static_cast<float*>(data); }

  void* data;
  Precision precision = Precision::f32;
};

struct ConstNumbers {
  ConstNumbers(const float* f32) : data(f32) {}  // NOLINT: f32 may be given as it is
  ConstNumbers(const Numbers& numbers)           // NOLINT
      : data(numbers.data), precision(numbers.precision) {}
  // Only where they are f32.
  const float* f32() const { return static_cast<const float*>(data); }

  const void* data;
  Precision precision = Precision::f32;
};

struct Device {
  enum class Kind { cpu, cuda };
  Kind kind = Kind::cpu;
  int threads = 1;                        // cpu: OpenMP threads
  int index = 0;                          // cuda: which of those that this process sees
  Precision precision = Precision::bf16;  // cuda
  bool deterministic = false;             // cuda: the same bits in every run
};

struct AdamWStep {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float weight_decay;
  float gradient_scale;  // what gradients are multiplied by first (clipping)
  std::int64_t step;     // t of the bias correction, from 1
};

struct SgdStep {
  float learning_rate;
  float momentum;
  float weight_decay;
  float gradient_scale;  // what gradients are multiplied by first (clipping)
};

// The patch embedding of a vision transformer. side is a multiple of patch.
struct PatchShape {
  std::int64_t B;
  std::int64_t channels;
  std::int64_t side;   // of an image, in pixels
  std::int64_t patch;  // side of a patch
  std::int64_t O;

  auto operator<=>(const PatchShape&) const = default;
  constexpr std::int64_t T() const { return side / patch * (side / patch); }
  constexpr std::int64_t R() const { return B * T(); }
  constexpr std::int64_t I() const { return channels * patch * patch; }
  constexpr std::int64_t pixels() const { return B * channels * side * side; }
  constexpr std::int64_t outputs() const { return R() * O; }
};

// Which operand of a product is stored transposed.
enum class Transpose { neither, left, right };

class Kernels {
 public:
  virtual ~Kernels() = default;

  // `count` floats, zero, aligned to 64 bytes. Ownership passes to the caller, who gives the same
  // pointer and count to release().
  virtual float* allocate(std::int64_t count) = 0;
  virtual void release(float* memory, std::int64_t count) noexcept = 0;

  // Whether the host may read and write what allocate() gives.
  virtual bool on_host() const = 0;

  // `bytes` from the host's memory; `host` may be changed at once after it.
  virtual void copy_in(void* to, const void* host, std::int64_t bytes) = 0;

  // `bytes` to the host's memory, there when the call returns.
  virtual void copy_out(void* host, const void* from, std::int64_t bytes) = 0;

  // What is in this memory of floats as this device likes to have it while a layer is computed.
  virtual Numbers compact(float* memory) const = 0;

  // x[count] for several products: x itself, or in `room` what they would each round it to.
  virtual ConstNumbers rounded(const float* x, float* room, std::int64_t count) = 0;

  // A model's parameters before a pass forward, which stay as they are until the pass backward is
  // through: what products round them to is worked out here, not by each of them.
  virtual void round_parameters(std::span<const float> parameters) = 0;

  // x[count] = 0.
  virtual void clear(float* x, std::int64_t count) = 0;

  // For what goes between the device and other ranks; must not outlive the kernels. `differences`:
  // the encoding in which what has changed of a fragment is sent, nothing where its values are.
  virtual std::unique_ptr<Mover> make_mover(std::optional<Encoding> differences) = 0;

  // How many logits (rows * V) are worth making at a time.
  virtual std::int64_t logits_at_once() const = 0;

  // How many rows are worth taking through a model at a time.
  virtual std::int64_t rows_at_once() const = 0;

  // x[B*T, C] = token_table[V, C] at tokens[B*T] + position_table[T, C].
  virtual void embedding_forward(float* x, const std::int32_t* tokens, const float* token_table,
                                 const float* position_table, std::int64_t B, std::int64_t T,
                                 std::int64_t C) = 0;

  // d_x[B*T, C] is added to d_token_table[V, C] and d_position_table[T, C].
  virtual void embedding_backward(float* d_token_table, float* d_position_table,
                                  const std::int32_t* tokens, const float* d_x, std::int64_t B,
                                  std::int64_t T, std::int64_t C) = 0;

  // y[R, C] = (x[R, C] - mean) * rstd * weight[C] + bias[C]; keeps mean[R] and rstd[R]. Epsilon
  // 1e-5 (Ba, Kiros, Hinton 2016, eq. 4).
  virtual void layer_norm_forward(Numbers y, float* mean, float* rstd, const float* x,
                                  const float* weight, const float* bias, std::int64_t R,
                                  std::int64_t C) = 0;

  // The same y from mean[R] and rstd[R] that were kept.
  virtual void layer_norm_again(Numbers y, const float* x, const float* mean, const float* rstd,
                                const float* weight, const float* bias, std::int64_t R,
                                std::int64_t C) = 0;

  // d_x[R, C], d_weight[C], d_bias[C] are added to, from d_y[R, C] and the forward pass's x, mean,
  // rstd. Returns the new d_x as rounded() does; `room` may be d_y's memory if that is compact, or
  // null: then nothing is rounded, and null is returned.
  virtual ConstNumbers layer_norm_backward(float* d_x, float* d_weight, float* d_bias,
                                           ConstNumbers d_y, const float* x, const float* mean,
                                           const float* rstd, const float* weight, float* room,
                                           std::int64_t R, std::int64_t C) = 0;

  // y[R, O] = x[R, I] weight[I, O] + bias[O] + residual[R, O]; residual may be null (none) but not
  // y, and is so where y is not f32.
  virtual void linear_forward(Numbers y, ConstNumbers x, const float* weight, const float* bias,
                              const float* residual, std::int64_t R, std::int64_t I,
                              std::int64_t O) = 0;

  // pre[R, O] = x[R, I] weight[I, O] + bias[O]; act[R, O] = gelu(pre), the tanh form (Hendrycks and
  // Gimpel 2016): gelu(u) = u/2 * (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3))). Both of one type.
  virtual void linear_gelu_forward(Numbers act, Numbers pre, ConstNumbers x, const float* weight,
                                   const float* bias, std::int64_t R, std::int64_t I,
                                   std::int64_t O) = 0;

  // In place over `count` elements: pre becomes act = gelu(pre) again, d_act becomes d_pre. Both of
  // one type.
  virtual void gelu_backward(Numbers d_act, Numbers pre, std::int64_t count) = 0;

  // d_x[R, I] = d_y[R, O] weight[I, O]^T.
  virtual void linear_backward_input(Numbers d_x, ConstNumbers d_y, const float* weight,
                                     std::int64_t R, std::int64_t I, std::int64_t O) = 0;

  // The gradient through a linear map and the GELU before it: d_pre[R, I] = d_y[R, O] weight[I,
  // O]^T times the GELU's slope at pre[R, I]. Both of one type.
  virtual void linear_gelu_backward_input(Numbers d_pre, ConstNumbers d_y, const float* weight,
                                          ConstNumbers pre, std::int64_t R, std::int64_t I,
                                          std::int64_t O) = 0;

  // x[R, I]^T d_y[R, O] is added to d_weight[I, O], the column sums of d_y to d_bias[O].
  virtual void linear_backward_weight(float* d_weight, float* d_bias, ConstNumbers x,
                                      ConstNumbers d_y, std::int64_t R, std::int64_t I,
                                      std::int64_t O) = 0;

  // c[m, n] = a[m, k] b[k, n], or that added to c; `transpose` says which of a and b is stored as
  // its transpose. Not added where c is not f32.
  virtual void matmul(Numbers c, ConstNumbers a, ConstNumbers b, Transpose transpose, bool add,
                      std::int64_t m, std::int64_t n, std::int64_t k) = 0;

  // Scaled dot-product attention over qkv[B*T, 3*C] (queries, keys, values; in each, head h has the
  // columns h*D to h*D+D-1): out[B*T, C]; keeps log_sum[B, NH, T], the log of each query's softmax
  // sum. Causal: a query sees keys up to its own position. No T x T array is made (Dao et al. 2022,
  // Alg. 1). Numbers are of one type, in the backward pass too.
  virtual void attention_forward(Numbers out, float* log_sum, ConstNumbers qkv, bool causal,
                                 std::int64_t B, std::int64_t T, std::int64_t C,
                                 std::int64_t NH) = 0;

  // d_qkv[B*T, 3*C] from d_out[B*T, C] and the forward pass's out, log_sum and qkv (Dao et al.
  // 2022, Alg. 4).
  virtual void attention_backward(Numbers d_qkv, ConstNumbers d_out, ConstNumbers out,
                                  const float* log_sum, ConstNumbers qkv, bool causal,
                                  std::int64_t B, std::int64_t T, std::int64_t C,
                                  std::int64_t NH) = 0;

  // losses[R] = -log softmax(logits[R, V])[target]; a row whose target is -1 has loss 0. With
  // `gradient_scale` != 0, logits become gradient_scale * (softmax - onehot(target)), 0 for such a
  // row.
  virtual void cross_entropy(float* losses, Numbers logits, const std::int32_t* targets,
                             float gradient_scale, std::int64_t R, std::int64_t V) = 0;

  // Router of a mixture of experts (Shazeer et al. 2017, eq. 4, without noise): probabilities[R, E]
  // come as logits and become their softmax; log_sum[R] is the log of its sum; chosen[R, K] are the
  // experts of the K largest logits, the largest first; gates[R, K] the softmax over those.
  virtual void route_forward(float* probabilities, float* log_sum, std::int32_t* chosen,
                             float* gates, std::int64_t R, std::int64_t E, std::int64_t K) = 0;

  // d_logits[R, E] from d_gates[R, K], plus balance_scale times the gradient of the sum over rows
  // and experts of load[E] * probability (Fedus, Zoph, Shazeer 2022, eq. 4, the load held fixed),
  // plus z_scale times that of the sum of log_sum^2 / 2 (Zoph et al. 2022, eq. 5).
  virtual void route_backward(float* d_logits, const float* d_gates, const float* probabilities,
                              const float* log_sum, const std::int32_t* chosen, const float* gates,
                              const float* load, float balance_scale, float z_scale, std::int64_t R,
                              std::int64_t E, std::int64_t K) = 0;

  // The rows' places in order of their experts, an expert's in order of the rows: first[E + 1] is
  // each expert's first place (the last, R * K), places[R, K] the place of a row's k-th expert,
  // rows[R * K] and place_gates[R * K] the row and the gate at a place; load[E] each expert's share
  // of the places.
  virtual void group_by_expert(std::int32_t* first, std::int32_t* places, std::int32_t* rows,
                               float* place_gates, float* load, const std::int32_t* chosen,
                               const float* gates, std::int64_t R, std::int64_t E,
                               std::int64_t K) = 0;

  // y[i, C] = x[rows[i], C], times scales[i] where scales is not null, for i < count.
  virtual void gather_rows(float* y, const float* x, const std::int32_t* rows, const float* scales,
                           std::int64_t count, std::int64_t C) = 0;

  // y[i, C] is added to x[rows[i], C] for i < count; the rows differ from one another.
  virtual void scatter_rows(float* x, const float* y, const std::int32_t* rows, std::int64_t count,
                            std::int64_t C) = 0;

  // out[R, C] = in[R, C] + the sum over K of gates[R, K] y[places[R, K], C].
  virtual void combine_forward(float* out, const float* in, const float* y,
                               const std::int32_t* places, const float* gates, std::int64_t R,
                               std::int64_t C, std::int64_t K) = 0;

  // d_gates[R, K] = d_out[R, C] . y[places[R, K], C].
  virtual void combine_backward(float* d_gates, const float* d_out, const float* y,
                                const std::int32_t* places, std::int64_t R, std::int64_t C,
                                std::int64_t K) = 0;

  // y[R, O]: images[B, channels, side, side], cut row by row into squares of `patch` pixels, times
  // weight[I, O], whose I = channels * patch^2 are a square's channels, in each its rows, plus
  // bias[O]: a convolution whose windows lie side by side (Dosovitskiy et al. 2021, section 3.1).
  // `patches`: room for [R, I], which the backward pass finds as it is left.
  virtual void patch_embedding_forward(float* y, float* patches, const float* images,
                                       const float* weight, const float* bias,
                                       const PatchShape& shape) = 0;

  // The gradients from d_y[R, O] and the forward pass's images and patches are added to
  // d_weight[I, O] and d_bias[O].
  virtual void patch_embedding_backward(float* d_weight, float* d_bias, float* patches,
                                        const float* images, const float* d_y,
                                        const PatchShape& shape) = 0;

  // table[T, C] is added to every sequence of x[B*T, C].
  virtual void add_positions(float* x, const float* table, std::int64_t B, std::int64_t T,
                             std::int64_t C) = 0;

  // The sum over the sequences of d_x[B*T, C] is added to d_table[T, C].
  virtual void add_positions_backward(float* d_table, const float* d_x, std::int64_t B,
                                      std::int64_t T, std::int64_t C) = 0;

  // y[B, C] = the mean over positions of x[B*T, C].
  virtual void mean_positions(float* y, const float* x, std::int64_t B, std::int64_t T,
                              std::int64_t C) = 0;

  // d_x[B*T, C] from d_y[B, C].
  virtual void mean_positions_backward(float* d_x, const float* d_y, std::int64_t B, std::int64_t T,
                                       std::int64_t C) = 0;

  // Sum of the squares of `count` elements, accumulated in double.
  virtual double sum_of_squares(const float* x, std::int64_t count) = 0;

  // One AdamW step over `count` elements: updates parameters, first_moment and second_moment, sets
  // gradients to zero (Loshchilov and Hutter 2019, Alg. 2, the decay times the learning rate).
  virtual void adamw(float* parameters, float* gradients, float* first_moment, float* second_moment,
                     const AdamWStep& step, std::int64_t count) = 0;

  // One step of stochastic gradient descent over `count` elements: momentum := step.momentum *
  // momentum + gradient; parameters := parameters - learning_rate * (momentum + weight_decay *
  // parameters); sets gradients to zero (Loshchilov and Hutter 2019, Alg. 1, the rate outside the
  // momentum).
  virtual void sgd(float* parameters, float* gradients, float* momentum, const SgdStep& step,
                   std::int64_t count) = 0;
};

// On `threads` >= 1 threads of this process; see docs/kernels.md.
std::unique_ptr<Kernels> make_cpu_kernels(int threads);

// On a GPU; see docs/gpu.md. Throws Error(configuration) where there is no such GPU, or the program
// was built without CUDA.
std::unique_ptr<Kernels> make_cuda_kernels(const Device& device);

std::unique_ptr<Kernels> make_kernels(const Device& device);

// GPUs that this process can compute on; where there are none, why_no_cuda() says why in a few
// words.
int cuda_devices();
std::string why_no_cuda();

// Owns memory of one Kernels, which must outlive it: `count` elements of four bytes, zero.
template <typename T>
class BufferOf {
  static_assert(sizeof(T) == sizeof(float));

 public:
  BufferOf() = default;
  BufferOf(Kernels& kernels, std::int64_t count)
      : kernels_(&kernels), data_(kernels.allocate(count)), count_(count) {}
  BufferOf(BufferOf&& other) noexcept { *this = std::move(other); }
  BufferOf& operator=(BufferOf&& other) noexcept {
    std::swap(kernels_, other.kernels_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~BufferOf() {
    if (data_ != nullptr) kernels_->release(data_, count_);
  }

  T* data() const { return reinterpret_cast<T*>(data_); }
  std::int64_t size() const { return count_; }

  // At least `count` elements; what it held is lost where it has to grow.
  T* reserve(Kernels& kernels, std::int64_t count) {
    if (count_ < count) *this = BufferOf(kernels, count);
    return data();
  }

  // Replaces the first elements by the host's, or the other way round.
  void copy_in(std::span<const T> host) const {
    kernels_->copy_in(data_, host.data(), static_cast<std::int64_t>(host.size_bytes()));
  }
  void copy_out(std::span<T> host) const {
    kernels_->copy_out(host.data(), data_, static_cast<std::int64_t>(host.size_bytes()));
  }

 private:
  Kernels* kernels_ = nullptr;
  float* data_ = nullptr;
  std::int64_t count_ = 0;
};

using Buffer = BufferOf<float>;
using IndexBuffer = BufferOf<std::int32_t>;

}  // namespace archipelago::kernels
