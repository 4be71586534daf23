#include <array>
#include <iostream>
#include <stdexcept>

#include "cli/commands.h"
#include "cli/prepare_images.h"
#include "core/error.h"
#include "data/prepare_text.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage = {
    .synopsis = "archipelago prepare text FILE... --out DATA.h5 [options]",
    .description =
        "Turns plain text into a token file for training (format: docs/data.md).\n"
        "For images see `archipelago prepare images --help`.",
    .positional = 2,
    .most_positional = 1'000'000};

struct Arguments {
  data::PrepareText request;
  std::string out;
  bool force = false;
};

// "bytes" or a number of ids.
config::Option vocabulary_option(std::int64_t& vocabulary) {
  const auto number =
      config::integer("vocabulary", vocabulary, data::kByteIds + 1, data::kLargestVocabulary, "");
  return {.name = "vocabulary",
          .argument = "bytes|N",
          .help = "bytes: a token is a byte; N (257 to 65536): train a byte-pair encoding",
          .default_value = "bytes",
          .set =
              [&vocabulary, set = number.set](const std::string& text) {
                if (text == "bytes") {
                  vocabulary = data::kByteIds;
                  return;
                }
                try {
                  set(text);
                } catch (const std::invalid_argument& error) {
                  throw std::invalid_argument(std::string(error.what()) + ", or bytes");
                }
              },
          .get = number.get};
}

std::array<config::Option, 6> options_of(Arguments& arguments) {
  return {config::verbatim_text("out", arguments.out, "DATA.h5", "the token file to write"),
          vocabulary_option(arguments.request.vocabulary),
          config::real("validation", arguments.request.validation, 0, 0.9,
                       "share of the text, from its end, that is kept for validation"),
          config::verbatim_text("source", arguments.request.source, "TEXT",
                                "where the text comes from"),
          config::verbatim_text("licence", arguments.request.licence, "TEXT",
                                "under what terms the text may be used"),
          config::flag("force", arguments.force, "replace an existing file")};
}

void print_summary(const data::TokenFile& file, const std::string& out) {
  std::cout << out << ": " << file.train.size() << " training and " << file.validation.size()
            << " validation tokens, vocabulary " << file.vocabulary << ", "
            << static_cast<double>(file.train_bytes) / static_cast<double>(file.train.size())
            << " bytes a token\n";
}

}  // namespace

void require_output(const std::string& out, bool force,
                    std::span<const std::filesystem::path> inputs) {
  if (out.empty()) throw Error(ExitCode::usage, "prepare needs --out DATA.h5");
  require_new_file(out, force, inputs);
}

int run_prepare(std::span<const std::string> given) {
  if (!given.empty() && given.front() == "images") return run_prepare_images(given.subspan(1));
  Arguments arguments;
  const auto positional = read_arguments(kUsage, options_of(arguments), given);
  if (!positional) return 0;
  if (positional->front() != "text") {
    throw Error(ExitCode::usage, "cannot prepare '" + positional->front() +
                                     "'; usage: " + std::string(kUsage.synopsis));
  }
  arguments.request.files.assign(positional->begin() + 1, positional->end());
  require_output(arguments.out, arguments.force, arguments.request.files);
  const data::TokenFile file = data::prepare_text(arguments.request);
  data::write_token_file(arguments.out, file);
  print_summary(file, arguments.out);
  return 0;
}

}  // namespace archipelago::cli
