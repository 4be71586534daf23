#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "fragment/codec.h"
#include "kernels/mover.h"
#include "link/message.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// Turns a learner's copies of fragments into what goes up: with differences, what it has changed
// since it received the fragment, and what the encoding lost of the same fragment before. That is
// forgotten with the life. Thread-safe.
class FragmentEncoder {
 public:
  FragmentEncoder(const Wire& wire, int fragments, int threads);

  // Sets header.encoding and header.checksum. The result is `values` itself or stands in `buffer`.
  // `checksum`: of the values, where it was taken with them. `base`: with differences the data,
  // whole, of the version that header.base_version names.
  std::span<const std::byte> encode(link::FragmentHeader& header, std::span<const float> values,
                                    std::optional<std::uint64_t> checksum, const link::Bytes* base,
                                    link::Bytes& buffer);

  // The same of what has been taken from a device, which may have encoded it: then it goes as it
  // is.
  std::span<const std::byte> encode(link::FragmentHeader& header, const kernels::HostArray& taken,
                                    const link::Bytes* base, link::Bytes& buffer);

 private:
  std::mutex mutex_;
  Wire wire_;
  fragment::Codec codec_;
  int learner_ = -1;  // whose life the residuals are of
  int incarnation_ = -1;
  std::vector<link::Values> residuals_;  // (P) made when first needed
};

}  // namespace archipelago::runtime
