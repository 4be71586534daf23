#pragma once

#include <filesystem>
#include <optional>

#include "link/tls_connection.h"

namespace archipelago::runtime {

// What an island that is a job of its own needs to find the syncer and to be let in: RunFolder's
// invitation(), readable for its owner alone.
struct Invitation {
  link::Address address;
  link::Secret secret;
};

// Replaces the file as a whole. Throws std::system_error naming it.
void write_invitation(const std::filesystem::path& file, const Invitation& invitation);

// Nothing where there is no file. Throws Error(configuration) where it holds no invitation.
std::optional<Invitation> read_invitation(const std::filesystem::path& file);

}  // namespace archipelago::runtime
