#include "evaluate/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace archipelago::evaluate {
namespace {

// Ids, likeliest first, cut after the top k.
std::vector<std::int32_t> likeliest(std::span<const float> logits, std::int64_t top_k) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto kept = top_k > 0 ? std::min(ids.size(), static_cast<std::size_t>(top_k)) : ids.size();
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end(),
                    [logits](std::int32_t a, std::int32_t b) {
                      const float left = logits[static_cast<std::size_t>(a)];
                      const float right = logits[static_cast<std::size_t>(b)];
                      return left != right ? left > right : a < b;
                    });
  ids.resize(kept);
  return ids;
}

}  // namespace

std::int32_t draw_token(std::span<const float> logits, const Sampling& sampling, Random& random) {
  const auto ids = likeliest(logits, sampling.temperature == 0 ? 1 : sampling.top_k);
  if (ids.size() == 1) return ids.front();
  const double largest = logits[static_cast<std::size_t>(ids.front())];
  std::vector<double> sums;  // of the weights up to each id
  for (const std::int32_t id : ids) {
    const double weight =
        std::exp((logits[static_cast<std::size_t>(id)] - largest) / sampling.temperature);
    sums.push_back(weight + (sums.empty() ? 0 : sums.back()));
  }
  const double drawn = random.uniform() * sums.back();
  const auto found = std::upper_bound(sums.begin(), sums.end() - 1, drawn);
  return ids[static_cast<std::size_t>(found - sums.begin())];
}

void continue_tokens(model::Model& model, const config::Model& config,
                     std::vector<std::int32_t>& tokens, std::int64_t count,
                     const Sampling& sampling, Random& random,
                     const std::function<void(std::int32_t)>& each) {
  std::vector<float> logits(static_cast<std::size_t>(config.vocabulary));
  const auto drawable = std::span(logits).first(static_cast<std::size_t>(sampling.vocabulary));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto seen = std::min(tokens.size(), static_cast<std::size_t>(config.context));
    model.next_logits(std::span(tokens).last(seen), logits);
    if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
      throw Error(ExitCode::bad_data,
                  "the model gives no finite probabilities; its training "
                  "diverged, use an earlier checkpoint");
    }
    tokens.push_back(draw_token(drawable, sampling, random));
    each(tokens.back());
  }
}

}  // namespace archipelago::evaluate
