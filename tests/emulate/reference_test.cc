#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <variant>

#include "core/random.h"
#include "data/image_file.h"
#include "tests/emulate/emulated.h"

namespace archipelago::emulate {
namespace {

constexpr int kLearners = 2;
constexpr int kClasses = 3;
constexpr int kPixels = 16;
constexpr double kRate = 0.05;
constexpr double kOuterRate = 0.7;
constexpr double kOuterMomentum = 0.6;

using Vector = std::vector<double>;
enum Part { kWeight, kBias };  // (kPixels, kClasses) and (kClasses)
using Parts = std::array<Vector, 2>;

double norm_of(const Vector& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

// Softmax regression in double precision by the formulas themselves.
void train_step(Parts& parameters, const data::Samples& samples, int batch) {
  Parts gradients = {Vector(kPixels * kClasses), Vector(kClasses)};
  for (int i = 0; i < batch; ++i) {
    const auto image = samples.images.subspan(i * kPixels, kPixels);
    Vector share(kClasses);
    double sum = 0;
    for (int c = 0; c < kClasses; ++c) {
      double logit = parameters[kBias][c];
      for (int x = 0; x < kPixels; ++x) {
        logit += image[x] * parameters[kWeight][x * kClasses + c];
      }
      sum += share[c] = std::exp(logit);
    }
    for (int c = 0; c < kClasses; ++c) {
      const double slope = (share[c] / sum - (c == samples.targets[i] ? 1 : 0)) / batch;
      gradients[kBias][c] += slope;
      for (int x = 0; x < kPixels; ++x) gradients[kWeight][x * kClasses + c] += slope * image[x];
    }
  }
  for (const Part part : {kWeight, kBias}) {
    for (std::size_t i = 0; i < gradients[part].size(); ++i) {
      parameters[part][i] -= kRate * gradients[part][i];
    }
  }
}

struct Given {
  Vector values;
  double weight;
};

Vector mean_of(const std::vector<Vector>& vectors, const std::vector<Given>& given) {
  Vector mean(vectors[0].size());
  double sum = 0;
  for (const Given& each : given) sum += each.weight;
  for (std::size_t k = 0; k < vectors.size(); ++k) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += given[k].weight / sum * vectors[k][i];
  }
  return mean;
}

// The table by the mean, the bias by radius and direction; then the outer step.
void merge(Part part, const std::vector<Given>& given, Vector& theta, Vector& momentum) {
  std::vector<Vector> deltas;
  for (const Given& each : given) {
    Vector delta(theta.size());
    for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = theta[i] - each.values[i];
    deltas.push_back(delta);
  }
  Vector delta = mean_of(deltas, given);
  if (part == kBias) {
    std::vector<Vector> lengths, directions;
    for (const Vector& each : deltas) {
      const double length = norm_of(each);
      lengths.push_back({length});
      directions.push_back(each);
      for (double& x : directions.back()) x /= length;
    }
    delta = mean_of(directions, given);
    const double factor = mean_of(lengths, given)[0] / norm_of(delta);
    for (double& x : delta) x *= factor;
  }
  for (std::size_t i = 0; i < delta.size(); ++i) {
    momentum[i] = kOuterMomentum * momentum[i] + delta[i];
    theta[i] -= kOuterRate * (delta[i] + kOuterMomentum * momentum[i]);
  }
}

class AgainstAReference : public Emulated {
 protected:
  void SetUp() override {
    Emulated::SetUp();
    Random random(3);
    data::ImageFile file;
    file.classes = kClasses;
    file.side = 4;
    file.mean = {0.5F};
    file.deviation = {0.25F};
    for (auto* split : {&file.train, &file.validation}) {
      for (int i = 0; i < 60; ++i) {
        split->labels.push_back(static_cast<std::uint16_t>(random.below(kClasses)));
        for (int pixel = 0; pixel < kPixels; ++pixel) {
          split->pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
        }
      }
    }
    data::write_image_file(folder_ / "images.h5", file);
    config_ = {};
    config_.model.kind = "linear";
    config_.data.path = (folder_ / "images.h5").string();
    config_.train.batch = 3;
    config_.train.steps = 80;
    config_.train.optimizer = "sgd";
    config_.train.momentum = 0;
    config_.train.schedule = "constant";
    config_.train.warmup = 0;
    config_.train.weight_decay = 0;
    config_.train.clip = 0;
    config_.train.lr = kRate;
    config_.sync.learners = kLearners;
    config_.sync.spares = 0;
    config_.sync.fragments = 2;
    config_.sync.interval = 6;
    config_.sync.outer_lr = kOuterRate;
    config_.sync.outer_momentum = kOuterMomentum;
    conditions_.merge_seconds = 0.5;
  }
};

// When learners were asked, answered and received is on the tape; everything that is computed in
// between is computed again here.
TEST_F(AgainstAReference, ThetaIsWhatTheFormulasSay) {
  conditions_.step_seconds = {1, 1.6};
  const Played played = play();
  const runtime::Setup setup = make_setup();
  ASSERT_EQ(setup.fragment_count(), 2);
  std::vector<float> initial(static_cast<std::size_t>(setup.parameters));
  model::initialize_parameters(setup.tensors, setup.config.model, setup.config.train.seed, initial);
  const auto part_of = [&](int fragment) {
    return setup.fragments[static_cast<std::size_t>(fragment)].size == kClasses ? kBias : kWeight;
  };
  const auto weights = initial.begin() + kPixels * kClasses;
  Parts theta = {Vector(initial.begin(), weights), Vector(weights, initial.end())};
  Parts momentum = {Vector(theta[0].size()), Vector(theta[1].size())};
  std::map<std::pair<int, int>, Vector> published = {{{0, 0}, theta[part_of(0)]},
                                                     {{1, 0}, theta[part_of(1)]}};
  struct Learner {
    Parts parameters;
    std::int64_t steps = 0;
    std::vector<int> held = {-1, -1};
  };
  std::array<Learner, kLearners> learners;
  std::map<std::pair<std::int64_t, int>, Given> given;
  std::map<std::int64_t, sync::Merge> merges;
  const auto batches = runtime::training_batches(*dataset_, setup.config, kLearners);

  std::int64_t merged = 0;
  for (const auto& entry : played.entries) {
    if (const auto* report = std::get_if<sync::Report>(&entry.event)) {
      Learner& learner = learners.at(static_cast<std::size_t>(report->learner));
      for (; learner.steps < report->step; ++learner.steps) {
        std::vector<data::ShardCursor> places;
        for (int i = 0; i < 3; ++i) places.push_back({report->learner, 3 * learner.steps + i});
        train_step(learner.parameters, batches->load(places), 3);
      }
      for (int p = 0; p < 2; ++p) {
        if (report->held[p] == learner.held[p]) continue;
        learner.held[p] = report->held[p];
        learner.parameters[part_of(p)] = published.at({p, report->held[p]});
      }
    } else if (const auto* delivery = std::get_if<sync::Delivery>(&entry.event)) {
      const Learner& learner = learners.at(static_cast<std::size_t>(delivery->learner));
      ASSERT_EQ(delivery->at_tokens, 3 * learner.steps);
      const auto tokens = static_cast<double>(delivery->tokens);
      given[{delivery->round, delivery->learner}] = {
          learner.parameters[part_of(delivery->fragment)],
          delivery->steps == 0 ? 0 : tokens * tokens / static_cast<double>(delivery->steps)};
    } else if (const auto* done = std::get_if<sync::Merged>(&entry.event)) {
      const sync::Merge& action = merges.at(done->round);
      std::vector<Given> inputs;
      for (const auto& part : action.contributions) {
        inputs.push_back(given.at({done->round, part.learner}));
      }
      const Part part = part_of(action.fragment);
      merge(part, inputs, theta[part], momentum[part]);
      ++merged;
    }
    for (const auto& action : entry.actions) {
      if (const auto* decided = std::get_if<sync::Merge>(&action)) {
        merges[decided->round] = *decided;
      } else if (const auto* publish = std::get_if<sync::Publish>(&action)) {
        published[{publish->fragment, publish->version}] = theta[part_of(publish->fragment)];
      }
    }
  }

  EXPECT_GT(merged, 15);
  EXPECT_EQ(merged, played.outcome.merges);
  double largest = 0;
  double moved = 0;
  for (std::size_t i = 0; i < initial.size(); ++i) {
    const bool is_weight = i < theta[kWeight].size();
    const double expected = is_weight ? theta[kWeight][i] : theta[kBias][i - theta[kWeight].size()];
    largest = std::max(largest, std::abs(played.outcome.parameters[i] - expected));
    moved = std::max(moved, std::abs(initial[i] - expected));
  }
  EXPECT_GT(moved, 0.1);
  EXPECT_LT(largest, 1e-5 * moved);
}

}  // namespace
}  // namespace archipelago::emulate
