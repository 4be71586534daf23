#pragma once

#include "sync/messages.h"

namespace archipelago::sync {

// The settings, none of them outside what a run can have. Throws Error(bad_data) naming the first
// that is: a tape tells them, which may be damaged.
const Settings& checked(const Settings& settings);

}  // namespace archipelago::sync
