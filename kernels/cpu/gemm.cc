#include "kernels/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <string>

#include "core/blocked_signals.h"
#include "core/error.h"

namespace archipelago::kernels {

void gemm(float* c, std::int64_t ldc, const float* a, std::int64_t lda, const float* b,
          std::int64_t ldb, Transpose transpose, bool add, std::int64_t m, std::int64_t n,
          std::int64_t k) {
  // oneDNN takes all of OpenMP's threads unless it is called inside a parallel region of several.
  if (!omp_in_parallel() && omp_get_max_threads() != 1) omp_set_num_threads(1);
  // Its kernels use the stack pointer as a register, so that a handler would write over the heap.
  const BlockedSignals meanwhile;
  const dnnl_status_t status = dnnl_sgemm(transpose == Transpose::left ? 'T' : 'N',
                                          transpose == Transpose::right ? 'T' : 'N', m, n, k, 1.0F,
                                          a, lda, b, ldb, add ? 1.0F : 0.0F, c, ldc);
  if (status != dnnl_success) {
    throw Error(ExitCode::internal,
                "oneDNN refused a matrix product with status " + std::to_string(status));
  }
}

}  // namespace archipelago::kernels
