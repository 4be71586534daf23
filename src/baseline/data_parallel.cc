#include "baseline/data_parallel.h"

#include "baseline/conclude.h"
#include "runtime/clock.h"

namespace archipelago::baseline {
namespace {

// Large enough to fill a link, small enough that most of a model leaves before backward ends.
constexpr std::int64_t kBucketElements = (1 << 20) / sizeof(float);

}  // namespace

DataParallel::DataParallel(const runtime::Setup& setup, runtime::LearnerState& state,
                           Averager& averager)
    : setup_(setup), state_(state), averager_(averager) {
  state_.watch_gradients([this](std::int64_t from) {
    if (unsent_end_ - from >= kBucketElements) start_ready(from);
  });
}

void DataParallel::step(std::int64_t) {
  unsent_end_ = setup_.parameters;
  state_.step([this](std::span<float> values) {
    // Means of the loss are for people only: not worth another turn round the ring.
    if (values.data() != state_.gradients().data()) return;
    const double started = runtime::now_seconds();
    start_ready(0);
    averager_.wait(last_mean_);
    blocked_seconds_ += runtime::now_seconds() - started;
  });
}

void DataParallel::start_ready(std::int64_t from) {
  last_mean_ = averager_.start(state_.gradients().subspan(
      static_cast<std::size_t>(from), static_cast<std::size_t>(unsent_end_ - from)));
  unsent_end_ = from;
}

checkpoint::Global DataParallel::result() const { return state_of(setup_, state_.parameters()); }

}  // namespace archipelago::baseline
