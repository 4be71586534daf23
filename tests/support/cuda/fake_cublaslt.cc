#include "fake_cublaslt.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cuda_bf16.h"
#include "emulation.h"

using archipelago::emulation::DeviceAccess;
using archipelago::emulation::Misuse;
using archipelago::emulation::RecordedProduct;

struct FakeBlasHandle {};

struct FakeMatrixLayout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t ld;

  std::size_t element() const { return type == CUDA_R_16BF ? 2 : 4; }
  std::size_t bytes() const {
    return (static_cast<std::size_t>(ld) * (columns - 1) + rows) * element();
  }
  double at(const void* memory, std::uint64_t row, std::uint64_t column) const {
    const std::uint64_t index = column * static_cast<std::uint64_t>(ld) + row;
    if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(memory)[index]);
    return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(memory)[index]));
  }
  void put(void* memory, std::uint64_t row, std::uint64_t column, double value) const {
    const std::uint64_t index = column * static_cast<std::uint64_t>(ld) + row;
    if (type == CUDA_R_32F) {
      static_cast<float*>(memory)[index] = static_cast<float>(value);
    } else {
      static_cast<__nv_bfloat16*>(memory)[index] = __float2bfloat16(static_cast<float>(value));
    }
  }
};

struct FakeMatmulDescription {
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  // Of the result's type.
  const void* bias = nullptr;
  void* auxiliary = nullptr;
  std::int64_t auxiliary_ld = 0;
};

struct FakeMatmulPreference {
  std::size_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of a, b, c, d, as documented
};

struct FakeAlgorithm {
  FakeMatmulPreference preference;
  std::size_t choice;
  double milliseconds;
};

namespace {

struct State {
  std::vector<RecordedProduct> products;
  std::set<cublasLtEpilogue_t> refused;
  // An algorithm's number is its place.
  std::vector<FakeAlgorithm> algorithms;
  std::vector<double> offered = {1.0};
  int choices = 0;
};

State& state() {
  static State state;
  return state;
}

cublasStatus_t failure(const char* function) {
  return static_cast<cublasStatus_t>(archipelago::emulation::take_failure(function));
}

void require(bool holds, const std::string& what) {
  if (!holds) throw Misuse("cuBLASLt: " + what);
}

template <typename T>
void assign(T& field, const void* value, std::size_t bytes) {
  require(bytes == sizeof(T), "an attribute of the wrong size");
  std::memcpy(&field, value, sizeof(T));
}

// Rows and columns after the transpose.
std::pair<std::uint64_t, std::uint64_t> shape(const FakeMatrixLayout& layout,
                                              cublasOperation_t transpose) {
  return transpose == CUBLAS_OP_N ? std::pair(layout.rows, layout.columns)
                                  : std::pair(layout.columns, layout.rows);
}

void check_layouts(const FakeMatmulDescription& description, const FakeMatrixLayout& a,
                   const FakeMatrixLayout& b, const FakeMatrixLayout& c,
                   const FakeMatrixLayout& d) {
  for (const FakeMatrixLayout* layout : {&a, &b, &c, &d}) {
    require(layout->rows > 0 && layout->columns > 0, "an empty matrix");
    require(layout->ld >= static_cast<std::int64_t>(layout->rows),
            "a leading dimension below the rows");
  }
  const auto [rows, inner] = shape(a, description.transpose_a);
  const auto [inner_b, columns] = shape(b, description.transpose_b);
  require(inner == inner_b, "operands whose inner sizes differ");
  require(d.rows == rows && d.columns == columns, "a result of another size");
  require(c.rows == rows && c.columns == columns, "an addend of another size");
  require(a.type == b.type, "operands of two types");
  require(c.type == d.type, "a result of another type than the addend");
  require(d.type == CUDA_R_32F || a.type == CUDA_R_16BF, "a bf16 result of f32 operands");
}

bool has_bias(const FakeMatmulDescription& description) {
  return description.epilogue == CUBLASLT_EPILOGUE_BIAS ||
         description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool has_auxiliary(const FakeMatmulDescription& description) {
  return description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         description.epilogue == CUBLASLT_EPILOGUE_DGELU;
}

void check_epilogue(const FakeMatmulDescription& description, const FakeMatrixLayout& d) {
  require(has_bias(description) == (description.bias != nullptr),
          "a bias without its epilogue, or without it");
  require(has_auxiliary(description) == (description.auxiliary != nullptr),
          "an auxiliary matrix without its epilogue, or without it");
  require(!has_bias(description) || reinterpret_cast<std::uintptr_t>(description.bias) % 16 == 0,
          "a bias that is not aligned to 16 bytes");
  if (!has_auxiliary(description)) return;
  require(description.auxiliary_ld % 8 == 0, "an auxiliary leading dimension no multiple of 8");
  require(description.auxiliary_ld >= static_cast<std::int64_t>(d.rows),
          "an auxiliary leading dimension below the rows");
  require(reinterpret_cast<std::uintptr_t>(description.auxiliary) % 16 == 0,
          "an auxiliary matrix that is not aligned to 16 bytes");
}

void check_epilogue_memory(const FakeMatmulDescription& description, const FakeMatrixLayout& d) {
  if (has_bias(description)) {
    archipelago::emulation::require_device(description.bias, d.rows * d.element(), "the bias");
  }
  if (!has_auxiliary(description)) return;
  archipelago::emulation::require_device(
      description.auxiliary,
      (static_cast<std::size_t>(description.auxiliary_ld) * (d.columns - 1) + d.rows) * d.element(),
      "the auxiliary matrix");
}

void check_address(const void* memory, const FakeMatrixLayout& layout, std::uint32_t promised,
                   const std::string& what) {
  archipelago::emulation::require_device(memory, layout.bytes(), "cuBLASLt: " + what);
  require(reinterpret_cast<std::uintptr_t>(memory) % promised == 0,
          what + " less aligned than the algorithm was promised");
}

double gelu(double u) {
  return 0.5 * u *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (u + 0.044715 * u * u * u)));
}

