#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/profile.h"
#include "emulation.h"
#include "fake_cublaslt.h"
#include "fake_cudnn.h"
#include "kernel_test.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_mover.h"
#include "kernels/gpu_address.h"
#include "nvtx3/nvToolsExt.h"

// What kernels/cuda asks of CUDA's libraries, and what it does when they fail.

namespace archipelago::kernels {
namespace {

using emulation::fail_next;

Device device(Precision precision, bool deterministic = false) {
  return {.kind = Device::Kind::cuda, .precision = precision, .deterministic = deterministic};
}

class LibrariesTest : public testing::Test {
 protected:
  LibrariesTest() {
    emulation::take_products();
    emulation::take_attentions();
    emulation::take_convolutions();
  }

  ~LibrariesTest() override { emulation::offer_algorithms({1}); }

  // One product of each kind of linear map, on matrices of ones.
  void run_linear(Kernels& kernels, std::int64_t R, std::int64_t I, std::int64_t O) {
    const Buffer x(kernels, R * I), weight(kernels, I * O), bias(kernels, O), y(kernels, R * O),
        pre(kernels, R * O);
    kernels.linear_forward(y.data(), x.data(), weight.data(), bias.data(), pre.data(), R, I, O);
    kernels.linear_gelu_forward(kernels.compact(y.data()), kernels.compact(pre.data()), x.data(),
                                weight.data(), bias.data(), R, I, O);
    kernels.linear_backward_input(x.data(), y.data(), weight.data(), R, I, O);
    kernels.linear_backward_weight(weight.data(), bias.data(), x.data(), y.data(), R, I, O);
  }
};

TEST_F(LibrariesTest, LinearMapsAreOneProductEach) {
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  run_linear(*kernels, 6, 4, 8);
  const auto products = emulation::take_products();
  ASSERT_EQ(products.size(), 4U);
  for (const auto& product : products) EXPECT_EQ(product.operands, CUDA_R_16BF);
  // By columns: weight first, then x.
  EXPECT_EQ(products[0].rows, 8U);
  EXPECT_EQ(products[0].columns, 6U);
  EXPECT_EQ(products[0].inner, 4U);
  EXPECT_EQ(products[0].epilogue, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(products[0].beta, 1) << "the residual";
  EXPECT_EQ(products[1].epilogue, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  EXPECT_EQ(products[1].beta, 0);
  EXPECT_EQ(products[2].transpose_a, CUBLAS_OP_T) << "the weight";
  EXPECT_EQ(products[2].transpose_b, CUBLAS_OP_N);
  EXPECT_EQ(products[3].transpose_a, CUBLAS_OP_N);
  EXPECT_EQ(products[3].transpose_b, CUBLAS_OP_T) << "x";
  EXPECT_EQ(products[3].beta, 1) << "gradients of weights are added to";
}

TEST_F(LibrariesTest, CompactNumbersAreNotConverted) {
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  constexpr std::int64_t R = 6, I = 8, O = 16;
  const Buffer x(*kernels, R * I), weight(*kernels, I * O), bias(*kernels, O), y(*kernels, R * O),
      pre(*kernels, R * O), residual(*kernels, R * O);
  kernels->linear_gelu_forward(kernels->compact(y.data()), kernels->compact(pre.data()),
                               kernels->compact(x.data()), weight.data(), bias.data(), R, I, O);
  kernels->linear_forward(y.data(), kernels->compact(x.data()), weight.data(), bias.data(),
                          residual.data(), R, I, O);
  const auto products = emulation::take_products();
  ASSERT_EQ(products.size(), 2U);
  EXPECT_EQ(products[0].result, CUDA_R_16BF);
  EXPECT_EQ(products[0].epilogue, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  EXPECT_EQ(products[1].result, CUDA_R_32F) << "the residual stream";
  EXPECT_EQ(products[1].operands, CUDA_R_16BF);
  kernels->linear_gelu_backward_input(kernels->compact(pre.data()), kernels->compact(x.data()),
                                      weight.data(), kernels->compact(y.data()), R, O, I);
  EXPECT_EQ(emulation::take_products()[0].epilogue, CUBLASLT_EPILOGUE_DGELU);
}

TEST_F(LibrariesTest, TheGeluGoesAloneWhereItCannotBeFused) {
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  run_linear(*kernels, 3, 4, 7);
  EXPECT_EQ(emulation::take_products()[1].epilogue, CUBLASLT_EPILOGUE_BIAS) << "7 columns";
  emulation::refuse_epilogue(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, true);
  run_linear(*kernels, 3, 4, 8);
  emulation::refuse_epilogue(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, false);
  EXPECT_EQ(emulation::take_products()[1].epilogue, CUBLASLT_EPILOGUE_BIAS) << "no algorithm";
  run_linear(*make_cuda_kernels(device(Precision::f32)), 3, 4, 8);
  EXPECT_EQ(emulation::take_products()[1].epilogue, CUBLASLT_EPILOGUE_BIAS) << "f32";
}

// x of zeros: y is the bias.
std::vector<float> biased_rows(Kernels& kernels, Precision of_y, std::int64_t floats_before) {
  constexpr std::int64_t R = 2, I = 8, O = 3;
  const Buffer x(kernels, R * I), weight(kernels, I * O), bias(kernels, floats_before + O),
      y(kernels, R * O);
  std::vector<float> values(static_cast<std::size_t>(floats_before), -1);
  values.insert(values.end(), {1, 2, 3});
  bias.copy_in(values);
  kernels.linear_forward({y.data(), of_y}, x.data(), weight.data(), bias.data() + floats_before,
                         nullptr, R, I, O);
  std::vector<float> rows(static_cast<std::size_t>(R * O));
  y.copy_out(rows);
  if (of_y == Precision::f32) return rows;
  std::vector<std::uint16_t> bits(rows.size());
  std::memcpy(bits.data(), rows.data(), bits.size() * sizeof bits[0]);
  std::ranges::transform(bits, rows.begin(), from_bf16);
  return rows;
}

TEST_F(LibrariesTest, ABiasIsAddedWhereverItStandsAndWhateverTheProductTakes) {
  for (const Precision mode : {Precision::f32, Precision::bf16}) {
    const auto kernels = make_cuda_kernels(device(mode));
    for (const Precision of_y : {Precision::f32, mode}) {
      for (const bool refused : {false, true}) {
        for (const std::int64_t floats_before : {0, 1}) {
          emulation::refuse_epilogue(CUBLASLT_EPILOGUE_BIAS, refused);
          const auto y = biased_rows(*kernels, of_y, floats_before);
          emulation::refuse_epilogue(CUBLASLT_EPILOGUE_BIAS, false);
          EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 1, 2, 3}));
        }
      }
    }
  }
}

TEST_F(LibrariesTest, DeterministicModeAsksCudnnForIt) {
  for (const bool deterministic : {false, true}) {
    const auto kernels = make_cuda_kernels(device(Precision::bf16, deterministic));
    constexpr std::int64_t B = 1, T = 3, C = 16, NH = 2;
    const Buffer qkv(*kernels, B * T * 3 * C), out(*kernels, B * T * C), log_sum(*kernels, NH * T);
    kernels->attention_forward(out.data(), log_sum.data(), qkv.data(), true, B, T, C, NH);
    kernels->attention_backward(qkv.data(), out.data(), out.data(), log_sum.data(), qkv.data(),
                                true, B, T, C, NH);
    const auto attentions = emulation::take_attentions();
    ASSERT_EQ(attentions.size(), 2U);
    EXPECT_EQ(attentions[1].deterministic, deterministic);
    EXPECT_EQ(attentions[1].dim, (std::vector<std::int64_t>{B, NH, T, C / NH}));
    EXPECT_EQ(attentions[1].stride, (std::vector<std::int64_t>{T * 3 * C, C / NH, 3 * C, 1}));
  }
}

TEST_F(LibrariesTest, HeadsThatAreTooWideAreRefused) {
  const auto kernels = make_cuda_kernels(device(Precision::f32));
  for (const std::int64_t C : {1520, 1521}) {
    const Buffer qkv(*kernels, 3 * C), d_qkv(*kernels, 3 * C), out(*kernels, C);
    const Buffer log_sum(*kernels, 1);
    const auto run = [&] {
      kernels->attention_forward(out.data(), log_sum.data(), qkv.data(), true, 1, 1, C, 1);
      kernels->attention_backward(d_qkv.data(), out.data(), out.data(), log_sum.data(), qkv.data(),
                                  true, 1, 1, C, 1);
    };
    if (C <= 1520) {
      EXPECT_NO_THROW(run());
    } else {
      EXPECT_THROW(run(), Error);
    }
  }
}

TEST_F(LibrariesTest, AttentionGoesToTheOwnKernelWhereCudnnHasNone) {
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  emulation::refuse_attention(true);
  constexpr std::int64_t B = 1, T = 3, C = 16, NH = 2;
  const Buffer qkv(*kernels, B * T * 3 * C), out(*kernels, B * T * C), log_sum(*kernels, NH * T);
  kernels->attention_forward(out.data(), log_sum.data(), qkv.data(), true, B, T, C, NH);
  kernels->attention_backward(qkv.data(), out.data(), out.data(), log_sum.data(), qkv.data(), true,
                              B, T, C, NH);
  emulation::refuse_attention(false);
  EXPECT_TRUE(emulation::take_attentions().empty());
  std::vector<float> logs(NH * T);
  log_sum.copy_out(logs);
  // Scores of zero: the log of how many keys are seen.
  EXPECT_NEAR(logs[2], std::log(3.0F), 1e-6);
}

// Weights of ones behind some parameters; the same again after `change`; what y is then for x of
// ones.
template <typename Change>
float product_after(Kernels& kernels, std::int64_t before, const Change& change) {
  constexpr std::int64_t R = 1, I = 4, O = 8;
  const Buffer x(kernels, R * I), parameters(kernels, before + I * O + O), y(kernels, R * O);
  x.copy_in(std::vector<float>(R * I, 1));
  parameters.copy_in(std::vector<float>(static_cast<std::size_t>(parameters.size()), 1));
  kernels.round_parameters({parameters.data(), static_cast<std::size_t>(parameters.size())});
  change(parameters);
  const float* weight = parameters.data() + before;
  kernels.linear_forward(kernels.compact(y.data()), x.data(), weight, weight + I * O, nullptr, R, I,
                         O);
  std::vector<float> rows(R * O);
  y.copy_out(rows);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(rows[0]) & 0xFFFF0000U);
}

TEST_F(LibrariesTest, ParametersAreRoundedOnceAPass) {
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  // Nobody is told of this: the product has what was rounded, if that is aligned.
  const auto unseen = [&](const Buffer& parameters) {
    kernels->clear(parameters.data(), parameters.size());
  };
  EXPECT_EQ(product_after(*kernels, 0, unseen), 5);
  EXPECT_EQ(product_after(*kernels, 16, unseen), 5);
  EXPECT_EQ(product_after(*kernels, 3, unseen), 0);

  const auto copied = [](const Buffer& parameters) {
    parameters.copy_in(std::vector<float>(static_cast<std::size_t>(parameters.size()), 2));
  };
  EXPECT_EQ(product_after(*kernels, 0, copied), 10);
}

TEST_F(LibrariesTest, OptimizersChangeWhatProductsRound) {
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  const auto moved = [&](const auto& step) {
    return product_after(*kernels, 0, [&](const Buffer& parameters) {
      const Buffer gradients(*kernels, parameters.size()), first(*kernels, parameters.size()),
          second(*kernels, parameters.size());
      step(parameters.data(), gradients.data(), first.data(), second.data(), parameters.size());
    });
  };
  // Half of each parameter decays.
  EXPECT_EQ(moved([&](float* p, float* g, float* m, float* v, std::int64_t count) {
              kernels->adamw(p, g, m, v, {1, 0.9F, 0.9F, 1e-8F, 0.5F, 1, 1}, count);
            }),
            2.5F);
  EXPECT_EQ(moved([&](float* p, float* g, float* m, float*, std::int64_t count) {
              kernels->sgd(p, g, m, {1, 0.9F, 0.5F, 1}, count);
            }),
            2.5F);
}

TEST_F(LibrariesTest, WhatSeveralProductsTakeIsRoundedOnce) {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const auto kernels = make_cuda_kernels(device(precision));
    const Buffer x(*kernels, 8), room(*kernels, 8);
    const ConstNumbers rounded = kernels->rounded(x.data(), room.data(), 8);
    EXPECT_EQ(rounded.precision, precision);
    EXPECT_EQ(rounded.data, precision == Precision::f32 ? x.data() : room.data());
  }
}

