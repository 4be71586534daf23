#include "kernels/cuda/blas.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "kernels/cuda/check.h"
#include "kernels/cuda/stream.h"

namespace archipelago::kernels::cuda {
namespace {

// What cuBLAS itself takes on Hopper.
constexpr std::size_t kWorkspaceBytes = 32 << 20;

// An algorithm serves as many rows of tokens as its largest tiles have.
constexpr std::int64_t kRowsOfTile = 128;

// Of each kind of product so many numbers of rows are tried, which are a training step's, its last
// slice's and an evaluation's; where there are more, they are a mixture's and change all the time.
constexpr std::size_t kMostTriedRows = 4;
constexpr int kTriedChoices = 8;
constexpr int kTriedRuns = 3;

void check_blas(cublasStatus_t status, const std::string& doing) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt", cublasLtGetStatusString(status), doing);
}

// What cuBLASLt answers where it has no kernel for a combination of types, epilogue and addresses.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

// The largest power of two up to 256 that divides the address: what an algorithm may count on.
unsigned int alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return 1U << std::min(std::countr_zero(address), 8);
}

class Layout {
 public:
  // A matrix whose rows of `columns` elements follow one another: by columns it is [columns, rows].
  Layout(Precision precision, std::int64_t rows, std::int64_t columns) {
    const cudaDataType_t type = precision == Precision::bf16 ? CUDA_R_16BF : CUDA_R_32F;
    check_blas(cublasLtMatrixLayoutCreate(&layout_, type, static_cast<std::uint64_t>(columns),
                                          static_cast<std::uint64_t>(rows), columns),
               "describing a matrix");
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Description {
 public:
  Description() {
    check_blas(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "describing a product");
  }
  ~Description() { cublasLtMatmulDescDestroy(description_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  cublasLtMatmulDesc_t get() const { return description_; }

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_blas(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof value),
               "describing a product");
  }

 private:
  cublasLtMatmulDesc_t description_ = nullptr;
};

class Preference {
 public:
  Preference() { check_blas(cublasLtMatmulPreferenceCreate(&preference_), "making a preference"); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

  template <typename T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
               "setting a preference");
  }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

cublasLtEpilogue_t epilogue_of(const Product& product) {
  if (product.pre != nullptr) return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if (product.slope_at != nullptr) return CUBLASLT_EPILOGUE_DGELU;
  return product.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

void describe(Description& description, const Product& product) {
  // The kernels' b comes first.
  const cublasOperation_t of_b = product.transpose == Transpose::right ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t of_a = product.transpose == Transpose::left ? CUBLAS_OP_T : CUBLAS_OP_N;
  description.set(CUBLASLT_MATMUL_DESC_TRANSA, of_b);
  description.set(CUBLASLT_MATMUL_DESC_TRANSB, of_a);
  description.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
  if (product.bias != nullptr) {
    description.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  }
  if (product.auxiliary() != nullptr) {
    description.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.auxiliary());
    description.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.n);
  }
}

// Where tried products put their result. Null where the GPU has no memory left: then none is tried.
class TrialResult {
 public:
  explicit TrialResult(std::size_t bytes) {
    const cudaError_t code = cudaMalloc(&memory_, bytes);
    if (code != cudaErrorMemoryAllocation) {
      check(code, "taking " + std::to_string(bytes) + " bytes to try products in");
      return;
    }
    // Libraries that look for errors of their own would find this one.
    static_cast<void>(cudaGetLastError());
    memory_ = nullptr;
  }
  ~TrialResult() { cudaFree(memory_); }
  TrialResult(const TrialResult&) = delete;
  TrialResult& operator=(const TrialResult&) = delete;
  void* data() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

}  // namespace

Blas::Blas(bool deterministic) : deterministic_(deterministic) {
  check_blas(cublasLtCreate(&handle_), "starting");
}

Blas::~Blas() { cublasLtDestroy(handle_); }

bool Blas::can_fuse_gelu(const ConstNumbers& pre, std::int64_t n) {
  return pre.precision == Precision::bf16 && n % 8 == 0 && alignment_of(pre.data) >= 16;
}

bool Blas::takes_bias(const void* bias) { return alignment_of(bias) >= 16; }

// A product as cuBLASLt is told of it.
struct Blas::Call {
  explicit Call(const Product& p)
      : a(p.a.precision, p.transpose == Transpose::left ? p.k : p.m,
          p.transpose == Transpose::left ? p.m : p.k),
        b(p.b.precision, p.transpose == Transpose::right ? p.n : p.k,
          p.transpose == Transpose::right ? p.k : p.n),
        c(p.c.precision, p.m, p.n) {
    describe(description, p);
  }

