#include "emulate/emulate.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/options.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "emulate/data_parallel.h"
#include "emulate/run.h"
#include "runtime/run_folder.h"
#include "runtime/validation.h"

namespace archipelago::emulate {
namespace {

// With what the learners' own data files hold.
runtime::Setup make_setup(const config::RunConfig& config, const data::Dataset& dataset) {
  config::RunConfig fitted = config;
  fitted.model = runtime::fit_model(config.model, dataset, config.data.path);
  runtime::Setup setup = runtime::make_setup(fitted);
  runtime::take_note_of(setup, dataset, config.data.path);
  for (const auto& group : runtime::DataPlan(setup.data).groups) {
    if (group.path == config.data.path) continue;
    const auto own = data::open_dataset(group.path);
    runtime::fit_model(setup.config.model, *own, group.path);
    runtime::take_note_of(setup, *own, group.path);
  }
  return setup;
}

struct Verdict {
  const char* outcome;  // of summary.json
  ExitCode code;
  std::string reason = {};  // "": the outcome's own
};

Verdict verdict_on(const Outcome& o, const evaluate::Score& validation) {
  if (o.diverged) return {"diverged", ExitCode::diverged};
  if (!std::isfinite(validation.loss)) {
    return {"diverged", ExitCode::diverged, "the model's validation loss is not finite"};
  }
  if (!o.complete) return {"stopped", ExitCode::try_again};
  return {"complete", ExitCode::done};
}

// Of all that was trained.
double share(const Outcome& o, std::int64_t tokens) {
  return o.trained_tokens > 0 ? static_cast<double>(tokens) / static_cast<double>(o.trained_tokens)
                              : 0;
}

nlohmann::json summary_of(const Outcome& o, const evaluate::Score& validation) {
  const Verdict verdict = verdict_on(o, validation);
  nlohmann::json summary = {
      {"tokens", o.tokens},
      {"trained_tokens", o.trained_tokens},
      {"merged_tokens", o.merged_tokens},
      {"wall_s", o.seconds},
      {"goodput", o.goodput},
      {"losses", o.losses},
      {"rejoins", o.rejoins},
      {"rounds", o.rounds},
      {"merges", o.merges},
      {"merged_share", share(o, o.merged_tokens)},
      {"contributors", o.contributors},
      {"dropped", o.dropped},
      {"final_train_loss", o.train_loss},
      {"final_val_loss", validation.loss},
      {"bytes_up", o.bytes_up},
      {"bytes_down", o.bytes_down},
      {"parameters_digest", to_hex(checksum(std::as_bytes(std::span(o.parameters))))},
      {"outcome", verdict.outcome},
      {"reason", verdict.reason.empty() ? o.reason : verdict.reason},
      {"exit_code", static_cast<int>(verdict.code)}};
  if (validation.accuracy) summary["final_val_accuracy"] = *validation.accuracy;
  return summary;
}

void print(const Outcome& o, const evaluate::Score& validation) {
  std::printf("validation loss    %.4f\n", validation.loss);
  if (validation.accuracy) std::printf("accuracy           %.2f %%\n", 100 * *validation.accuracy);
  std::printf("tokens trained     %lld, of which %.2f %% count and %.2f %% were merged\n",
              static_cast<long long>(o.trained_tokens), 100 * share(o, o.tokens),
              100 * share(o, o.merged_tokens));
  std::printf("merges             %lld, of %.2f learners on average\n",
              static_cast<long long>(o.merges), o.contributors);
  std::printf("losses, rejoins    %d, %d\n", o.losses, o.rejoins);
  std::printf("virtual time       %.1f s, goodput %.2f %%\n", o.seconds, 100 * o.goodput);
}

}  // namespace

int emulate(const config::RunConfig& config, const Conditions& conditions) {
  check(config, conditions);
  const auto dataset = data::open_dataset(config.data.path);
  const runtime::Setup setup = make_setup(config, *dataset);
  runtime::RunFolder folder(config.out);
  folder.open_for_writing(false);
  write_file(folder.config(), config::write_ini(setup.config), Durability::unflushed);
  Conditions copy = conditions;
  write_file(folder.path() / "conditions.ini", config::write_ini(options_of(copy)),
             Durability::unflushed);

  const Outcome outcome = config::has_syncer(config)
                              ? Run(setup, *dataset, conditions, folder).play()
                              : train_data_parallel(setup, *dataset, conditions, folder);
  const auto validation =
      runtime::validation_score(setup, *dataset, outcome.parameters, config.train.threads);
  const auto summary = summary_of(outcome, validation);
  write_file(folder.summary(), summary.dump(2) + '\n', Durability::unflushed);
  print(outcome, validation);
  return summary.at("exit_code");
}

}  // namespace archipelago::emulate
