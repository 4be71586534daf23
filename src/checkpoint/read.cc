#include <algorithm>
#include <cmath>
#include <limits>
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

// The incarnation of a place that nobody has had.
constexpr int kNobodyYet = -1;

[[noreturn]] void refuse(const std::string& why) { throw hdf5::Failure(why); }

// What counts something, from `least` on: so small that no sum of it overflows, and that every tool
// keeps its digits.
template <class T>
void require_count(T value, const std::string& name, int least = 0) {
  constexpr std::int64_t kMost = sizeof(T) > sizeof(std::int32_t) ? 1LL << 53 : 1LL << 30;
  if (std::cmp_less(value, least) || std::cmp_greater(value, kMost)) {
    refuse(name + " is " + std::to_string(value) + ", not from " + std::to_string(least) + " to " +
           std::to_string(kMost));
  }
}

template <class T>
T read_count(hid_t file, const std::string& name) {
  const T value = hdf5::read_number<T>(file, name);
  require_count(value, name);
  return value;
}

template <class T>
std::vector<T> read_counts(hid_t file, const std::string& name, int least = 0) {
  std::vector<T> counts = hdf5::read_vector<T>(file, name);
  for (const T count : counts) require_count(count, name, least);
  return counts;
}

// Where so many are expected.
template <class T>
std::vector<T> read_all_counts(hid_t file, const std::string& name, std::size_t expected) {
  std::vector<T> counts = read_counts<T>(file, name);
  if (counts.size() != expected) refuse(name + " has another length than the clock");
  return counts;
}

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

// Moments that no step can have left would be taken for the learner's own.
void require_moments(const std::vector<float>& moments, float least, const std::string& name) {
  for (const float moment : moments) {
    if (std::isfinite(moment) && moment >= least) continue;
    refuse(name + " holds " + std::to_string(moment) + ", which is no moment of gradients");
  }
}

Common read_common(hid_t file) {
  Common common;
  common.versions = read_counts<std::int32_t>(file, "/clock/version");
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

Global read_global(hid_t file) {
  require_kind(file, kGlobalKind);
  Global state;
  state.common = read_common(file);
  state.round = read_count<std::int64_t>(file, "round");
  state.tokens = read_count<std::int64_t>(file, "tokens");
  state.momentum = read_tensors(file, kMomentum, state.common.tensors);
  state.incarnations = read_counts<std::int32_t>(file, "/clock/incarnation", kNobodyYet);
  state.merged_tokens = read_all_counts<std::int64_t>(
      file, "/clock/merged_tokens", state.incarnations.size() * state.common.versions.size());
  if (hdf5::has_member(file, "data")) {
    state.shards = read_counts<std::int64_t>(file, "/data/shards");
  }
  return state;
}

Learner read_learner(hid_t file) {
  require_kind(file, kLearnerKind);
  Learner state;
  state.common = read_common(file);
  state.learner = read_count<std::int32_t>(file, "learner");
  state.incarnation = read_count<std::int32_t>(file, "incarnation");
  state.step = read_count<std::int64_t>(file, "step");
  state.tokens = read_count<std::int64_t>(file, "tokens");
  state.adam_steps = read_count<std::int64_t>(file, "adam_steps");
  state.random_state = hdf5::read_number<std::uint64_t>(file, "random_state");
  state.cursor = read_all_counts<std::int64_t>(file, "/data/cursor", 1).front();
  state.adam_m = read_tensors(file, kAdamM, state.common.tensors);
  require_moments(state.adam_m, std::numeric_limits<float>::lowest(), kAdamM);
  if (hdf5::has_member(hdf5::open_group(file, kInner).get(), "adam_v")) {
    state.adam_v = read_tensors(file, kAdamV, state.common.tensors);
    require_moments(state.adam_v, 0, kAdamV);
  }
  const std::size_t fragments = state.common.versions.size();
  state.steps_since = read_all_counts<std::int64_t>(file, "/clock/steps_since", fragments);
  state.tokens_since = read_all_counts<std::int64_t>(file, "/clock/tokens_since", fragments);
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

void require_readable(const std::filesystem::path& file) {
  with_opened(file, [](hid_t opened) {
    if (hdf5::read_text(opened, "kind") == kLearnerKind) {
      read_learner(opened);
    } else {
      read_global(opened);
    }
  });
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
