#include "runtime/checkpoint_words.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "config/options.h"
#include "core/units.h"

namespace archipelago::runtime {
namespace {

// Also of a single learner: "learner.2.data.path".
bool orders_data(const std::string& option) {
  return option.ends_with("data.path") || option.ends_with("train.seed");
}

// Of those that no tensor's shape shows.
bool changes_model(const std::string& option) {
  return option == "model.heads" || option == "model.experts_per_token";
}

// An option that the checkpoint is too old for had what is its default now.
std::string value_of(const Description& options, const std::string& name) {
  static const Description defaults = config::to_map(config::RunConfig{});
  for (const Description* source : {&options, &defaults}) {
    const auto found = source->find(name);
    if (found != source->end()) return found->second.empty() ? "not set" : found->second;
  }
  return "not set";
}

}  // namespace

SavedFile saved_file(std::filesystem::path path, double seconds) {
  std::error_code error;  // somebody has removed it
  const auto bytes = std::filesystem::file_size(path, error);
  return {std::move(path), error ? 0 : bytes, seconds};
}

std::string words_on(const SavedFile& file) {
  return "wrote " + file.path.filename().string() + ": " +
         bytes_text(static_cast<double>(file.bytes)) + " in " + seconds_text(file.seconds);
}

std::string words_on_restored(std::int64_t round, const std::filesystem::path& file) {
  const std::string words =
      "goes on from round " + std::to_string(round) + ": " + file.filename().string();
  std::error_code error;  // it has been removed since it was read
  const auto written = std::filesystem::last_write_time(file, error);
  if (error) return words;
  const std::chrono::duration<double> age = std::filesystem::file_time_type::clock::now() - written;
  return words + ", written " + seconds_text(std::max(age.count(), 0.0)) + " ago";
}

OptionChanges changes_since(const Description& checkpoint, const Description& now) {
  std::set<std::string> names;
  for (const Description* options : {&checkpoint, &now}) {
    for (const auto& [name, value] : *options) names.insert(name);
  }
  OptionChanges changes;
  for (const std::string& name : names) {
    // Where the run lies and how it was started is no part of what it does.
    if (name == "resume" || name == "out") continue;
    const std::string before = value_of(checkpoint, name);
    const std::string after = value_of(now, name);
    if (before == after) continue;
    std::string& list = orders_data(name)     ? changes.of_data_order
                        : changes_model(name) ? changes.of_model
                                              : changes.harmless;
    list += (list.empty() ? "" : ", ") + name + ' ' + before + " -> " + after;
  }
  return changes;
}

}  // namespace archipelago::runtime
