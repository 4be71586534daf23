#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;

class ImagesTest : public KernelTest {
 protected:
  struct Embedded {
    TestArray images, weight, bias, y, patches;
  };

  // Random images after the forward pass.
  Embedded embed(const PatchShape& shape) {
    Embedded e{random_array(shape.pixels()), random_array(shape.I() * shape.O),
               random_array(shape.O), random_array(shape.outputs()),
               random_array(shape.R() * shape.I())};
    kernels_->patch_embedding_forward(e.y.data(), e.patches.data(), e.images.data(),
                                      e.weight.data(), e.bias.data(), shape);
    return e;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, ImagesTest, testing::ValuesIn(backends()), backend_name);

// Row by row over the patches, in each over the channels and their rows.
Array embedded_patches(const Array& images, const Array& weight, const Array& bias,
                       const PatchShape& shape) {
  const std::int64_t across = shape.side / shape.patch;
  Array patches;
  for (std::int64_t which = 0; which < shape.R(); ++which) {
    const std::int64_t image = which / shape.T();
    for (std::int64_t i = 0; i < shape.I(); ++i) {
      const std::int64_t channel = i / (shape.patch * shape.patch);
      const std::int64_t y = which / across % across * shape.patch + i / shape.patch % shape.patch;
      const std::int64_t x = which % across * shape.patch + i % shape.patch;
      const std::int64_t row = (image * shape.channels + channel) * shape.side + y;
      patches.push_back(images[static_cast<std::size_t>(row * shape.side + x)]);
    }
  }
  return reference::linear(patches, weight, bias, shape.I());
}

constexpr PatchShape kPatchShapes[] = {
    {.B = 2, .channels = 3, .side = 6, .patch = 2, .O = 8},
    {.B = 3, .channels = 1, .side = 4, .patch = 4, .O = 7},
    {.B = 1, .channels = 2, .side = 9, .patch = 3, .O = 5},
};

TEST_P(ImagesTest, PatchesAreEmbeddedRowByRow) {
  for (const PatchShape& shape : kPatchShapes) {
    const auto [images, weight, bias, y, patches] = embed(shape);
    expect_near(y, embedded_patches(images.start, weight.start, bias.start, shape), tolerance(),
                "y");
  }
}

TEST_P(ImagesTest, PatchEmbeddingsGradients) {
  for (const PatchShape& shape : kPatchShapes) {
    const auto [images, weight, bias, y, patches] = embed(shape);
    const auto d_y = random_array(shape.outputs());
    const auto d_weight = random_array(shape.I() * shape.O);
    const auto d_bias = random_array(shape.O);
    kernels_->patch_embedding_backward(d_weight.data(), d_bias.data(), patches.data(),
                                       images.data(), d_y.data(), shape);
    const auto by_weight = [&](const Array& changed) {
      return reference::dot(embedded_patches(images.start, changed, bias.start, shape), d_y.start);
    };
    const auto by_bias = [&](const Array& changed) {
      return reference::dot(embedded_patches(images.start, weight.start, changed, shape),
                            d_y.start);
    };
    expect_added(d_weight, reference::numeric_gradient(by_weight, weight.start), tolerance(),
                 "d_weight");
    expect_added(d_bias, reference::numeric_gradient(by_bias, bias.start), tolerance(), "d_bias");
  }
}

TEST_P(ImagesTest, PositionsAreAddedAndTheirGradientSummed) {
  constexpr std::int64_t B = 3, T = 5, C = 7;
  const auto x = random_array(B * T * C);
  const auto table = random_array(T * C);
  Array repeated;
  for (std::int64_t i = 0; i < B * T * C; ++i) repeated.push_back(table.start[i % (T * C)]);
  kernels_->add_positions(x.data(), table.data(), B, T, C);
  expect_added(x, repeated, tolerance(), "x");

  const auto d_x = random_array(B * T * C);
  Array sums(T * C, 0.0);
  for (std::int64_t i = 0; i < B * T * C; ++i) sums[i % (T * C)] += d_x.start[i];
  kernels_->add_positions_backward(table.data(), d_x.data(), B, T, C);
  expect_added(table, sums, tolerance(), "d_table");
}

TEST_P(ImagesTest, MeanOverPositionsAndItsGradient) {
  constexpr std::int64_t B = 3, T = 5, C = 7;
  const auto x = random_array(B * T * C);
  const auto y = random_array(B * C);
  const auto mean = [&](const Array& in) {
    Array out(B * C, 0.0);
    for (std::int64_t i = 0; i < B * T * C; ++i) {
      out[i / (T * C) * C + i % C] += in[i] / static_cast<double>(T);
    }
    return out;
  };
  kernels_->mean_positions(y.data(), x.data(), B, T, C);
  expect_near(y, mean(x.start), tolerance(), "y");

  const auto d_y = random_array(B * C);
  const auto d_x = random_array(B * T * C);
  kernels_->mean_positions_backward(d_x.data(), d_y.data(), B, T, C);
  const auto loss = [&](const Array& in) { return reference::dot(mean(in), d_y.start); };
  expect_near(d_x, reference::numeric_gradient(loss, x.start), tolerance(), "d_x");
}

}  // namespace
}  // namespace archipelago::kernels
