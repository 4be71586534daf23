#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;

class ImagesTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Backends, ImagesTest, testing::ValuesIn(backends()), backend_name);

TEST_P(ImagesTest, CutsPatchesRowByRow) {
  constexpr std::int64_t B = 2, channels = 3, side = 6, patch = 2, across = side / patch;
  const auto images = random_array(B * channels * side * side);
  const auto patches = random_array(images.buffer.size());
  kernels_->cut_patches(patches.data(), images.data(), B, channels, side, patch);
  Array expected(images.start.size());
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      for (std::int64_t y = 0; y < side; ++y) {
        for (std::int64_t x = 0; x < side; ++x) {
          const std::int64_t which = (b * across + y / patch) * across + x / patch;
          const std::int64_t inside = (channel * patch + y % patch) * patch + x % patch;
          expected[which * channels * patch * patch + inside] =
              images.start[((b * channels + channel) * side + y) * side + x];
        }
      }
    }
  }
  expect_near(patches, expected, 0, "patches");
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
