#include "evaluate/text_loss.h"

#include <algorithm>
#include <vector>

namespace archipelago::evaluate {

double text_loss(model::Model& model, std::span<const std::uint16_t> tokens, std::int64_t context,
                 std::int64_t batch) {
  if (tokens.size() < 2) return 0;
  const std::size_t predicted = tokens.size() - 1;
  const auto window = static_cast<std::size_t>(context);
  const auto block = static_cast<std::size_t>(batch) * window;
  std::vector<std::int32_t> inputs(block);
  std::vector<std::int32_t> targets(block);
  double sum = 0;
  for (std::size_t first = 0; first < predicted; first += block) {
    const std::size_t count = std::min(block, predicted - first);
    const std::size_t windows = (count + window - 1) / window;
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(first), count, inputs.begin());
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(first) + 1, count, targets.begin());
    // Past the end of the text: any token, which counts for nothing.
    std::fill(inputs.begin() + static_cast<std::ptrdiff_t>(count), inputs.end(), 0);
    std::fill(targets.begin() + static_cast<std::ptrdiff_t>(count), targets.end(), -1);
    const float mean =
        model.loss({static_cast<std::int64_t>(windows), std::span(inputs).first(windows * window),
                    std::span(targets).first(windows * window)});
    sum += static_cast<double>(mean) * static_cast<double>(count);
  }
  return sum / static_cast<double>(predicted);
}

}  // namespace archipelago::evaluate
