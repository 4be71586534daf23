#include "fragment/partition.h"

#include <algorithm>
#include <numeric>

namespace archipelago::fragment {

std::vector<Fragment> partition(std::span<const TensorExtent> tensors, int fragments) {
  std::vector<int> longest_first(tensors.size());
  std::iota(longest_first.begin(), longest_first.end(), 0);
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](int a, int b) { return tensors[a].size > tensors[b].size; });
  std::vector<Fragment> result(std::max(fragments, 1));
  for (const int tensor : longest_first) {
    const auto least_filled =
        std::min_element(result.begin(), result.end(),
                         [](const Fragment& a, const Fragment& b) { return a.size < b.size; });
    least_filled->pieces.push_back({tensor, tensors[tensor].offset, tensors[tensor].size});
    least_filled->size += tensors[tensor].size;
  }
  std::erase_if(result, [](const Fragment& fragment) { return fragment.size == 0; });
  return result;
}

void gather(const Fragment& fragment, std::span<const float> flat, std::span<float> packed) {
  auto out = packed.begin();
  for (const Piece& piece : fragment.pieces) {
    const auto values = flat.subspan(piece.offset, piece.size);
    out = std::copy(values.begin(), values.end(), out);
  }
}

void scatter(const Fragment& fragment, std::span<const float> packed, std::span<float> flat) {
  std::int64_t read = 0;
  for (const Piece& piece : fragment.pieces) {
    const auto values = packed.subspan(read, piece.size);
    std::copy(values.begin(), values.end(), flat.begin() + piece.offset);
    read += piece.size;
  }
}

}  // namespace archipelago::fragment
