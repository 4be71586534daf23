#pragma once

#include <vector>

#include "link/message.h"

namespace archipelago::runtime {

// Whether a fragment that came down was meant for the life that the order begins.
bool is_for(const link::DownHeader& fragment, const link::DownHeader& order);

// What the syncer waits for: the newest ask for each fragment, since only one round of a fragment
// is open at a time; the newest first, since older rounds may be closed by now. None may be
// forgotten while its round is open: it may wait for this learner alone.
using Asks = std::vector<link::DownHeader>;

void remember(Asks& asks, const link::DownHeader& ask);

// A fragment has come down: rounds that asked for it at an older version are over.
void forget_closed(Asks& asks, const link::DownHeader& fragment);

}  // namespace archipelago::runtime
