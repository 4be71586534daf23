#pragma once

#include <span>
#include <string>

#include "report/history.h"

namespace archipelago::report {

// One HTML page without anything from elsewhere: a table of the runs' figures, the lives of each
// run's learners, and charts of all runs over one another. `runs`: one or more.
std::string page_of(std::span<const History> runs);

}  // namespace archipelago::report