double gelu_slope(double u) {
  const double inner = std::sqrt(2.0 / std::numbers::pi);
  const double t = std::tanh(inner * (u + 0.044715 * u * u * u));
  return 0.5 * (1.0 + t) + 0.5 * u * (1.0 - t * t) * inner * (1.0 + 3 * 0.044715 * u * u);
}

struct Operands {
  FakeMatmulDescription description;
  FakeMatrixLayout a, b, c, d;
  const void* a_memory;
  const void* b_memory;
  const void* c_memory;
  void* d_memory;
  double alpha, beta;
};

void compute(const Operands& o) {
  const DeviceAccess access;
  const FakeMatmulDescription& description = o.description;
  const std::uint64_t inner = shape(o.a, description.transpose_a).second;
  FakeMatrixLayout auxiliary = o.d;
  auxiliary.ld = description.auxiliary_ld;
  const auto left = [&](std::uint64_t i, std::uint64_t p) {
    return description.transpose_a == CUBLAS_OP_N ? o.a.at(o.a_memory, i, p)
                                                  : o.a.at(o.a_memory, p, i);
  };
  const auto right = [&](std::uint64_t p, std::uint64_t j) {
    return description.transpose_b == CUBLAS_OP_N ? o.b.at(o.b_memory, p, j)
                                                  : o.b.at(o.b_memory, j, p);
  };
  for (std::uint64_t j = 0; j < o.d.columns; ++j) {
    for (std::uint64_t i = 0; i < o.d.rows; ++i) {
      double sum = 0;
      for (std::uint64_t p = 0; p < inner; ++p) sum += left(i, p) * right(p, j);
      sum *= o.alpha;
      // With beta 0 the addend is not read: it may be NaN.
      if (o.beta != 0) sum += o.beta * o.c.at(o.c_memory, i, j);
      if (description.bias != nullptr) sum += o.d.at(description.bias, i, 0);
      if (description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        auxiliary.put(description.auxiliary, i, j, sum);
        sum = gelu(sum);
      } else if (description.epilogue == CUBLASLT_EPILOGUE_DGELU) {
        sum *= gelu_slope(auxiliary.at(description.auxiliary, i, j));
      }
      o.d.put(o.d_memory, i, j, sum);
    }
  }
}

}  // namespace

