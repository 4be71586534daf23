#pragma once

#include "data/dataset.h"
#include "emulate/conditions.h"
#include "emulate/outcome.h"
#include "runtime/run_folder.h"
#include "runtime/run_record.h"
#include "runtime/setup.h"

namespace archipelago::emulate {

// Data-parallel training of the same tokens: every step the mean gradient of all learners' batches.
// The learners' shares of an epoch are dealt out window by window, so that their batches of one
// step are together a batch of one learner with M times as many sequences (after the first epoch
// all but a few, where its windows are no multiple of M): that one is trained, a learner's batch
// after the other. Each step lasts as long as the slowest learner's. Ends early where somebody
// outside asks for it.
Outcome train_data_parallel(const runtime::Setup& setup, const data::Dataset& dataset,
                            const Conditions& conditions, const runtime::RunFolder& folder,
                            runtime::RunRecord& record);

}  // namespace archipelago::emulate
