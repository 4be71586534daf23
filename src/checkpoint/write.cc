#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include "checkpoint/checkpoint.h"
#include "checkpoint/damage.h"
#include "checkpoint/layout.h"
#include "checkpoint/names.h"
#include "checkpoint/seal.h"
#include "core/file.h"
#include "core/log.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/file.h"

namespace archipelago::checkpoint {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

void write_header(hid_t file, const char* kind) {
  hdf5::write_attribute(file, "format", kFormat);
  hdf5::write_attribute(file, "format_version", kFormatVersion);
  hdf5::write_attribute(file, "kind", kind);
  hdf5::write_attribute(file, "creator", "archipelago " ARCHIPELAGO_VERSION);
  hdf5::write_attribute(file, "HDF5_Version", hdf5::library_version());
  hdf5::write_attribute(file, "file_time", utc_now());
}

// Of a buffer that has the layout of `common.tensors`.
TensorElements elements_of(const Common& common, std::span<const float> flat) {
  return [&common, flat](std::size_t i) {
    const model::TensorInfo& tensor = common.tensors.at(i);
    return flat.subspan(static_cast<std::size_t>(tensor.offset),
                        static_cast<std::size_t>(tensor.size));
  };
}

// One dataset a tensor.
void write_tensors(hid_t file, const char* group_path, const Common& common,
                   const TensorElements& elements) {
  const hdf5::Group group = hdf5::create_group(file, group_path);
  for (std::size_t i = 0; i < common.tensors.size(); ++i) {
    const model::TensorInfo& tensor = common.tensors[i];
    const hdf5::Dataset dataset =
        hdf5::write_dataset<float>(group.get(), tensor.name, tensor.shape, elements(i));
    const int fragment = common.fragment_of_tensor.at(i);
    hdf5::write_number<std::int64_t>(dataset.get(), "index", static_cast<std::int64_t>(i));
    hdf5::write_number<std::int32_t>(dataset.get(), "fragment", fragment);
    hdf5::write_number<std::int32_t>(dataset.get(), "version",
                                     common.versions.at(static_cast<std::size_t>(fragment)));
    hdf5::write_attribute(dataset.get(), "shape_order", "row-major");
    hdf5::write_attribute(dataset.get(), "role", role_name(tensor.role));
  }
}

// Groups "clock" and "config" and the parameters.
void write_common(hid_t file, const hdf5::Group& clock, const Common& common,
                  const TensorElements& parameters) {
  write_tensors(file, kParameters, common, parameters);
  hdf5::write_dataset<std::int32_t>(clock.get(), "version", common.versions);
  const hdf5::Group config = hdf5::create_group(file, "config");
  for (const auto& [name, value] : common.config) {
    hdf5::write_attribute(config.get(), name, value);
  }
}

std::size_t build(const Global& state, const GlobalArrays& arrays, MappedFile& output) {
  const hdf5::LibraryLock lock;
  hdf5::ImageFile image(output);
  const hid_t file = image.id();
  write_header(file, kGlobalKind);
  hdf5::write_number<std::int64_t>(file, "round", state.round);
  hdf5::write_number<std::int64_t>(file, "tokens", state.tokens);
  {
    const hdf5::Group clock = hdf5::create_group(file, "clock");
    write_common(file, clock, state.common, arrays.parameters);
    hdf5::write_dataset<std::int32_t>(clock.get(), "incarnation", state.incarnations);
    const auto learners = static_cast<std::int64_t>(state.incarnations.size());
    const auto fragments = static_cast<std::int64_t>(state.common.versions.size());
    const std::array<std::int64_t, 2> shape{learners, fragments};
    hdf5::write_dataset<std::int64_t>(clock.get(), "merged_tokens", shape, state.merged_tokens);
    if (!state.shards.empty()) {
      const hdf5::Group data = hdf5::create_group(file, "data");
      hdf5::write_dataset<std::int64_t>(data.get(), "shards", state.shards);
    }
    const hdf5::Group outer = hdf5::create_group(file, "outer");
    write_tensors(file, kMomentum, state.common, arrays.momentum);
  }
  hdf5::write_flag(file, "complete", true);
  return std::move(image).finish();
}

std::size_t build(const Learner& state, const LearnerArrays& arrays, MappedFile& output) {
  const hdf5::LibraryLock lock;
  hdf5::ImageFile image(output);
  const hid_t file = image.id();
  write_header(file, kLearnerKind);
  hdf5::write_number<std::int32_t>(file, "learner", state.learner);
  hdf5::write_number<std::int32_t>(file, "incarnation", state.incarnation);
  hdf5::write_number<std::int64_t>(file, "step", state.step);
  hdf5::write_number<std::int64_t>(file, "tokens", state.tokens);
  hdf5::write_number<std::int64_t>(file, "adam_steps", state.adam_steps);
  hdf5::write_number<std::uint64_t>(file, "random_state", state.random_state);
  {
    const hdf5::Group clock = hdf5::create_group(file, "clock");
    write_common(file, clock, state.common, elements_of(state.common, arrays.parameters));
    hdf5::write_dataset<std::int64_t>(clock.get(), "steps_since", state.steps_since);
    hdf5::write_dataset<std::int64_t>(clock.get(), "tokens_since", state.tokens_since);
    const hdf5::Group data = hdf5::create_group(file, "data");
    hdf5::write_dataset<std::int64_t>(data.get(), "cursor", std::array{state.cursor});
    const hdf5::Group inner = hdf5::create_group(file, "inner");
    write_tensors(file, kAdamM, state.common, elements_of(state.common, arrays.adam_m));
    if (!arrays.adam_v.empty()) {
      write_tensors(file, kAdamV, state.common, elements_of(state.common, arrays.adam_v));
    }
  }
  hdf5::write_flag(file, "complete", true);
  return std::move(image).finish();
}

std::size_t capacity_for(const Common& common, std::size_t arrays) {
  constexpr std::size_t kOtherDatasets = 8;
  std::int64_t elements = 0;
  for (const auto& tensor : common.tensors) elements += tensor.size;
  return hdf5::image_capacity(static_cast<std::size_t>(elements) * sizeof(float) * arrays,
                              common.tensors.size() * arrays + kOtherDatasets);
}

// Puts the seal behind the first `size` bytes and gives the file its name.
void seal_and_commit(MappedFile& output, std::size_t size) {
  const std::string seal = seal_of({output.data(), size});
  if (!output.reserve(size + seal.size())) {
    throw std::system_error(errno, std::generic_category(), "cannot seal a checkpoint");
  }
  std::memcpy(output.data() + size, seal.data(), seal.size());
  output.commit(size + seal.size(), Durability::flushed);
}

void write_global(const std::filesystem::path& file, const Global& state,
                  const GlobalArrays& arrays) {
  MappedFile output(file, capacity_for(state.common, 2));
  seal_and_commit(output, build(state, arrays, output));
}

GlobalArrays arrays_in(const Global& state) {
  return {elements_of(state.common, state.common.parameters),
          elements_of(state.common, state.momentum)};
}

bool is_full_disk(const std::system_error& error) {
  return error.code() == std::errc::no_space_on_device || error.code().value() == EDQUOT;
}

// Removes all of the folder's global checkpoints that are to be gone some time, but for the newest,
// if that is sound. Whether there were any.
bool make_room(const std::filesystem::path& folder, std::int64_t keep_every) {
  const auto files = list_global(folder);
  if (files.size() < 2 || !find_damage(files.front().path).empty()) return false;
  log_warning("the disk is full: the global checkpoints before " +
              files.front().path.filename().string() + " make room for the next");
  remove_older(files, files.front().number, 1, keep_every);
  return true;
}

void prepare_folder(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  remove_stale_temporaries(folder);
}

}  // namespace

