#pragma once

#include <span>
#include <string>
#include <vector>

#include "chart/panel.h"
#include "chart/timeline.h"
#include "report/history.h"

namespace archipelago::report {

// The last part of its folder's path.
std::string name_of(const History& run);

// What stands for what by its colour: the learners of one run, or several runs.
struct Legend {
  std::vector<std::string> names;  // in the order of chart::colour()
};

Legend legend_of(std::span<const History> runs);

// Losses, speeds, waits and merges over time, each point the mean of a stretch. One run: a line for
// each learner; several, or one of very many learners: a line for each run.
std::vector<chart::Panel> panels_of(std::span<const History> runs);

// When which learner trained, as which incarnation, and when it died or left; launches,
// takeovers and hosts that were lost.
chart::Timeline timeline_of(const History& run);

}  // namespace archipelago::report