std::vector<RecordedProduct> archipelago::emulation::take_products() {
  return std::exchange(state().products, {});
}

void archipelago::emulation::refuse_epilogue(cublasLtEpilogue_t epilogue, bool refused) {
  if (refused) {
    state().refused.insert(epilogue);
  } else {
    state().refused.erase(epilogue);
  }
}

void archipelago::emulation::offer_algorithms(const std::vector<double>& milliseconds) {
  state().offered = milliseconds;
}

int archipelago::emulation::take_choices() { return std::exchange(state().choices, 0); }

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                                  : "another status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const cublasStatus_t status = failure("cublasLtCreate");
  if (status == CUBLAS_STATUS_SUCCESS) *handle = new FakeBlasHandle();
  return status;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  *layout = new FakeMatrixLayout{type, rows, columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  require(compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F, "sums that are not f32");
  *description = new FakeMatmulDescription();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      assign(description->transpose_a, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      assign(description->transpose_b, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      assign(description->epilogue, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      assign(description->bias, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      assign(description->auxiliary, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      assign(description->auxiliary_ld, value, bytes);
      break;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new FakeMatmulPreference();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    assign(preference->workspace, value, bytes);
  } else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    assign(preference->reductions, value, bytes);
  } else {
    assign(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
           bytes);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  if (const cublasStatus_t code = failure("cublasLtMatmulAlgoGetHeuristic")) return code;
  require(requested >= 1, "no algorithm is asked for");
  require(d->type == CUDA_R_32F || preference->reductions == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
          "parts of a sum that may be rounded to bf16");
  ++state().choices;
  check_layouts(*description, *a, *b, *c, *d);
  check_epilogue(*description, *d);
  *count = 0;
  if (state().refused.contains(description->epilogue)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& offered = state().offered;
  *count = std::min(requested, static_cast<int>(offered.size()));
  for (std::size_t i = 0; i < static_cast<std::size_t>(*count); ++i) {
    results[i].algo.data[0] = state().algorithms.size();
    results[i].state = CUBLAS_STATUS_SUCCESS;
    state().algorithms.push_back({*preference, i, offered[i]});
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (const cublasStatus_t code = failure("cublasLtMatmul")) return code;
  const FakeAlgorithm& algorithm = state().algorithms.at(algo->data[0]);
  const FakeMatmulPreference& chosen = algorithm.preference;
  check_layouts(*description, *a_layout, *b_layout, *c_layout, *d_layout);
  check_epilogue(*description, *d_layout);
  check_epilogue_memory(*description, *d_layout);
  if (algorithm.milliseconds < 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  check_address(a, *a_layout, chosen.alignment[0], "the first operand");
  check_address(b, *b_layout, chosen.alignment[1], "the second operand");
  check_address(c, *c_layout, chosen.alignment[2], "the addend");
  check_address(d, *d_layout, chosen.alignment[3], "the result");
  require(workspace_bytes >= chosen.workspace, "a workspace smaller than was promised");
  archipelago::emulation::require_device(workspace, workspace_bytes, "the workspace");
  const float alpha_value = *static_cast<const float*>(alpha);
  const float beta_value = *static_cast<const float*>(beta);
  state().products.push_back({d_layout->rows, d_layout->columns,
                              shape(*a_layout, description->transpose_a).second,
                              description->transpose_a, description->transpose_b, a_layout->type,
                              d_layout->type, description->epilogue, beta_value, algorithm.choice});
  const Operands operands{*description,
                          *a_layout,
                          *b_layout,
                          *c_layout,
                          *d_layout,
                          a,
                          b,
                          c,
                          d,
                          static_cast<double>(alpha_value),
                          static_cast<double>(beta_value)};
  archipelago::emulation::enqueue(stream, [operands, stream, took = algorithm.milliseconds] {
    compute(operands);
    stream->milliseconds += took;
  });
  return CUBLAS_STATUS_SUCCESS;
}
