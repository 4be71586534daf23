#pragma once

#include "runtime/setup.h"

namespace archipelago::runtime {

inline config::RunConfig tiny_config() {
  config::RunConfig config;
  config.model.layers = 1;
  config.model.width = 8;
  config.model.heads = 2;
  config.model.context = 4;
  return config;
}

inline Setup tiny_setup(int fragments, int syncers = 1) {
  config::RunConfig config = tiny_config();
  config.model.vocabulary = 16;
  config.sync.fragments = fragments;
  config.sync.syncers = syncers;
  return make_setup(config);
}

}  // namespace archipelago::runtime
