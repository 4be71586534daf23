#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "core/log.h"
#include "runtime/syncer_process.h"

namespace archipelago::runtime {
namespace {

std::string in_seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

}  // namespace

// Silence is found on a Tick alone; whatever comes may be a suspect's sign of life.
void SyncerProcess::note_silences(const sync::Event& event) {
  if (!std::holds_alternative<sync::Tick>(event) && !silences_.any()) return;
  for (const auto& change : silences_.update(machine_.learners(), elapsed_ns())) {
    const auto& view = machine_.learners()[static_cast<std::size_t>(change.learner)];
    const std::string name =
        "learner " + std::to_string(change.learner) + " (life " + std::to_string(view.incarnation);
    if (change.silent) {
      const auto& leader = islands_.at(static_cast<std::size_t>(view.island)).members.front();
      log_warning(name + ", pid " + std::to_string(leader.pid) + " on " + leader.host +
                  ") has said nothing for " + in_seconds(change.seconds) + ", since step " +
                  std::to_string(view.step) + "; the others go on without it");
    } else {
      log_info(name + ") is heard of again after " + in_seconds(change.seconds));
    }
    record_.add_event(nlohmann::json{{"t", elapsed_ns()},
                                     {change.silent ? "silent" : "heard_again",
                                      {{"learner", change.learner},
                                       {"incarnation", view.incarnation},
                                       {"step", view.step},
                                       {"seconds", change.seconds}}}});
  }
}

}  // namespace archipelago::runtime
