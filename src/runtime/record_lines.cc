#include "runtime/record_lines.h"

#include <nlohmann/json.hpp>
#include <variant>

#include "core/checksum.h"
#include "runtime/machine_settings.h"

namespace archipelago::runtime {

nlohmann::json step_row(double t, const link::Report& report, double blocked_seconds,
                        double joules) {
  nlohmann::json row = {{"t", t},
                        {"learner", report.learner},
                        {"incarnation", report.incarnation},
                        {"step", report.step},
                        {"tokens", report.tokens},
                        {"loss", report.loss},
                        {"lr", report.learning_rate},
                        {"grad_norm", report.gradient_norm},
                        {"step_s", report.step_seconds},
                        {"blocked_s", blocked_seconds},
                        {"energy_j", or_not_available(joules)}};
  if (report.accuracy >= 0) row["accuracy"] = report.accuracy;
  return row;
}

void add_score(nlohmann::json& object, const std::string& name, const evaluate::Score& score) {
  if (score.samples == 0) return;
  object[name + "_loss"] = score.loss;
  if (score.accuracy) object[name + "_accuracy"] = *score.accuracy;
}

nlohmann::json validation_row(double t, const Validator::Result& result) {
  nlohmann::json row = {{"t", t}, {"validated_round", result.round}, {"tokens", result.tokens}};
  add_score(row, "val", result.score);
  return row;
}

nlohmann::json fault_line(sync::Nanoseconds t, const Fault& fault, const sync::LearnerView& view) {
  return {{"t", t},
          {"fault",
           {{"kind", to_string(fault.kind)},
            {"when", to_string(fault.moment)},
            {"learner", fault.learner},
            {"incarnation", view.incarnation},
            {"rank", fault.rank},
            {"step", view.step},
            {"seconds", fault.seconds},
            {"factor", fault.factor},
            {"entry", fault.entry}}}};
}

nlohmann::json rejoin_line(sync::Nanoseconds t, const Rejoins::Rejoin& rejoin) {
  return {{"t", t},
          {"rejoined",
           {{"learner", rejoin.learner},
            {"incarnation", rejoin.incarnation},
            {"seconds", rejoin.seconds}}}};
}

nlohmann::json learner_entry(int id, const sync::LearnerView& view) {
  return {{"id", id},
          {"incarnation", view.incarnation},
          {"step", view.step},
          {"tokens", view.tokens},
          {"state", learner_state_name(view.state)},
          {"host", nullptr},
          {"pids", nlohmann::json::array()}};
}

nlohmann::json spare_entry() {
  return {{"id", nullptr},
          {"incarnation", nullptr},
          {"step", 0},
          {"tokens", 0},
          {"state", "spare"},
          {"host", nullptr},
          {"pids", nlohmann::json::array()}};
}

nlohmann::json snapshot_line(sync::Nanoseconds t, std::int64_t round, std::uint64_t theta) {
  return {{"t", t}, {"snapshot", {{"round", round}, {"theta", to_hex(theta)}}}};
}

void begin_contributions(RunRecord& record, sync::Nanoseconds t, int life,
                         const config::Sync& settings) {
  record.begin_contributions(life);
  record.add_event(nlohmann::json{{"t", t},
                                  {"contributions",
                                   {{"life", life},
                                    {"merge", settings.merge},
                                    {"outer_lr", settings.outer_lr},
                                    {"outer_momentum", settings.outer_momentum}}}});
}

void keep_contributions(RunRecord& record, const std::vector<sync::Action>& actions,
                        const Arrivals& arrivals) {
  for (const auto& action : actions) {
    const auto* const merge = std::get_if<sync::Merge>(&action);
    if (merge == nullptr) continue;
    for (const auto& part : merge->contributions) {
      record.add_contribution({merge->round, part.learner, part.incarnation},
                              arrivals.values({part.learner, part.incarnation, merge->round}));
    }
  }
}

}  // namespace archipelago::runtime
