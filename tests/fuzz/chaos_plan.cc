#include "core/error.h"
#include "memory_file.h"
#include "runtime/chaos.h"

// The input as a chaos plan, carried out on three learners for some seconds.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace archipelago;
  try {
    runtime::Chaos chaos(runtime::parse_chaos(std::string(as_text(data, size))));
    std::vector<sync::LearnerView> learners(3);
    for (int second = 0; second < 20; ++second) {
      for (auto& learner : learners) {
        learner.state = second % 5 == 0 ? sync::LearnerState::joining : sync::LearnerState::active;
        learner.incarnation = second / 2;
        learner.step = second * 10;
      }
      for (const runtime::Fault& fault : chaos.due(second, learners)) {
        if (fault.learner < 0 || fault.learner > 2) std::abort();
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