TEST_F(LibrariesTest, WhatHasNoAlgorithmIsDoneWithoutItsEpilogue) {
  for (const auto status : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE}) {
    const auto kernels = make_cuda_kernels(device(Precision::bf16));
    fail_next("cublasLtMatmulAlgoGetHeuristic", status);
    EXPECT_EQ(biased_rows(*kernels, Precision::bf16, 0), (std::vector<float>{1, 2, 3, 1, 2, 3}));
    EXPECT_EQ(emulation::take_products()[0].epilogue, CUBLASLT_EPILOGUE_DEFAULT);
  }
}

// [rows, 8] times [8, 8] to f32; transposed from the left, [8, rows] times [rows, 8].
void multiply_rows(Kernels& kernels, std::int64_t rows, Transpose transpose = Transpose::neither) {
  const bool left = transpose == Transpose::left;
  const std::int64_t many = std::max<std::int64_t>(rows * 8, 64);
  const Buffer a(kernels, many), b(kernels, many), c(kernels, many);
  kernels.matmul(c.data(), a.data(), b.data(), transpose, false, left ? 8 : rows, 8,
                 left ? rows : 8);
}

// The choice that each product since the last call has had.
std::vector<std::size_t> taken_choices() {
  std::vector<std::size_t> choices;
  for (const auto& product : emulation::take_products()) choices.push_back(product.choice);
  return choices;
}