  Layout a, b, c;
  Description description;
};

std::vector<cublasLtMatmulAlgo_t> Blas::choices(const Product& product, int most) const {
  const Call call(product);
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // Where the sum over k is made in parts, these are not rounded before they are added up.
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<std::uint32_t>(product.c.precision == Precision::bf16
                                                ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                : CUBLASLT_REDUCTION_SCHEME_MASK));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product.b.data));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product.a.data));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product.added()));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product.c.data));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, call.description.get(), call.b.get(), call.a.get(), call.c.get(), call.c.get(),
      preference.get(), most, results.data(), &count);
  if (is_refusal(status)) return {};
  check_blas(status, "choosing an algorithm");
  std::vector<Algorithm> found;
  for (const auto& result : std::span(results).first(static_cast<std::size_t>(count))) {
    if (result.state == CUBLAS_STATUS_SUCCESS) found.push_back(result.algo);
  }
  return found;
}

std::optional<cublasLtMatmulAlgo_t> Blas::fastest(const std::vector<Algorithm>& algorithms,
                                                  Product product, cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(product.m * product.n) *
                     (product.c.precision == Precision::bf16 ? 2 : sizeof(float));
  const TrialResult result(bytes);
  if (result.data() == nullptr) return algorithms.front();
  product.c.data = result.data();
  const Call call(product);
  std::optional<Algorithm> best;
  float least_ms = std::numeric_limits<float>::infinity();
  for (const Algorithm& each : algorithms) {
    // The first run also loads the kernel.
    if (!run(call, product, each, stream)) continue;
    TimedEvent begin, end;
    begin.record(stream);
    for (int i = 0; i < kTriedRuns; ++i) static_cast<void>(run(call, product, each, stream));
    end.record(stream);
    const float ms = end.milliseconds_since(begin);
    if (ms < least_ms) {
      least_ms = ms;
      best = each;
    }
  }
  return best;
}

std::optional<cublasLtMatmulAlgo_t>& Blas::algorithm(const Product& product, cudaStream_t stream) {
  Product in_tiles = product;
  Rows& rows = product.transpose == Transpose::left ? in_tiles.k : in_tiles.m;
  rows = (rows + kRowsOfTile - 1) / kRowsOfTile * kRowsOfTile;
  const Kind kind = {static_cast<int>(product.a.precision),
                     static_cast<int>(product.c.precision),
                     static_cast<int>(product.transpose),
                     epilogue_of(product),
                     product.add != nullptr,
                     product.transpose == Transpose::left ? product.m : product.k,
                     product.n,
                     alignment_of(product.a.data),
                     alignment_of(product.b.data),
                     alignment_of(product.added()),
                     alignment_of(product.c.data),
                     alignment_of(product.bias),
                     alignment_of(product.auxiliary())};
  auto& of_kind = algorithms_[kind];
  const auto [entry, is_new] = of_kind.try_emplace(rows);
  if (!is_new) return entry->second;
  const bool tries = !deterministic_ && of_kind.size() <= kMostTriedRows;
  const std::vector<Algorithm> found = choices(in_tiles, tries ? kTriedChoices : 1);
  if (found.size() > 1) {
    entry->second = fastest(found, product, stream);
  } else if (!found.empty()) {
    entry->second = found.front();
  }
  return entry->second;
}

bool Blas::run(const Call& call, const Product& product, const Algorithm& algorithm,
               cudaStream_t stream) {
  const float one = 1;
  const float beta = product.add != nullptr ? 1 : 0;
  const cublasStatus_t status = cublasLtMatmul(
      handle_, call.description.get(), &one, product.b.data, call.b.get(), product.a.data,
      call.a.get(), &beta, product.added(), call.c.get(), product.c.data, call.c.get(), &algorithm,
      workspace_.reserve<char>(kWorkspaceBytes), kWorkspaceBytes, stream);
  if (is_refusal(status)) return false;
  check_blas(status, "multiplying");
  return true;
}

bool Blas::try_multiply(const Product& product, cudaStream_t stream) {
  std::optional<Algorithm>& chosen = algorithm(product, stream);
  if (!chosen) return false;
  const Call call(product);
  if (run(call, product, *chosen, stream)) return true;
  // What is for whole tiles may not be for this number of rows.
  const std::vector<Algorithm> own = choices(product, 1);
  if (!own.empty() && run(call, product, own.front(), stream)) return true;
  chosen.reset();
  return false;
}

void Blas::multiply(const Product& product, cudaStream_t stream) {
  if (try_multiply(product, stream)) return;
  fail("cuBLASLt",
       "it has no algorithm for [" + std::to_string(product.m) + ", " + std::to_string(product.k) +
           "] times [" + std::to_string(product.k) + ", " + std::to_string(product.n) + "]",
       "multiplying");
}

}  // namespace archipelago::kernels::cuda
