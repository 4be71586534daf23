#include "runtime/run_statistics.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/units.h"

namespace archipelago::runtime {

void RunStatistics::Sums::add(const link::Report& report) {
  blocked_seconds += report.blocked_seconds;
  busy_seconds += report.busy_seconds;
  steps += report.life_steps;
  joules += report.joules;
}

RunStatistics::Sums RunStatistics::with(const std::vector<link::Report>& living) const {
  Sums sums = ended_;
  for (const auto& report : living) sums.add(report);
  return sums;
}

void RunStatistics::add_step(const link::Report& report, double now) {
  // It may be the first of several steps that is seen.
  if (!started()) first_step_ = now - std::max(report.busy_seconds, report.step_seconds);
  largest_memory_ratio_ = std::max(largest_memory_ratio_, report.memory_ratio);
  largest_resident_bytes_ = std::max(largest_resident_bytes_, report.resident_bytes);
}

void RunStatistics::set_learners(int learners, double now) {
  if (started()) learner_seconds_ += learners_ * (now - std::max(first_step_, learners_since_));
  learners_ = learners;
  learners_since_ = now;
}

void RunStatistics::end_life(const link::Report& last) { ended_.add(last); }

double RunStatistics::goodput(std::int64_t tokens, double now,
                              const std::vector<link::Report>& living) const {
  const Sums sums = with(living);
  if (sums.steps == 0 || seconds(now) <= 0) return 0;
  const double useful_steps = static_cast<double>(tokens) / static_cast<double>(batch_tokens_);
  const double step_seconds = sums.busy_seconds / static_cast<double>(sums.steps);
  const double wanted_seconds =
      learner_seconds_ + learners_ * (now - std::max(first_step_, learners_since_));
  // The beginning of the first step is known to within a report.
  return std::min(1.0, useful_steps * step_seconds / wanted_seconds);
}

double RunStatistics::blocked_fraction(const std::vector<link::Report>& living) const {
  const Sums sums = with(living);
  return sums.busy_seconds > 0 ? sums.blocked_seconds / sums.busy_seconds : 0;
}

double mean_loss(const std::vector<link::Report>& living, double limit) {
  std::vector<double> sound, all;
  for (const auto& report : living) {
    if (report.step_seconds <= 0) continue;
    all.push_back(report.loss);
    if (link::sound_loss(report) <= limit) sound.push_back(report.loss);
  }
  const std::vector<double>& losses = sound.empty() ? all : sound;
  if (losses.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

std::string mean_loss_text(const std::vector<link::Report>& living, double limit) {
  const auto has_stepped = [](const link::Report& report) { return report.step_seconds > 0; };
  if (std::ranges::none_of(living, has_stepped)) return "not known yet";
  return loss_text(mean_loss(living, limit));
}

}  // namespace archipelago::runtime
