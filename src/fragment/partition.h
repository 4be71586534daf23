#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace archipelago::fragment {

// A run of elements in the flat parameter buffer that is one tensor.
struct Piece {
  int tensor;           // index into the list given to partition()
  std::int64_t offset;  // in the flat buffer
  std::int64_t size;    // elements
};

// A fixed subset of the model's tensors, the unit of exchange. On the wire its pieces follow one
// another in this order without gaps.
struct Fragment {
  std::vector<Piece> pieces;
  std::int64_t size = 0;  // elements of all pieces
};

struct TensorExtent {
  std::int64_t offset;
  std::int64_t size;
};

// Balanced tensor fragmentation: tensors whole, longest first into the least-filled fragment, ties
// by lower index (Graham's LPT; Decoupled DiLoCo, balanced tensor fragmentation). The same on every
// rank. At most `fragments` fragments; empty ones are left out, so a small model may have fewer.
std::vector<Fragment> partition(std::span<const TensorExtent> tensors, int fragments);

// Copies the fragment's elements out of / into the flat buffer. `packed` has fragment.size
// elements.
void gather(const Fragment& fragment, std::span<const float> flat, std::span<float> packed);
void scatter(const Fragment& fragment, std::span<const float> packed, std::span<float> flat);

}  // namespace archipelago::fragment
