#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "kernels/cuda/scratch.h"
#include "kernels/kernels.h"

// The one place that calls cuBLASLt. It sees matrices by columns, the kernels theirs by rows, so it
// is told of every matrix's transpose: c^T[n, m] = b^T[n, k] a^T[k, m].

namespace archipelago::kernels::cuda {

// c[m, n] = a[m, k] b[k, n] (+ bias[n]) (+ add[m, n]), sums in f32. `transpose` says which of a and
// b, which are of one type, is stored as its transpose. With `pre`, c = gelu(pre) of the tanh form
// and pre[m, n] is the sum itself. With `slope_at`, c is the sum times the GELU's slope at
// slope_at[m, n]. `bias`, `pre` and `slope_at` are of c's type. `add`, only where c is f32, may be
// c.
struct Product {
  Numbers c;
  ConstNumbers a;
  ConstNumbers b;
  Transpose transpose = Transpose::neither;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  const void* bias = nullptr;
  const float* add = nullptr;
  void* pre = nullptr;
  const void* slope_at = nullptr;

  // What cuBLASLt reads or writes beside the matrices.
  const void* auxiliary() const { return pre != nullptr ? pre : slope_at; }
};

// Its results have the same bits in every run on the same kind of GPU: cuBLASLt's have where the
// workspace is the caller's (cuBLAS's documentation, "Results reproducibility").
class Blas {
 public:
  Blas();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // Queues the product. False where cuBLASLt has no algorithm for it: then nothing is queued.
  [[nodiscard]] bool try_multiply(const Product& product, cudaStream_t stream);
  // The same; Error(internal) where there is none.
  void multiply(const Product& product, cudaStream_t stream);

  // Whether cuBLASLt can apply the GELU, or its slope, to rows of n elements at these places. Not
  // in f32: its tanh is an approximation that only bf16 results are too short to show.
  static bool can_fuse_gelu(const ConstNumbers& pre, std::int64_t n);

  // Whether cuBLASLt takes a bias from there: its kernels may read 16 bytes at a time, whatever
  // alignment of matrices they were chosen for.
  static bool takes_bias(const void* bias);

 private:
  struct Call;
  // The algorithm for products of this call's kind, which is asked for once; nothing where none is.
  std::optional<cublasLtMatmulAlgo_t>& algorithm(const Product& product, const Call& call);

  cublasLtHandle_t handle_ = nullptr;
  // By everything that the choice depends on.
  std::map<std::array<std::int64_t, 14>, std::optional<cublasLtMatmulAlgo_t>> algorithms_;
  Scratch workspace_;
};

}  // namespace archipelago::kernels::cuda