TEST_F(LibrariesTest, AnAlgorithmIsAskedForOnceFor128RowsOfTokens) {
  for (const Transpose transpose : {Transpose::neither, Transpose::right, Transpose::left}) {
    const auto kernels = make_cuda_kernels(device(Precision::bf16));
    emulation::take_choices();
    for (const std::int64_t rows : {1, 5, 128, 37}) multiply_rows(*kernels, rows, transpose);
    EXPECT_EQ(emulation::take_choices(), 1);
    for (const std::int64_t rows : {129, 256}) multiply_rows(*kernels, rows, transpose);
    EXPECT_EQ(emulation::take_choices(), 1);
  }
}

TEST_F(LibrariesTest, AnAlgorithmThatRefusesRowsIsReplacedForThese) {
  for (const auto status : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE}) {
    const auto kernels = make_cuda_kernels(device(Precision::bf16));
    emulation::take_choices();
    fail_next("cublasLtMatmul", status);
    EXPECT_EQ(biased_rows(*kernels, Precision::bf16, 0), (std::vector<float>{1, 2, 3, 1, 2, 3}));
    EXPECT_EQ(emulation::take_choices(), 2);
    EXPECT_EQ(emulation::take_products()[0].epilogue, CUBLASLT_EPILOGUE_BIAS);
  }
}

