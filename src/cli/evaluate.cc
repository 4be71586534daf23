#include <algorithm>
#include <array>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/error.h"
#include "data/token_dataset.h"
#include "evaluate/checkpoint_model.h"
#include "evaluate/text_loss.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage = {
    .synopsis = "archipelago evaluate CHECKPOINT [--data FILE] [options]",
    .description = "Loss of a checkpoint's model on the validation part of a token file.",
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
  return {config::text("data", arguments.data, "FILE",
                       "token file; otherwise the one that the model was trained on"),
          config::integer("tokens", arguments.tokens, 0, std::numeric_limits<std::int64_t>::max(),
                          "only the first N tokens of the validation part; 0: all"),
          config::integer("threads", arguments.threads, 1, 1024, "OpenMP threads"),
          config::flag("json", arguments.json, "print one JSON object")};
}

struct Result {
  double nats_per_token = 0;
  double bytes_per_token = 1;
  std::size_t tokens = 0;
};

void require_vocabulary(const data::TokenDataset& dataset, const std::string& data,
                        std::int64_t vocabulary, const std::string& checkpoint) {
  if (dataset.vocabulary() <= vocabulary) return;
  throw Error(ExitCode::bad_data, data + " has a vocabulary of " +
                                      std::to_string(dataset.vocabulary()) + " but the model in " +
                                      checkpoint + " one of " + std::to_string(vocabulary) +
                                      "; give the data that it was trained on");
}

Result evaluate_text(const std::string& checkpoint, const Arguments& arguments) {
  const evaluate::CheckpointModel loaded =
      evaluate::load_model(checkpoint, kBatchTokens, arguments.threads);
  const std::string data = arguments.data.empty() ? loaded.config.data.path : arguments.data;
  const data::TokenDataset dataset(data);
  require_vocabulary(dataset, data, loaded.config.model.vocabulary, checkpoint);
  auto tokens = dataset.tokens(data::Split::validation);
  if (arguments.tokens > 0) {
    tokens = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(arguments.tokens)));
  }
  if (tokens.size() < 2) throw Error(ExitCode::bad_data, data + " has no validation part");
  const double loss =
      evaluate::text_loss(*loaded.model, tokens, loaded.config.model.context, loaded.batch);
  return {loss, dataset.bytes_per_token(data::Split::validation), tokens.size()};
}

void print(const Result& result, bool json) {
  const double nats_per_byte = result.nats_per_token / result.bytes_per_token;
  if (json) {
    const nlohmann::ordered_json object{{"loss", result.nats_per_token},
                                        {"bytes_per_token", result.bytes_per_token},
                                        {"loss_per_byte", nats_per_byte},
                                        {"tokens", result.tokens}};
    std::cout << object.dump(2) << '\n';
  } else {
    std::cout << "loss " << result.nats_per_token << " nats a token, " << nats_per_byte
              << " nats a byte, over " << result.tokens << " tokens of " << result.bytes_per_token
              << " bytes\n";
  }
}

}  // namespace

int run_evaluate(std::span<const std::string> given) {
  Arguments arguments;
  const auto positional = read_arguments(kUsage, options_of(arguments), given);
  if (!positional) return 0;
  print(evaluate_text(positional->front(), arguments), arguments.json);
  return 0;
}

}  // namespace archipelago::cli
