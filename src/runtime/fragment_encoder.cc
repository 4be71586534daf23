#include "runtime/fragment_encoder.h"

#include <utility>

#include "core/error.h"

namespace archipelago::runtime {

FragmentEncoder::FragmentEncoder(const Wire& wire, int fragments, int threads)
    : wire_(wire), codec_(threads), residuals_(static_cast<std::size_t>(fragments)) {}

std::span<const std::byte> FragmentEncoder::encode(link::FragmentHeader& header,
                                                   std::span<const float> values,
                                                   std::optional<std::uint64_t> checksum,
                                                   const link::Bytes* base, link::Bytes& buffer) {
  const std::lock_guard lock(mutex_);
  header.encoding = static_cast<std::int32_t>(wire_.up);
  if (!wire_.differences()) {
    const auto bytes = std::as_bytes(values);
    header.checksum =
        checksum ? *checksum : kernels::wire_checksum(wire_.up, bytes.data(), std::ssize(values));
    return bytes;
  }

  if (header.learner != learner_ || header.incarnation != incarnation_) {
    for (auto& residual : residuals_) residual.clear();
    learner_ = header.learner;
    incarnation_ = header.incarnation;
  }
  link::Values scratch;
  const auto origin = codec_.read(wire_.whole(), *base, header.elements, scratch);
  if (!origin) throw Error(ExitCode::internal, "a fragment's base is not of the fragment");
  std::span<float> residual;
  if (fragment::has_error_feedback(wire_.up)) {
    auto& kept = residuals_.at(static_cast<std::size_t>(header.fragment));
    kept.resize(values.size());
    residual = kept;
  }
  auto encoded = codec_.encode(wire_.up, values, *origin, residual);
  header.checksum = encoded.checksum;
  buffer = std::move(encoded.bytes);
  return buffer;
}

std::span<const std::byte> FragmentEncoder::encode(link::FragmentHeader& header,
                                                   const kernels::HostArray& taken,
                                                   const link::Bytes* base, link::Bytes& buffer) {
  if (!taken.encoding()) return encode(header, taken.values(), taken.checksum(), base, buffer);
  header.encoding = static_cast<std::int32_t>(*taken.encoding());
  header.checksum =
      kernels::wire_checksum(*taken.encoding(), taken.bytes().data(), header.elements);
  return taken.bytes();
}

}  // namespace archipelago::runtime
