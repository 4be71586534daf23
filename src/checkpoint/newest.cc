
#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "core/error.h"
#include "core/log.h"

namespace archipelago::checkpoint {
namespace {

template <class State>
std::optional<State> first_readable(const std::vector<NamedFile>& newest_first,
                                    State (*load)(const std::filesystem::path&)) {
  for (const NamedFile& file : newest_first) {
    try {
      return load(file.path);
    } catch (const Error& error) {
      log_warning(std::string(error.what()) + "; trying the one before it");
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Global> newest_global(const std::filesystem::path& folder) {
  return first_readable<Global>(list_global(folder), load_global);
}

std::optional<Learner> newest_learner(const std::filesystem::path& folder, int learner) {
  return first_readable<Learner>(list_learner(folder, learner), load_learner);
}

}  // namespace archipelago::checkpoint
