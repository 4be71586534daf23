#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attempt.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/inspect.h"
#include "checkpoint/seal.h"
#include "core/file.h"
#include "data/image_file.h"
#include "data/token_file.h"
#include "hdf5_edits.h"
#include "memory_file.h"

// Sound HDF5 files that hold other things than they should: the input's first byte chooses one of
// this project's files, the rest says how it is edited (hdf5_edits.h). Checkpoints are sealed
// afterwards, so that what stands behind the seal is reached.
namespace {

using namespace archipelago;

checkpoint::Common small_common() {
  checkpoint::Common common;
  common.tensors = {{"wte.weight", {3, 2}, 0, 6, model::TensorRole::table},
                    {"h.0.weight", {2, 2}, 6, 4, model::TensorRole::matrix},
                    {"ln.bias", {2}, 10, 2, model::TensorRole::vector}};
  common.parameters.assign(12, 0.5F);
  common.fragment_of_tensor = {0, 1, 1};
  common.versions = {3, 4};
  common.config = {{"model.width", "2"}, {"sync.fragments", "2"}};
  return common;
}

std::string without_seal(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  return bytes.substr(0, bytes.size() - checkpoint::seal_of({}).size());
}

std::string global_bytes(const std::filesystem::path& folder) {
  checkpoint::Global state;
  state.common = small_common();
  state.momentum.assign(12, 0.25F);
  state.incarnations = {0, 1};
  state.merged_tokens = {1, 2, 3, 4};
  state.shards = {5, 6};
  checkpoint::save_as(folder / "global", state);
  return without_seal(folder / "global");
}

std::string learner_bytes(const std::filesystem::path& folder) {
  checkpoint::Learner state;
  state.common = small_common();
  state.adam_m.assign(12, 0.25F);
  state.adam_v.assign(12, 0.25F);
  state.steps_since = {1, 2};
  state.tokens_since = {3, 4};
  checkpoint::save(folder, state, 1);
  return without_seal(folder / checkpoint::learner_name(0, 0));
}

std::string token_bytes(const std::filesystem::path& folder) {
  data::TokenFile tokens;
  tokens.vocabulary = 258;
  tokens.train = {97, 98, 256, 257};
  tokens.validation = {97, 256};
  tokens.train_bytes = 7;
  tokens.validation_bytes = 3;
  tokens.merges = {{97, 98}, {256, 97}};
  data::write_token_file(folder / "tokens", tokens);
  return read_file(folder / "tokens");
}

std::string image_bytes(const std::filesystem::path& folder) {
  data::ImageFile images;
  images.classes = 2;
  images.side = 2;
  images.train = {{1, 2, 3, 4, 5, 6, 7, 8}, {0, 1}};
  images.validation = {{1, 2, 3, 4}, {1}};
  images.mean = {0.5F};
  images.deviation = {0.5F};
  data::write_image_file(folder / "images", images);
  return read_file(folder / "images");
}

struct Originals {
  Originals() {
    const std::filesystem::path folder =
        "/dev/shm/archipelago_fuzz_originals." + std::to_string(getpid());
    std::filesystem::create_directory(folder);
    bytes = {global_bytes(folder), learner_bytes(folder), token_bytes(folder), image_bytes(folder)};
    std::filesystem::remove_all(folder);
  }
  std::vector<std::string> bytes;
};

void read_checkpoint(std::string bytes) {
  bytes += checkpoint::seal_of(std::as_bytes(std::span(bytes)));
  const MemoryFile file(bytes);
  attempt([&] { checkpoint::load_global(file.path()); });
  attempt([&] { checkpoint::load_learner(file.path()); });
  attempt([&] { checkpoint::inspect(file.path()); });
  attempt([&] { checkpoint::compare(file.path(), file.path()); });
}

void read_tokens(const std::string& bytes) {
  const MemoryFile file(bytes);
  attempt([&] {
    const data::TokenFile tokens = data::read_token_file(file.path());
    if (!tokens.merges.empty()) data::Tokenizer(tokens.merges).decode(tokens.train);
    if (tokens.train_bytes < 0 || tokens.validation_bytes < 0) std::abort();
  });
}

void read_images(const std::string& bytes) {
  const MemoryFile file(bytes);
  attempt([&] {
    const data::ImageFile images = data::read_image_file(file.path());
    for (const data::ImageSplit* split : {&images.train, &images.validation}) {
      const auto pixels = static_cast<std::int64_t>(split->labels.size()) * images.numbers();
      if (std::cmp_not_equal(split->pixels.size(), pixels)) std::abort();
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Originals originals;
  fuzz::Choices choices({data, size});
  const std::size_t kind = choices.below(originals.bytes.size());
  const std::string edited = fuzz::edited(originals.bytes[kind], choices);
  if (kind < 2) {
    read_checkpoint(edited);
  } else if (kind == 2) {
    read_tokens(edited);
  } else {
    read_images(edited);
  }
  return 0;
}
