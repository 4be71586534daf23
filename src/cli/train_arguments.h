#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "config/option_table.h"
#include "config/run_config.h"

namespace archipelago::cli {

// What `train --help` says.
std::string train_help();

// The likeliest slip: train's options without the "--" before them. Throws Error(usage) where one
// stands among a command's `own` words and there is no separator.
void require_separator(std::span<const std::string> own, bool has_separator,
                       std::string_view synopsis);

// Throws Error(configuration) where sync.listen is set and no address.
void require_address(const config::RunConfig& config);

// The configuration of a run (config::parse_run_config), with a run folder and data named. Throws
// as that does.
config::RunConfig parse_train_arguments(std::span<const std::string> arguments,
                                        const config::RunConfig& defaults,
                                        std::span<const config::Option> more = {});

// What `parse` makes of the defaults of a job on so many hosts: where these are several, and one
// syncer merges all, a standby.
config::RunConfig parse_for_hosts(
    std::size_t hosts, const std::function<config::RunConfig(const config::RunConfig&)>& parse);

}  // namespace archipelago::cli
