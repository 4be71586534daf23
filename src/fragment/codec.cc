#include "fragment/codec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace archipelago::fragment {

Encoding encoding_named(std::string_view name) {
  if (name == "f32") return Encoding::f32;
  if (name == "bf16") return Encoding::bf16;
  if (name == "int8") return Encoding::int8;
  if (name == "e3m0") return Encoding::e3m0;
  throw Error(ExitCode::configuration, "there is no wire encoding '" + std::string(name) + "'");
}

Codec::Encoded Codec::encode(Encoding encoding, std::span<const float> values,
                             std::span<const float> base, std::span<float> residual) const {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> bytes(static_cast<std::size_t>(encoded_size(encoding, count)));
  const std::uint64_t sum =
      kernels_->encode(encoding, bytes.data(), values.data(), base.empty() ? nullptr : base.data(),
                       residual.empty() ? nullptr : residual.data(), count);
  return {std::move(bytes), sum};
}

std::optional<std::span<const float>> Codec::read(Encoding encoding,
                                                  std::span<const std::byte> bytes,
                                                  std::int64_t count,
                                                  std::vector<float>& scratch) const {
  if (static_cast<std::int64_t>(bytes.size()) != encoded_size(encoding, count)) return std::nullopt;
  const auto size = static_cast<std::size_t>(count);
  if (encoding == Encoding::f32) {
    return std::span(reinterpret_cast<const float*>(bytes.data()), size);
  }
  scratch.resize(size);
  kernels_->decode(encoding, scratch.data(), nullptr, bytes.data(), count);
  return std::span<const float>(scratch);
}

std::optional<std::vector<std::byte>> Codec::advance(Encoding whole,
                                                     std::span<const std::byte> before,
                                                     Encoding encoding,
                                                     std::span<const std::byte> update,
                                                     std::int64_t count) const {
  std::vector<float> values(static_cast<std::size_t>(count));
  if (!decode(whole, before, {}, values) || !decode(encoding, update, values, values)) {
    return std::nullopt;
  }
  return encode(whole, values).bytes;
}

bool Codec::decode(Encoding encoding, std::span<const std::byte> bytes, std::span<const float> base,
                   std::span<float> values) const {
  const auto count = static_cast<std::int64_t>(values.size());
  if (static_cast<std::int64_t>(bytes.size()) != encoded_size(encoding, count)) return false;
  kernels_->decode(encoding, values.data(), base.empty() ? nullptr : base.data(), bytes.data(),
                   count);
  return true;
}

Reader::Reader(const Codec& codec, Encoding encoding, std::span<const std::byte> bytes,
               std::int64_t count, std::span<const float> base, std::span<float> values)
    : codec_(&codec),
      encoding_(encoding),
      bytes_(bytes),
      count_(count),
      base_(base),
      values_(values),
      sum_(encoding, bytes.data(), count) {}

std::int64_t Reader::read_part() {
  const std::int64_t end = std::min(read_ + kernels::kWirePart, count_);
  sum_.add_until(end);
  if (!values_.empty()) {
    codec_->kernels_->decode_part(encoding_, values_.data(), base_.empty() ? nullptr : base_.data(),
                                  bytes_.data(), count_, read_);
  }
  return read_ = end;
}

}  // namespace archipelago::fragment
