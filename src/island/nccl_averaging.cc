#include "island/nccl_averaging.h"

#include <utility>

namespace archipelago::island {

NcclAveraging::NcclAveraging(std::unique_ptr<NcclGroup> group, cudaStream_t compute,
                             std::size_t bucket)
    : group_(std::move(group)), compute_(compute), bucket_(bucket) {}

void NcclAveraging::ready(std::span<float> tail) {
  const std::size_t waiting = tail.size() - sent_;
  if (waiting >= bucket_) send(tail.first(waiting));
}

void NcclAveraging::send(std::span<float> bucket) {
  made_.record(compute_);
  made_.hold(stream_.get());
  group_->all_reduce_mean(bucket, stream_.get());
  sent_ += bucket.size();
}

// Waits here and not in the next kernel's stream: a peer that dies leaves a kernel that never ends.
void NcclAveraging::finish(std::span<float> gradients) {
  if (sent_ < gradients.size()) send(gradients.first(gradients.size() - sent_));
  sent_ = 0;
  averaged_.record(stream_.get());
  group_->wait([this] { return averaged_.reached(); }, "averaging gradients");
}

}  // namespace archipelago::island
