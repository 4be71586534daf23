#include "runtime/setup.h"

#include <algorithm>

#include "core/error.h"

namespace archipelago::runtime {
namespace {

std::vector<sync::MergePiece> merge_pieces(const fragment::Fragment& fragment,
                                           const std::vector<model::TensorInfo>& tensors,
                                           sync::MergeRule rule) {
  std::vector<sync::MergePiece> pieces;
  std::int64_t offset = 0;
  for (const fragment::Piece& piece : fragment.pieces) {
    const bool is_table =
        tensors[static_cast<std::size_t>(piece.tensor)].role == model::TensorRole::table;
    pieces.push_back({offset, piece.size, is_table ? sync::MergeRule::mean : rule});
    offset += piece.size;
  }
  return pieces;
}

}  // namespace

Setup make_setup(const config::RunConfig& config, std::int64_t data_vocabulary) {
  Setup setup{config, {}, {}, {}, {}};
  auto& vocabulary = setup.config.model.vocabulary;
  if (vocabulary == 0) vocabulary = data_vocabulary;
  if (vocabulary < data_vocabulary) {
    throw Error(ExitCode::bad_data, "model.vocabulary is " + std::to_string(vocabulary) + " but " +
                                        config.data.path + " has a vocabulary of " +
                                        std::to_string(data_vocabulary) +
                                        "; set model.vocabulary to that (or 0), or prepare the "
                                        "data again");
  }
  setup.tensors = model::describe_tensors(setup.config.model);

  std::vector<fragment::TensorExtent> extents;
  for (const auto& tensor : setup.tensors) {
    extents.push_back({tensor.offset, tensor.size});
    setup.parameters += tensor.size;
  }
  setup.fragments = fragment::partition(extents, config.sync.fragments);
  setup.config.sync.fragments = setup.fragment_count();

  const auto rule =
      config.sync.merge == "mean" ? sync::MergeRule::mean : sync::MergeRule::radial_directional;
  setup.fragment_of_tensor.resize(setup.tensors.size());
  for (int p = 0; p < setup.fragment_count(); ++p) {
    const auto& fragment = setup.fragments[static_cast<std::size_t>(p)];
    setup.pieces.push_back(merge_pieces(fragment, setup.tensors, rule));
    setup.largest_fragment = std::max(setup.largest_fragment, fragment.size);
    for (const auto& piece : fragment.pieces) {
      setup.fragment_of_tensor[static_cast<std::size_t>(piece.tensor)] = p;
    }
  }
  return setup;
}

}  // namespace archipelago::runtime
