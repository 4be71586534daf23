#include "emulate/outside.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/file.h"
#include "runtime/signals.h"

namespace archipelago::emulate {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::seconds kStatus{1};

}  // namespace

Outside::Outside(const runtime::RunFolder& folder, runtime::RunRecord& record)
    : folder_(folder), record_(record) {}

std::optional<std::string> Outside::turn(const std::function<nlohmann::json()>& status) {
  const auto now = Clock::now();
  if (now < next_look_) return std::nullopt;
  next_look_ = now + kLook;
  if (now >= next_status_) {
    next_status_ = now + kStatus;
    record_.write_status(status());
  }
  if (auto whose = folder_.take_stop()) return whose;
  return runtime::signal_request();
}

nlohmann::json emulated_status(const std::string& state, double seconds, std::int64_t tokens,
                               std::int64_t token_budget, nlohmann::json learners) {
  return {{"state", state},
          {"round", 0},
          {"virtual_s", seconds},
          {"syncer", {{"host", host_name()}, {"pid", ::getpid()}, {"term", 0}}},
          {"learners", std::move(learners)},
          {"tokens", tokens},
          {"token_budget", token_budget},
          {"losses", 0},
          {"rejoins", 0}};
}

}  // namespace archipelago::emulate