TEST_F(LibrariesTest, TheFastestAlgorithmIsTakenUnlessRunsAreToBeTheSame) {
  emulation::offer_algorithms({3, -1, 1, 2});
  for (const bool deterministic : {false, true}) {
    const auto kernels = make_cuda_kernels(device(Precision::bf16, deterministic));
    multiply_rows(*kernels, 6);
    const auto tried = taken_choices();
    EXPECT_EQ(tried.back(), deterministic ? 0U : 2U);
    EXPECT_EQ(tried.size() > 1, !deterministic);
    multiply_rows(*kernels, 7);
    EXPECT_EQ(taken_choices(), (std::vector<std::size_t>{deterministic ? 0U : 2U}));
  }
}

TEST_F(LibrariesTest, TryingAlgorithmsChangesNoResult) {
  emulation::offer_algorithms({2, 1});
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  constexpr std::int64_t R = 6, I = 8, O = 8;
  const Buffer x(*kernels, R * I), d_y(*kernels, R * O), d_weight(*kernels, I * O);
  x.copy_in(std::vector<float>(R * I, 1));
  d_y.copy_in(std::vector<float>(R * O, 1));
  d_weight.copy_in(std::vector<float>(I * O, 0.5F));
  const Buffer d_bias(*kernels, O);
  kernels->linear_backward_weight(d_weight.data(), d_bias.data(), x.data(), d_y.data(), R, I, O);
  std::vector<float> sums(I * O);
  d_weight.copy_out(sums);
  EXPECT_EQ(sums, std::vector<float>(I * O, 6.5F)) << "added to once";
}

