#include "emulate/emulate.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "config/options.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/units.h"
#include "emulate/data_parallel.h"
#include "emulate/run.h"
#include "runtime/record_lines.h"
#include "runtime/run_folder.h"
#include "runtime/run_record.h"
#include "runtime/signals.h"
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
    const auto own = data::open_dataset(group.path, runtime::usual_kind(config.model));
    runtime::fit_model(setup.config.model, *own, group.path);
    runtime::take_note_of(setup, *own, group.path);
  }
  return setup;
}

struct Verdict {
  const char* outcome;  // of summary.json
  const char* state;    // of status.json
  std::string reason;
  ExitCode code;
};

// As of a real run, but that there is no checkpoint before the last one.
Verdict verdict_on(const Outcome& o, const evaluate::Score& validation) {
  if (o.end == sync::Outcome::diverged) {
    return {"diverged", "failed", o.reason, ExitCode::diverged};
  }
  if (o.unsaved) return {"failed", "failed", runtime::kUnsaved, ExitCode::configuration};
  if (!std::isfinite(validation.loss)) {
    return {"diverged", "failed", "the model's validation loss is not finite", ExitCode::diverged};
  }
  switch (o.end) {
    case sync::Outcome::stopped:
      return {"stopped", "stopped", o.reason, ExitCode::try_again};
    case sync::Outcome::no_learners:
      return {"no_learners", "stopped", o.reason, ExitCode::try_again};
    default:
      return {"complete", "done", o.reason, ExitCode::done};
  }
}

// Of all that was trained.
double share(const Outcome& o, std::int64_t tokens) {
  return o.trained_tokens > 0 ? static_cast<double>(tokens) / static_cast<double>(o.trained_tokens)
                              : 0;
}

nlohmann::json summary_of(const Outcome& o, const evaluate::Score& validation,
                          const Verdict& verdict) {
  nlohmann::json summary = {
      {"tokens", o.tokens},
      {"trained_tokens", o.trained_tokens},
      {"merged_tokens", o.merged_tokens},
      {"wall_s", o.seconds},
      {"goodput", o.goodput},
      {"losses", o.losses},
      {"rejoins", o.rejoins},
      {"rejoin_s", o.rejoin_s},
      {"rounds", o.rounds},
      {"merges", o.merges},
      {"merged_share", share(o, o.merged_tokens)},
      {"contributors", o.contributors},
      {"dropped", o.dropped},
      {"final_train_loss", o.train_loss},
      {"bytes_up", o.bytes_up},
      {"bytes_down", o.bytes_down},
      {"parameters_digest", to_hex(checksum(std::as_bytes(std::span(o.parameters))))},
      {"outcome", verdict.outcome},
      {"reason", verdict.reason},
      {"exit_code", static_cast<int>(verdict.code)}};
  runtime::add_score(summary, "final_val", validation);
  return summary;
}

void print(const Outcome& o, const evaluate::Score& validation, const Verdict& verdict) {
  std::printf("outcome            %s: %s\n", verdict.outcome, verdict.reason.c_str());
  std::printf("validation loss    %s\n",
              validation.samples > 0 ? loss_text(validation.loss).c_str() : "none");
  if (validation.samples > 0 && validation.accuracy)
    std::printf("accuracy           %.2f %%\n", 100 * *validation.accuracy);
  std::printf("tokens trained     %lld, of which %.2f %% count and %.2f %% were merged\n",
              static_cast<long long>(o.trained_tokens), 100 * share(o, o.tokens),
              100 * share(o, o.merged_tokens));
  std::printf("merges             %lld, of %.2f learners on average\n",
              static_cast<long long>(o.merges), o.contributors);
  std::printf("losses, rejoins    %d, %d\n", o.losses, o.rejoins);
  std::printf("virtual time       %.1f s, goodput %.2f %%\n", o.seconds, 100 * o.goodput);
}

int play(const runtime::Setup& setup, const data::Dataset& dataset, const Conditions& conditions,
         const runtime::RunFolder& folder) {
  runtime::RunRecord record(folder);
  Outcome outcome = config::has_syncer(setup.config)
                        ? Run(setup, dataset, conditions, folder, record).play()
                        : train_data_parallel(setup, dataset, conditions, folder, record);
  const auto validation =
      runtime::validation_score(setup, dataset, outcome.parameters, setup.config.train.threads);
  const Verdict verdict = verdict_on(outcome, validation);
  if (outcome.unsaved) log_error(runtime::kUnsaved);
  outcome.status["state"] = verdict.state;
  record.write_status(outcome.status);
  record.write_summary(summary_of(outcome, validation, verdict));
  print(outcome, validation, verdict);
  return static_cast<int>(verdict.code);
}

}  // namespace

int emulate(const config::RunConfig& config, const Conditions& conditions) {
  check(config, conditions);
  const auto dataset = data::open_dataset(config.data.path, runtime::usual_kind(config.model));
  const runtime::Setup setup = make_setup(config, *dataset);
  runtime::RunFolder folder(config.out);
  folder.open_for_one_start();
  write_file(folder.config(), config::write_ini(setup.config), Durability::unflushed);
  Conditions copy = conditions;
  write_file(folder.conditions(), config::write_ini(options_of(copy)), Durability::unflushed);

  runtime::catch_stop_signals(runtime::SecondSignal::kills);
  try {
    return play(setup, *dataset, conditions, folder);
  } catch (const std::exception&) {
    folder.mark_as_failed();
    throw;
  }
}

}  // namespace archipelago::emulate
