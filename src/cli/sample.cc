#include "evaluate/sample.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <limits>

#include "cli/checkpoint_argument.h"
#include "cli/commands.h"
#include "core/error.h"
#include "data/token_file.h"
#include "evaluate/checkpoint_model.h"
#include "model/model.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage = {
    .synopsis = "archipelago sample CHECKPOINT --prompt TEXT [options]",
    .description =
        "Continues a text with a checkpoint's model. The same seed gives the same text.\n"
        "CHECKPOINT: a file, or a run's folder for its newest global checkpoint.",
    .positional = 1,
    .most_positional = 1};

struct Arguments {
  std::string prompt;
  std::string data;
  std::int64_t tokens = 200;
  std::uint64_t seed = 1;
  int threads = 1;
  evaluate::Sampling sampling;
};

std::array<config::Option, 7> options_of(Arguments& arguments) {
  return {
      config::verbatim_text("prompt", arguments.prompt, "TEXT", "the text to continue"),
      config::integer("tokens", arguments.tokens, 1, 1'000'000, "tokens to add"),
      config::real("temperature", arguments.sampling.temperature, 0, 100,
                   "below 1: likelier text; 0: always the likeliest token"),
      config::integer("top-k", arguments.sampling.top_k, 0, 65'536,
                      "draw from the likeliest N tokens only; 0: from all"),
      config::integer("seed", arguments.seed, 0, std::numeric_limits<std::int64_t>::max(),
                      "seed of the draws"),
      config::verbatim_text("data", arguments.data, "FILE",
                            "token file with the vocabulary; otherwise the one of the training"),
      config::integer("threads", arguments.threads, 1, 1024, "OpenMP threads")};
}

// Ids are bytes where the vocabulary is 256, so that no file is needed then.
data::Tokenizer tokenizer_for(const config::RunConfig& config, const std::string& data) {
  if (config.model.vocabulary == data::kByteIds && data.empty()) return data::Tokenizer({});
  const std::string file = data.empty() ? config.data.path : data;
  const data::TokenFile tokens = data::read_token_file(file);
  if (tokens.vocabulary > data::kByteIds && tokens.merges.empty()) {
    throw Error(ExitCode::bad_data, file + " does not say what its tokens stand for");
  }
  if (tokens.vocabulary > config.model.vocabulary) {
    throw Error(ExitCode::bad_data,
                file + " has a vocabulary of " + std::to_string(tokens.vocabulary) +
                    " but the model one of " + std::to_string(config.model.vocabulary) +
                    "; give the data that it was trained on");
  }
  return data::Tokenizer(tokens.merges);
}

}  // namespace

int run_sample(std::span<const std::string> given) {
  Arguments arguments;
  const auto positional = read_arguments(kUsage, options_of(arguments), given);
  if (!positional) return 0;
  if (arguments.prompt.empty()) throw Error(ExitCode::usage, "sample needs --prompt TEXT");
  const evaluate::CheckpointModel loaded =
      evaluate::load_model(checkpoint_argument(positional->front()), 1, arguments.threads);
  if (model::is_image_model(loaded.config.model)) {
    throw Error(ExitCode::bad_data,
                positional->front() + " holds an image model (" + loaded.config.model.kind +
                    "), which has no text to continue; give one of a text model");
  }
  data::Tokenizer tokenizer = tokenizer_for(loaded.config, arguments.data);
  const std::vector<std::uint16_t> prompt = tokenizer.encode(arguments.prompt);
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  arguments.sampling.vocabulary = std::min(loaded.config.model.vocabulary, tokenizer.vocabulary());
  Random random(arguments.seed);
  std::cout << arguments.prompt;
  evaluate::continue_tokens(*loaded.model, loaded.config.model, tokens, arguments.tokens,
                            arguments.sampling, random, [&tokenizer](std::int32_t token) {
                              const auto id = static_cast<std::uint16_t>(token);
                              std::cout << tokenizer.decode({&id, 1}) << std::flush;
                            });
  std::cout << '\n';
  return 0;
}

}  // namespace archipelago::cli
