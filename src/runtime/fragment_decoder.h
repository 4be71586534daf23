#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "fragment/codec.h"
#include "link/message.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// A fragment as the syncer published it, encoded as Wire::whole() says.
struct WholeFragment {
  link::DownHeader header;
  std::shared_ptr<link::Bytes> data;  // shared with whoever keeps it: nobody changes it
};

// Turns what comes down into whole fragments: an update is added to what came of the fragment
// before. What comes out has been checked to be, bit for bit, what the syncer published.
// Thread-safe.
class FragmentDecoder {
 public:
  FragmentDecoder(const Wire& wire, int fragments, int threads);

  // `message`: a fragment as the link gave it. Nothing when it is an update from another version
  // than the one that came last: the syncer, which reads in reports what is missing, will send it
  // whole.
  std::optional<WholeFragment> decode(link::DownMessage message);

 private:
  struct Held {
    std::uint64_t checksum = 0;
    std::shared_ptr<const link::Bytes> data;
  };

  std::shared_ptr<link::Bytes> advance(const link::DownMessage& message, const Held& held) const;

  std::mutex mutex_;
  Wire wire_;
  fragment::Codec codec_;
  std::vector<Held> held_;  // (P) what came last; where updates travel
};

}  // namespace archipelago::runtime