TEST_F(LibrariesTest, WithoutMemoryToTryAlgorithmsTheFirstIsTaken) {
  emulation::offer_algorithms({2, 1});
  const auto kernels = make_cuda_kernels(device(Precision::f32));
  const Buffer a(*kernels, 64), b(*kernels, 64), c(*kernels, 64);
  const auto multiply = [&](std::int64_t k) {
    kernels->matmul(c.data(), a.data(), b.data(), Transpose::neither, false, 8, 8, k);
  };
  // Takes the workspace.
  multiply(8);
  taken_choices();
  fail_next("cudaMalloc", cudaErrorMemoryAllocation);
  multiply(4);
  EXPECT_EQ(taken_choices(), (std::vector<std::size_t>{0}));
  fail_next("cudaMalloc", cudaErrorIllegalAddress);
  EXPECT_THROW(multiply(2), Error);
}

TEST_F(LibrariesTest, NoTimeGoesToTryingWhereRowsChangeAllTheTime) {
  emulation::offer_algorithms({2, 1});
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  for (std::int64_t rows = 1; rows <= 4 * 128; rows += 128) multiply_rows(*kernels, rows);
  taken_choices();
  multiply_rows(*kernels, 1 + 4 * 128);
  EXPECT_EQ(taken_choices(), (std::vector<std::size_t>{0}));
  multiply_rows(*kernels, 1);
  EXPECT_EQ(taken_choices(), (std::vector<std::size_t>{1}));
}

// On images of ones and weights of zero: what y and the weight's gradient become.
std::pair<float, float> embed_patches(Kernels& kernels, const PatchShape& shape) {
  const Buffer images(kernels, shape.pixels()), patches(kernels, shape.R() * shape.I());
  const Buffer weight(kernels, shape.I() * shape.O), bias(kernels, shape.O);
  const Buffer y(kernels, shape.outputs());
  images.copy_in(std::vector<float>(static_cast<std::size_t>(shape.pixels()), 1));
  bias.copy_in(std::vector<float>(static_cast<std::size_t>(shape.O), 0.5F));
  kernels.patch_embedding_forward(y.data(), patches.data(), images.data(), weight.data(),
                                  bias.data(), shape);
  kernels.patch_embedding_backward(weight.data(), bias.data(), patches.data(), images.data(),
                                   y.data(), shape);
  std::vector<float> first(2);
  y.copy_out(std::span(first).first(1));
  weight.copy_out(std::span(first).last(1));
  return {first[0], first[1]};
}

TEST_F(LibrariesTest, PatchesAreEmbeddedByOneConvolution) {
  constexpr PatchShape kShape{.B = 2, .channels = 3, .side = 8, .patch = 4, .O = 16};
  for (const bool deterministic : {false, true}) {
    const auto kernels = make_cuda_kernels(device(Precision::bf16, deterministic));
    EXPECT_EQ(embed_patches(*kernels, kShape), (std::pair{0.5F, 0.5F * 8}));
    const auto convolutions = emulation::take_convolutions();
    ASSERT_EQ(convolutions.size(), 2U);
    for (const auto& each : convolutions) {
      EXPECT_EQ(each.deterministic, deterministic);
      EXPECT_EQ(each.image, (std::vector<std::int64_t>{2, 3, 8, 8}));
      EXPECT_EQ(each.image_stride, (std::vector<std::int64_t>{192, 1, 24, 3}));
      EXPECT_EQ(each.filter, (std::vector<std::int64_t>{16, 3, 4, 4}));
      EXPECT_EQ(each.filter_stride, (std::vector<std::int64_t>{48, 1, 12, 3}));
      EXPECT_EQ(each.window_stride, (std::vector<std::int64_t>{4, 4}));
    }
    EXPECT_FALSE(convolutions[0].backward);
    EXPECT_TRUE(convolutions[1].backward);
    EXPECT_TRUE(emulation::take_products().empty());
  }
}

