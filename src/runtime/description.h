#pragma once

#include <map>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// What all ranks of a run must have the same, by name: every option with its resolved value, the
// data's digest and the program's build. The model follows from these.
using Description = std::map<std::string, std::string>;

Description describe(const Setup& setup, const data::Dataset& dataset);

// As text, and back. Throws Error(bad_data) where the text is none.
std::string to_text(const Description& description);
Description description_from(const std::string& text);

// The first difference in words ("train.lr is 0.1 here and 0.2 at the syncer"), and how many more
// there are; nothing where all is the same.
std::optional<std::string> difference(const Description& here, const Description& at_syncer);

}  // namespace archipelago::runtime
