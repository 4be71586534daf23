#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/history.h"

namespace archipelago::report {

struct Row {
  std::string name;
  std::vector<std::string> values;  // of each run; a dash where it has none
  bool differs = false;             // a setting in which the runs differ
};

struct Group {
  std::string title;
  std::vector<Row> rows;
};

// How the runs went and with which settings: the rows in which one of them has a value.
std::vector<Group> groups_of(std::span<const History> runs);

}  // namespace archipelago::report
