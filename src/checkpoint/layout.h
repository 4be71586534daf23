#pragma once

#include <string>
#include <string_view>

#include "model/model.h"

// Names inside a checkpoint file (checkpoints/README.md); used by the writer and the reader.
namespace archipelago::checkpoint {

inline constexpr const char* kFormat = "archipelago-checkpoint";
inline constexpr const char* kFormatVersion = "1.0";
inline constexpr const char* kGlobalKind = "global";
inline constexpr const char* kLearnerKind = "learner";

inline constexpr const char* kParameters = "/params";
inline constexpr const char* kMomentum = "/outer/momentum";
inline constexpr const char* kInner = "/inner";
inline constexpr const char* kAdamM = "/inner/adam_m";
inline constexpr const char* kAdamV = "/inner/adam_v";

std::string_view role_name(model::TensorRole role);
// Throws hdf5::Failure for an unknown name.
model::TensorRole role_of(std::string_view name);

}  // namespace archipelago::checkpoint
