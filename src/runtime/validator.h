#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>

#include "evaluate/score.h"
#include "runtime/global_state.h"

namespace archipelago::runtime {

// How the model does on the validation split while it trains, worked out on a thread of its own at
// a low priority.
class Validator {
 public:
  struct Result {
    std::int64_t round = 0;
    std::int64_t tokens = 0;
    evaluate::Score score;
  };

  // `score` of a state that holds every fragment; called on the thread. Empty: start() does
  // nothing.
  explicit Validator(std::function<evaluate::Score(const GlobalState&)> score);
  // Waits for what was started.
  ~Validator() = default;
  Validator(const Validator&) = delete;
  Validator& operator=(const Validator&) = delete;

  // Begins with the state after so many rounds; passed over while another is being worked out.
  void start(std::int64_t round, std::int64_t tokens, const GlobalState& state);

  // What has come out since, or comes out within so many seconds; a failure is logged.
  std::optional<Result> take(double seconds = 0);

  // Whether one is being worked out, or was and has not been taken.
  bool busy() const { return running_.valid(); }

 private:
  std::function<evaluate::Score(const GlobalState&)> score_;
  std::future<Result> running_;
};

}  // namespace archipelago::runtime