TEST_F(LibrariesTest, PatchesAreCutAndMultipliedWhereCudnnHasNoConvolution) {
  constexpr PatchShape kShape{.B = 2, .channels = 3, .side = 8, .patch = 4, .O = 16};
  emulation::refuse_convolution(true);
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  EXPECT_EQ(embed_patches(*kernels, kShape), (std::pair{0.5F, 0.5F * 8}));
  emulation::refuse_convolution(false);
  EXPECT_TRUE(emulation::take_convolutions().empty());
  EXPECT_EQ(emulation::take_products().size(), 2U);
}

template <typename Act>
std::string failure_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST_F(LibrariesTest, EveryFailureIsAnErrorThatSaysWhatWasBeingDone) {
  const auto kernels = make_cuda_kernels(device(Precision::bf16));
  const auto linear = [&] { run_linear(*kernels, 2, 8, 8); };
  const auto attention = [&] {
    const Buffer qkv(*kernels, 3 * 8), out(*kernels, 8), log_sum(*kernels, 1);
    kernels->attention_forward(out.data(), log_sum.data(), qkv.data(), true, 1, 1, 8, 1);
  };
  const auto make = [] { make_cuda_kernels(device(Precision::bf16)); };
  const auto allocate = [&] { Buffer(*kernels, 1000); };
  fail_next("cudaMalloc", cudaErrorMemoryAllocation);
  EXPECT_EQ(failure_of(allocate),
            "the GPU failed while taking 4000 bytes of its memory: out of memory");
  fail_next("cudaLaunchKernelEx", cudaErrorIllegalAddress);
  EXPECT_EQ(failure_of(allocate),
            "the GPU failed while clearing: an illegal memory access was encountered");
  fail_next("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(failure_of(linear),
            "cuBLASLt failed while multiplying: CUBLAS_STATUS_EXECUTION_FAILED");
  fail_next("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_NE(failure_of([&] { run_linear(*kernels, 2, 16, 8); }).find("choosing an algorithm"),
            std::string::npos);
  emulation::refuse_epilogue(CUBLASLT_EPILOGUE_BIAS, true);
  emulation::refuse_epilogue(CUBLASLT_EPILOGUE_DEFAULT, true);
  EXPECT_NE(failure_of([&] { run_linear(*kernels, 3, 16, 8); }).find("no algorithm for [3, 16]"),
            std::string::npos);
  emulation::refuse_epilogue(CUBLASLT_EPILOGUE_BIAS, false);
  emulation::refuse_epilogue(CUBLASLT_EPILOGUE_DEFAULT, false);
  fail_next("execute", 1);
  EXPECT_EQ(failure_of(attention), "cuDNN failed while running attention: execution failed");
  fail_next("cudnnCreate", CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(failure_of(make), "cuDNN failed while starting: CUDNN_STATUS_NOT_INITIALIZED");
  fail_next("cudaEventQuery", cudaErrorIllegalAddress);
  EXPECT_NE(failure_of([] { static_cast<void>(cuda::Event().reached()); }).find("illegal"),
            std::string::npos);
}

TEST(Devices, SayWhyThereAreNone) {
  EXPECT_EQ(cuda_devices(), 1);
  EXPECT_EQ(why_no_cuda(), "");
  EXPECT_EQ(gpu_address(0), "0000:01:00.0");
  EXPECT_NE(failure_of([] {
              make_kernels({.kind = Device::Kind::cuda, .index = 1});
            }).find("GPU 1 is asked for, and this process sees 1"),
            std::string::npos);
  emulation::set_devices(0, cudaErrorInsufficientDriver);
  EXPECT_EQ(why_no_cuda(), "CUDA driver version is insufficient for CUDA runtime version");
  EXPECT_EQ(failure_of([] { make_kernels({.kind = Device::Kind::cuda}); }),
            "device cuda cannot be used here: CUDA driver version is insufficient for CUDA runtime "
            "version; use --device cpu or auto");
  emulation::set_devices(0, cudaSuccess);
  EXPECT_EQ(why_no_cuda(), "no GPU is visible");
  emulation::set_devices(1, cudaSuccess);
}

TEST(Profiling, ShowsItsRangesToNvidiasProfilers) {
  make_cuda_kernels(device(Precision::f32));
  start_profiling();
  nvtx_ranges.clear();
  { const ProfileRange range("a step"); }
  EXPECT_EQ(nvtx_ranges, (std::vector<std::string>{"a step", "end"}));
}

TEST(Staging, WrapsAroundAfterWaiting) {
  const auto kernels = make_cuda_kernels(device(Precision::f32));
  // Together more than the ring holds; one alone is too.
  for (const std::int64_t count : {700'000, 700'001, 1'100'000}) {
    const Buffer buffer(*kernels, count);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
    auto given = values;
    buffer.copy_in(given);
    given.assign(given.size(), -1.0F);
    std::vector<float> now(values.size());
    buffer.copy_out(now);
    EXPECT_EQ(now, values);
  }
}

class MoverTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Kernels> kernels_ =
      GetParam() ? make_cuda_kernels(device(Precision::f32)) : make_cpu_kernels(1);
};
INSTANTIATE_TEST_SUITE_P(Devices, MoverTest, testing::Bool());

