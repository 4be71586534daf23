#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/checkpoint_argument.h"
#include "cli/commands.h"
#include "core/error.h"
#include "data/token_dataset.h"
#include "evaluate/checkpoint_model.h"
#include "evaluate/score.h"
#include "runtime/setup.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage = {
    .synopsis = "archipelago evaluate CHECKPOINT [--data FILE] [options]",
    .description =
        "Loss of a checkpoint's model on the validation part of a data file; accuracy of\n"
        "an image model. CHECKPOINT: a file, or a run's folder for its newest global checkpoint.",
    .positional = 1,
    .most_positional = 1};

constexpr std::int64_t kBatchTokens = 4096;

struct Arguments {
  std::string data;
  std::int64_t tokens = 0;
  int threads = 1;
  bool json = false;
};

std::array<config::Option, 4> options_of(Arguments& arguments) {
  return {config::verbatim_text("data", arguments.data, "FILE",
                                "data file; otherwise the one that the model was trained on"),
          config::integer(
              "tokens", arguments.tokens, 0, std::numeric_limits<std::int64_t>::max(),
              "only the first N tokens (positions of images) of the validation part; 0: all"),
          config::integer("threads", arguments.threads, 1, 1024, "OpenMP threads"),
          config::flag("json", arguments.json, "print one JSON object")};
}

struct Result {
  evaluate::Score score;
  std::optional<double> bytes_per_token;  // text
};

Result evaluate_checkpoint(const std::string& checkpoint, const Arguments& arguments) {
  const evaluate::CheckpointModel loaded =
      evaluate::load_model(checkpoint, kBatchTokens, arguments.threads);
  const std::string data = arguments.data.empty() ? loaded.config.data.path : arguments.data;
  const auto dataset = data::open_dataset(data, runtime::usual_kind(loaded.config.model));
  evaluate::require_fit(loaded.config.model, *dataset, data);
  const evaluate::Score score = evaluate::validation_score(
      *loaded.model, *dataset, loaded.config.model.context, loaded.batch, arguments.tokens);
  if (score.samples == 0) throw Error(ExitCode::bad_data, data + " has no validation part");
  if (!std::isfinite(score.loss)) {
    throw Error(ExitCode::diverged, checkpoint +
                                        " holds a model that has diverged: its "
                                        "loss is not finite; evaluate an earlier one");
  }
  const auto* const text = dynamic_cast<const data::TokenDataset*>(dataset.get());
  return {score, text == nullptr ? std::nullopt
                                 : std::optional(text->bytes_per_token(data::Split::validation))};
}

nlohmann::ordered_json to_json(const Result& result) {
  nlohmann::ordered_json object{{"loss", result.score.loss}};
  if (result.bytes_per_token) {
    object["bytes_per_token"] = *result.bytes_per_token;
    object["loss_per_byte"] = result.score.loss / *result.bytes_per_token;
    object["tokens"] = result.score.samples;
  } else {
    object["accuracy"] = result.score.accuracy.value_or(0);
    object["images"] = result.score.samples;
  }
  return object;
}

void print(const Result& result) {
  const evaluate::Score& score = result.score;
  if (result.bytes_per_token) {
    std::cout << "loss " << score.loss << " nats a token, " << score.loss / *result.bytes_per_token
              << " nats a byte, over " << score.samples << " tokens of " << *result.bytes_per_token
              << " bytes\n";
  } else {
    std::cout << "accuracy " << 100 * score.accuracy.value_or(0) << " %, loss " << score.loss
              << " nats, over " << score.samples << " images\n";
  }
}

}  // namespace

int run_evaluate(std::span<const std::string> given) {
  Arguments arguments;
  const auto positional = read_arguments(kUsage, options_of(arguments), given);
  if (!positional) return 0;
  const Result result = evaluate_checkpoint(checkpoint_argument(positional->front()), arguments);
  if (arguments.json) {
    std::cout << to_json(result).dump(2) << '\n';
  } else {
    print(result);
  }
  return 0;
}

}  // namespace archipelago::cli