void save_as(const std::filesystem::path& file, const Global& state) {
  write_global(file, state, arrays_in(state));
}

void save(const std::filesystem::path& folder, const Global& state, int keep,
          std::int64_t keep_every) {
  save(folder, state, arrays_in(state), keep, keep_every);
}

void save(const std::filesystem::path& folder, const Global& state, const GlobalArrays& arrays,
          int keep, std::int64_t keep_every) {
  prepare_folder(folder);
  const auto file = folder / global_name(state.round);
  try {
    write_global(file, state, arrays);
  } catch (const std::system_error& error) {
    if (!is_full_disk(error) || !make_room(folder, keep_every)) throw;
    write_global(file, state, arrays);
  }
  remove_older(list_global(folder), state.round, keep, keep_every);
}

void save(const std::filesystem::path& folder, const Learner& state, int keep) {
  LearnerFile(folder, state, {state.common.parameters, state.adam_m, state.adam_v}).write(keep);
}

LearnerFile::LearnerFile(const std::filesystem::path& folder, const Learner& state,
                         const LearnerArrays& arrays)
    : folder_(folder), learner_(state.learner), step_(state.step) {
  prepare_folder(folder);
  output_ = std::make_unique<MappedFile>(folder / learner_name(learner_, step_),
                                         capacity_for(state.common, 3));
  size_ = build(state, arrays, *output_);
}

void LearnerFile::write(int keep) {
  seal_and_commit(*output_, size_);
  remove_older(list_learner(folder_, learner_), step_, keep);
}

}  // namespace archipelago::checkpoint
