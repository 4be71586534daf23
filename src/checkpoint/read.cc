#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/opened_file.h"
#include "core/error.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/file.h"

namespace archipelago::checkpoint {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw hdf5::Failure(why); }

void require_kind(hid_t file, const std::string& kind) {
  const std::string found = hdf5::read_text(file, "kind");
  if (found != kind) refuse("it is a " + found + " checkpoint, not a " + kind + " one");
}

struct Described {
  model::TensorInfo tensor;
  int fragment = 0;
};

Described describe(const hdf5::Dataset& dataset, const std::string& name) {
  Described described;
  described.tensor.name = name;
  described.tensor.shape = hdf5::shape_of(dataset);
  described.tensor.size = static_cast<std::int64_t>(hdf5::element_count(dataset, name));
  described.tensor.role = role_of(hdf5::read_text(dataset.get(), "role"));
  described.fragment = hdf5::read_number<std::int32_t>(dataset.get(), "fragment");
  return described;
}

// Tensors of /params by their attribute `index`, which says where in the flat buffer each one lies.
std::vector<Described> read_descriptions(const hdf5::Group& params) {
  const std::vector<std::string> names = hdf5::member_names(params.get());
  std::vector<Described> described(names.size());
  std::vector<bool> taken(names.size());
  for (const std::string& name : names) {
    const hdf5::Dataset dataset = hdf5::open_dataset(params.get(), name);
    const auto index =
        static_cast<std::size_t>(hdf5::read_number<std::int64_t>(dataset.get(), "index"));
    if (index >= names.size() || taken[index]) {
      refuse("attribute index of /params/" + name + " is no place of its own");
    }
    taken[index] = true;
    described[index] = describe(dataset, name);
  }
  std::int64_t offset = 0;
  for (Described& each : described) {
    each.tensor.offset = offset;
    offset += each.tensor.size;
  }
  return described;
}

// The flat buffer out of one dataset a tensor.
std::vector<float> read_tensors(hid_t file, const char* group_path,
                                const std::vector<model::TensorInfo>& tensors) {
  const hdf5::Group group = hdf5::open_group(file, group_path);
  const std::int64_t total = tensors.empty() ? 0 : tensors.back().offset + tensors.back().size;
  std::vector<float> flat(static_cast<std::size_t>(total));
  for (const model::TensorInfo& tensor : tensors) {
    const std::string name = std::string(group_path) + '/' + tensor.name;
    const hdf5::Dataset dataset = hdf5::open_dataset(file, name);
    if (hdf5::shape_of(dataset) != tensor.shape) refuse(name + " has another shape than /params");
    hdf5::read_dataset<float>(dataset, name,
                              std::span(flat).subspan(static_cast<std::size_t>(tensor.offset),
                                                      static_cast<std::size_t>(tensor.size)));
  }
  return flat;
}

Common read_common(hid_t file) {
  Common common;
  common.versions = hdf5::read_vector<std::int32_t>(file, "/clock/version");
  for (Described& each : read_descriptions(hdf5::open_group(file, kParameters))) {
    if (each.fragment < 0 || std::cmp_greater_equal(each.fragment, common.versions.size())) {
      refuse("attribute fragment of /params/" + each.tensor.name + " names no fragment");
    }
    common.tensors.push_back(std::move(each.tensor));
    common.fragment_of_tensor.push_back(each.fragment);
  }
  common.parameters = read_tensors(file, kParameters, common.tensors);
  common.config = hdf5::read_texts(hdf5::open_group(file, "config").get());
  return common;
}

template <class T>
std::vector<T> read_counters(hid_t file, const std::string& name, std::size_t expected) {
  std::vector<T> counters = hdf5::read_vector<T>(file, name);
  if (counters.size() != expected) refuse(name + " has another length than the clock");
  return counters;
}

Global read_global(hid_t file) {
  require_kind(file, kGlobalKind);
  Global state;
  state.common = read_common(file);
  state.round = hdf5::read_number<std::int64_t>(file, "round");
  state.tokens = hdf5::read_number<std::int64_t>(file, "tokens");
  state.momentum = read_tensors(file, kMomentum, state.common.tensors);
  state.incarnations = hdf5::read_vector<std::int32_t>(file, "/clock/incarnation");
  state.merged_tokens = read_counters<std::int64_t>(
      file, "/clock/merged_tokens", state.incarnations.size() * state.common.versions.size());
  if (hdf5::has_member(file, "data")) {
    state.shards = hdf5::read_vector<std::int64_t>(file, "/data/shards");
  }
  return state;
}

Learner read_learner(hid_t file) {
  require_kind(file, kLearnerKind);
  Learner state;
  state.common = read_common(file);
  state.learner = hdf5::read_number<std::int32_t>(file, "learner");
  state.incarnation = hdf5::read_number<std::int32_t>(file, "incarnation");
  state.step = hdf5::read_number<std::int64_t>(file, "step");
  state.tokens = hdf5::read_number<std::int64_t>(file, "tokens");
  state.adam_steps = hdf5::read_number<std::int64_t>(file, "adam_steps");
  state.random_state = hdf5::read_number<std::uint64_t>(file, "random_state");
  state.cursor = read_counters<std::int64_t>(file, "/data/cursor", 1).front();
  state.adam_m = read_tensors(file, kAdamM, state.common.tensors);
  if (hdf5::has_member(hdf5::open_group(file, kInner).get(), "adam_v")) {
    state.adam_v = read_tensors(file, kAdamV, state.common.tensors);
  }
  const std::size_t fragments = state.common.versions.size();
  state.steps_since = read_counters<std::int64_t>(file, "/clock/steps_since", fragments);
  state.tokens_since = read_counters<std::int64_t>(file, "/clock/tokens_since", fragments);
  return state;
}

template <class State>
State load(const std::filesystem::path& path, State (*read)(hid_t)) {
  State state;
  with_opened(path, [&state, read](hid_t file) { state = read(file); });
  return state;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (const std::int64_t extent : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + ')';
}

}  // namespace

Global load_global(const std::filesystem::path& file) { return load<Global>(file, read_global); }

Learner load_learner(const std::filesystem::path& file) {
  return load<Learner>(file, read_learner);
}

Common load_parameters(const std::filesystem::path& file) {
  return load<Common>(file, read_common);
}

void require_same_model(const std::vector<model::TensorInfo>& of_file,
                        const std::vector<model::TensorInfo>& of_model, const std::string& file) {
  const auto differ = [&file](const std::string& what) {
    throw Error(ExitCode::bad_data,
                file + " holds another model: " + what + "; give the options it was trained with");
  };
  for (std::size_t i = 0; i < std::min(of_file.size(), of_model.size()); ++i) {
    const model::TensorInfo& ours = of_model[i];
    const model::TensorInfo& theirs = of_file[i];
    if (theirs.name != ours.name) {
      differ("tensor " + std::to_string(i) + " is " + theirs.name + " where this model has " +
             ours.name);
    }
    if (theirs.shape != ours.shape) {
      differ(ours.name + " has shape " + shape_text(theirs.shape) + " where this model has " +
             shape_text(ours.shape));
    }
  }
  if (of_file.size() < of_model.size()) differ(of_model[of_file.size()].name + " is missing");
  if (of_file.size() > of_model.size()) {
    differ(of_file[of_model.size()].name + " is not in this model");
  }
}

}  // namespace archipelago::checkpoint
