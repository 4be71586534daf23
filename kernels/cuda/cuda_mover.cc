#include "kernels/cuda/cuda_mover.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/cpu/parallel.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/wire.h"

namespace archipelago::kernels::cuda {
namespace {

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, kind, stream), "moving a fragment");
}

void copy_within(float* to, const float* from, std::int64_t count, cudaStream_t stream) {
  copy(to, from, static_cast<std::size_t>(count) * sizeof(float), cudaMemcpyDeviceToDevice, stream);
}

// On some threads: one alone may take longer than the kernels that are still under way at a step
// boundary.
void copy_on_threads(std::span<std::byte> to, std::span<const std::byte> from) {
  constexpr std::int64_t kGrain = 1 << 20;
  constexpr int kThreads = 4;
  parallel_ranges(std::ssize(from) > kGrain ? kThreads : 1, std::ssize(from), kGrain,
                  [&](int, Range range) {
                    std::copy_n(from.begin() + range.begin, range.size(), to.begin() + range.begin);
                  });
}

// Bytes of a fragment that are on the bus while the next ones are copied to pinned memory.
constexpr std::size_t kPiece = 4 << 20;

}  // namespace

// What is still on its way has to be done with the memory first.
CudaMover::~CudaMover() { cudaStreamSynchronize(copies_.get()); }

std::shared_ptr<HostArray> CudaMover::make_pinned(std::int64_t capacity) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, static_cast<std::size_t>(capacity) * sizeof(float)),
        "taking pinned memory for a fragment of " + std::to_string(4 * capacity) + " bytes");
  return std::make_shared<HostArray>(static_cast<float*>(memory), capacity,
                                     [](float* pinned) { cudaFreeHost(pinned); });
}

void CudaMover::take(int fragment, const float* flat, std::span<const Part> ranges, bool) {
  const std::int64_t count = total_size(ranges);
  out_ = out_pool_.take(count, differences_);
  const std::size_t bytes = out_->bytes().size();
  auto* leaving = out_staging_.reserve<std::byte>(static_cast<std::int64_t>(bytes));
  float* const values =
      differences_ ? values_.reserve<float>(count) : reinterpret_cast<float*>(leaving);
  float* to = values;
  for (const Part& range : ranges) {
    copy_within(to, flat + range.offset, range.size, compute_);
    to += range.size;
  }
  if (differences_) encode_difference(kept_[fragment], leaving, values, count);
  packed_.record(compute_);
  packed_.hold(copies_.get());
  copy(out_->bytes().data(), leaving, bytes, cudaMemcpyDeviceToHost, copies_.get());
  landed_.record(copies_.get());
}

void CudaMover::encode_difference(Kept& kept, std::byte* bytes, const float* values,
                                  std::int64_t count) {
  const float* const base = kept.base.reserve<float>(count);
  const bool in_blocks = is_in_blocks(*differences_);
  float* const residual = in_blocks ? kept.residual.reserve<float>(count) : nullptr;
  encode(compute_, *differences_, bytes, values, base, kept.has_residual ? residual : nullptr,
         residual, count);
  kept.has_residual = in_blocks;
}

void CudaMover::forget_residuals() {
  for (auto& [fragment, kept] : kept_) kept.has_residual = false;
}

std::shared_ptr<const HostArray> CudaMover::taken() {
  if (out_ == nullptr || !landed_.reached()) return nullptr;
  return std::exchange(out_, nullptr);
}

void CudaMover::put(int fragment, float* flat, std::span<const Part> ranges, Encoding encoding,
                    std::span<const std::byte> bytes) {
  const std::int64_t count = total_size(ranges);
  // The copy before may still read its pinned memory: each fragment's is held until then.
  if (!arrived_.reached()) copies_.finish();
  const auto pinned = in_pool_.take(count, encoding);
  auto* staged = in_staging_.reserve<std::byte>(static_cast<std::int64_t>(bytes.size()));
  unpacked_.hold(copies_.get());
  for (std::size_t done = 0; done < bytes.size(); done += kPiece) {
    const std::size_t size = std::min(kPiece, bytes.size() - done);
    const auto piece = pinned->bytes().subspan(done, size);
    copy_on_threads(piece, bytes.subspan(done, size));
    copy(staged + done, piece.data(), size, cudaMemcpyHostToDevice, copies_.get());
  }
  arrived_.record(copies_.get());
  arrived_.hold(compute_);
  const auto* from = reinterpret_cast<const float*>(staged);
  if (differences_ || encoding != Encoding::f32) {
    Scratch& decoded = differences_ ? kept_[fragment].base : values_;
    float* const values = decoded.reserve<float>(count);
    decode(compute_, encoding, values, staged, count);
    from = values;
  }
  for (const Part& range : ranges) {
    copy_within(flat + range.offset, from, range.size, compute_);
    from += range.size;
  }
  unpacked_.record(compute_);
}

}  // namespace archipelago::kernels::cuda
