#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runtime/run_folder.h"
#include "runtime/run_record.h"

namespace archipelago::emulate {

// What an emulated run has to do with the world, in real time: it can be asked to end early, and
// says how far it is.
class Outside {
 public:
  // References must outlive it.
  Outside(const runtime::RunFolder& folder, runtime::RunRecord& record);

  // To be called again and again: about every second writes the status that `status` makes. Returns
  // who asks the run to end early, where somebody does.
  std::optional<std::string> turn(const std::function<nlohmann::json()>& status);

 private:
  using Clock = std::chrono::steady_clock;

  const runtime::RunFolder& folder_;
  runtime::RunRecord& record_;
  Clock::time_point next_look_;
  Clock::time_point next_status_;
};

// status.json of an emulated run (docs/design.md, "A run's folder"), without what only a syncer
// knows: that is added to it. `seconds`: of virtual time.
nlohmann::json emulated_status(const std::string& state, double seconds, std::int64_t tokens,
                               std::int64_t token_budget, nlohmann::json learners);

}  // namespace archipelago::emulate
