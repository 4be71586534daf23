#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

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
  // What it is told is added: where nothing is, times 0, c's own memory stands in.
  const void* added() const { return add != nullptr ? add : c.data; }
};

// An algorithm is chosen once for each kind of product, and for each 128 rows of tokens more: the
// number of rows that a mixture's expert has changes with every step. In deterministic mode it is
// cuBLASLt's own first choice, whose results have the same bits in every run on the same kind of
// GPU where the workspace is the caller's (cuBLAS's documentation, "Results reproducibility"); else
// the fastest of its first choices, which are tried when the product first comes.
class Blas {
 public:
  explicit Blas(bool deterministic);
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
  using Algorithm = cublasLtMatmulAlgo_t;
  struct Call;
  // All that a choice depends on but the rows of tokens; those.
  using Kind = std::array<std::int64_t, 13>;
  using Rows = std::int64_t;

  // The algorithm for products of this kind and size; nothing where there is none.
  std::optional<Algorithm>& algorithm(const Product& product, cudaStream_t stream);
  // cuBLASLt's first choices, at most `most`, the best first.
  std::vector<Algorithm> choices(const Product& product, int most) const;
  // The fastest of them for the product, whose result is not written.
  std::optional<Algorithm> fastest(const std::vector<Algorithm>& algorithms, Product product,
                                   cudaStream_t stream);
  // Queues the product, or nothing where it says that the algorithm is not for it.
  [[nodiscard]] bool run(const Call& call, const Product& product, const Algorithm& algorithm,
                         cudaStream_t stream);

  bool deterministic_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Kind, std::map<Rows, std::optional<Algorithm>>> algorithms_;
  Scratch workspace_;
};

}  // namespace archipelago::kernels::cuda
