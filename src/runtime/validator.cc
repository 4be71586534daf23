#include "runtime/validator.h"

#include <sys/resource.h>

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "core/log.h"

namespace archipelago::runtime {

Validator::Validator(std::function<evaluate::Score(const GlobalState&)> score)
    : score_(std::move(score)) {}

void Validator::start(std::int64_t round, std::int64_t tokens, const GlobalState& state) {
  if (!score_ || running_.valid()) return;
  running_ = std::async(std::launch::async, [this, round, tokens, state] {
    constexpr int kNice = 10;  // of this thread alone
    ::setpriority(PRIO_PROCESS, 0, kNice);
    return Result{round, tokens, score_(state)};
  });
}

std::optional<Validator::Result> Validator::take(double seconds) {
  if (!running_.valid() ||
      running_.wait_for(std::chrono::duration<double>(seconds)) != std::future_status::ready) {
    return std::nullopt;
  }
  try {
    return running_.get();
  } catch (const std::exception& error) {
    log_warning(std::string("could not work out a validation loss: ") + error.what());
    return std::nullopt;
  }
}

}  // namespace archipelago::runtime