TEST_P(MoverTest, TakesRangesAsTheyAreNow) {
  const auto mover = kernels_->make_mover({});
  const Buffer flat(*kernels_, 6);
  EXPECT_EQ(mover->taken(), nullptr);
  for (const float first : {10.0F, 20.0F}) {
    flat.copy_in(std::vector<float>{first, first + 1, first + 2, first + 3, first + 4, first + 5});
    mover->take(0, flat.data(), std::vector<Part>{{4, 2}, {0, 1}, {2, 1}}, false);
    kernels_->clear(flat.data(), 6);
    std::shared_ptr<const HostArray> taken;
    while ((taken = mover->taken()) == nullptr) {
    }
    const std::vector<float> values(taken->values().begin(), taken->values().end());
    EXPECT_EQ(values, (std::vector<float>{first + 4, first + 5, first, first + 2}));
    EXPECT_EQ(mover->taken(), nullptr);
  }
}

TEST_P(MoverTest, HandsOutMemoryThatNobodyElseHolds) {
  const auto mover = kernels_->make_mover({});
  const Buffer flat(*kernels_, 2);
  const auto take = [&](float value, std::int64_t size) {
    flat.copy_in(std::vector<float>(2, value));
    mover->take(0, flat.data(), std::vector<Part>{{0, size}}, false);
    std::shared_ptr<const HostArray> taken;
    while ((taken = mover->taken()) == nullptr) {
    }
    return taken;
  };
  auto first = take(1, 1);
  const auto second = take(2, 1);
  EXPECT_EQ(first->values()[0], 1);
  EXPECT_EQ(second->values()[0], 2);
  first.reset();
  const auto third = take(3, 2);  // larger than what is free
  EXPECT_EQ(third->values()[1], 3);
  EXPECT_EQ(second->values()[0], 2);
}

TEST_P(MoverTest, PutsRangesOneAfterTheOther) {
  const auto mover = kernels_->make_mover({});
  const Buffer flat(*kernels_, 6);
  flat.copy_in(std::vector<float>{0, 1, 2, 3, 4, 5});
  std::vector<float> values = {70, 80, 90};
  mover->put(0, flat.data(), std::vector<Part>{{3, 2}, {0, 1}}, Encoding::f32,
             std::as_bytes(std::span(values)));
  values.assign(3, -1);
  const std::vector<float> more = {60};
  mover->put(1, flat.data(), std::vector<Part>{{5, 1}}, Encoding::f32,
             std::as_bytes(std::span(more)));
  std::vector<float> now(6);
  flat.copy_out(now);
  EXPECT_EQ(now, (std::vector<float>{90, 1, 2, 70, 80, 60}));
}

TEST_P(MoverTest, PutsWhatGoesOverTheBusInPieces) {
  constexpr std::int64_t kCount = (1 << 20) + 3;
  const auto mover = kernels_->make_mover({});
  const Buffer flat(*kernels_, kCount);
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 100'003);
  mover->put(0, flat.data(), std::vector<Part>{{0, kCount}}, Encoding::f32,
             std::as_bytes(std::span(values)));
  std::vector<float> now(kCount);
  flat.copy_out(now);
  EXPECT_EQ(now, values);
}

}  // namespace
}  // namespace archipelago::kernels
