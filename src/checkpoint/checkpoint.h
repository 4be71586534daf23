#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"
#include "model/model.h"

namespace archipelago::checkpoint {

// What both kinds of checkpoint hold. File format: checkpoints/README.md.
struct Common {
  std::vector<model::TensorInfo> tensors;
  std::vector<float> parameters;              // flat, in the order of `tensors`
  std::vector<int> fragment_of_tensor;        // attribute `fragment` of each dataset
  std::vector<std::int32_t> versions;         // /clock/version, (P)
  std::map<std::string, std::string> config;  // every option "section.name" -> resolved value
};

// A consistent cut of the syncer, taken between rounds.
struct Global {
  Common common;
  std::vector<float> momentum;              // outer momentum, flat
  std::int64_t round = 0;                   // rounds closed
  std::vector<std::int32_t> incarnations;   // (M)
  std::vector<std::int64_t> merged_tokens;  // (M, P)
  std::vector<std::int64_t> shards;         // (S) next sequence of each data shard; may be empty
  std::int64_t tokens = 0;                  // over all learners
};

struct Learner {
  Common common;
  int learner = 0;
  int incarnation = 0;
  std::int64_t step = 0;  // inner steps
  std::int64_t tokens = 0;
  std::int64_t cursor = 0;  // /data/cursor: sequences that it has trained on
  std::int64_t adam_steps = 0;
  std::vector<float> adam_m;  // flat; of SGD the momentum
  std::vector<float> adam_v;  // of SGD empty
  std::uint64_t random_state = 0;
  std::vector<std::int64_t> steps_since;   // c_steps (P)
  std::vector<std::int64_t> tokens_since;  // c_tokens (P)
};

// global-<round, 10 digits>.h5 and learner-<id>-<step, 10 digits>.h5 in the run's checkpoints
// folder.
std::filesystem::path global_name(std::int64_t round);
std::filesystem::path learner_name(int learner, std::int64_t step);

// Writes folder/name whole or not at all (built in memory, written under a temporary name, flushed,
// renamed, the folder flushed), then removes all but the newest `keep` of the same kind (and
// learner), and of global ones the first of each `keep_every` rounds (0: none). Where the disk is
// full, older global ones make room before, all but the newest. Throws std::system_error when it
// cannot be written; nothing else that was there is changed then.
void save(const std::filesystem::path& folder, const Global& state, int keep,
          std::int64_t keep_every = 0);
void save(const std::filesystem::path& folder, const Learner& state, int keep);

// The elements of the tensor of this index, where they are.
using TensorElements = std::function<std::span<const float>(std::size_t)>;

struct GlobalArrays {
  TensorElements parameters;
  TensorElements momentum;
};

// The same of arrays that are nowhere in one piece; those of `state` are not looked at.
void save(const std::filesystem::path& folder, const Global& state, const GlobalArrays& arrays,
          int keep, std::int64_t keep_every = 0);

// The same under any name; removes nothing.
void save_as(const std::filesystem::path& file, const Global& state);

// A learner's large arrays where they are, flat in the order of its tensors.
struct LearnerArrays {
  std::span<const float> parameters;
  std::span<const float> adam_m;
  std::span<const float> adam_v;
};

// A learner's checkpoint in two steps, so that only the first holds up training and neither needs a
// second copy of the arrays in memory.
class LearnerFile {
 public:
  // Copies the arrays into the file's memory; the vectors of `state` are not looked at. Throws
  // std::system_error, e.g. when the disk is full.
  LearnerFile(const std::filesystem::path& folder, const Learner& state,
              const LearnerArrays& arrays);

  // Flushes the file, gives it its name, removes all but the newest `keep` of this learner. May run
  // on another thread. Throws std::system_error.
  void write(int keep);

 private:
  std::filesystem::path folder_;
  int learner_;
  std::int64_t step_;
  std::unique_ptr<MappedFile> output_;
  std::size_t size_ = 0;
};

// Reads one file. Throws Error(bad_data) naming the file and what is wrong with it: missing,
// truncated, a dataset whose checksum fails, foreign, incomplete.
Global load_global(const std::filesystem::path& file);
Learner load_learner(const std::filesystem::path& file);

// Throws as they do for a file of either kind.
void require_readable(const std::filesystem::path& file);

// What both kinds hold, of a file of either kind.
Common load_parameters(const std::filesystem::path& file);

// The newest readable one in the folder; unreadable ones are named by a log warning and skipped.
// Nothing when there is none.
std::optional<Global> newest_global(const std::filesystem::path& folder);
// Of the given learner id, or of any learner with the newest step for -1.
std::optional<Learner> newest_learner(const std::filesystem::path& folder, int learner);

// Throws Error(bad_data) naming the first difference (tensor missing, another shape, another order)
// between the file's tensors and the model's.
void require_same_model(const std::vector<model::TensorInfo>& of_file,
                        const std::vector<model::TensorInfo>& of_model, const std::string& file);

}  // namespace archipelago::checkpoint
