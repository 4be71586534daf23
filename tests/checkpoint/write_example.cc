// Writes a global and a learner checkpoint for h5py_test.py into the folder given.
#include <numeric>

#include "checkpoint/checkpoint.h"

int main(int count, char** arguments) {
  using namespace archipelago;
  if (count != 2) return 64;
  checkpoint::Common common;
  common.tensors = {{"wte.weight", {700, 401}, 0, 280'700, model::TensorRole::table},
                    {"ln_f.bias", {16}, 280'700, 16, model::TensorRole::vector}};
  common.parameters.resize(280'716);
  std::iota(common.parameters.begin(), common.parameters.end(), 0.5F);
  common.fragment_of_tensor = {0, 1};
  common.versions = {4, 3};
  common.config = {{"train.lr", "0.003"}, {"data.path", "höhle.h5"}};

  checkpoint::Global global;
  global.common = common;
  global.momentum.assign(common.parameters.size(), -2);
  global.round = 7;
  global.tokens = std::int64_t{1} << 40;
  global.incarnations = {0, 2, 1};
  global.merged_tokens = {1, 2, 3, 4, 5, 6};
  checkpoint::save(arguments[1], global, 1);

  checkpoint::Learner learner;
  learner.common = common;
  learner.learner = 1;
  learner.step = 12;
  learner.cursor = 4711;
  learner.adam_m.assign(common.parameters.size(), 1);
  learner.adam_v.assign(common.parameters.size(), 2);
  learner.random_state = 0xFEDCBA9876543210;
  learner.steps_since = {7, 9};
  learner.tokens_since = {70, 90};
  checkpoint::save(arguments[1], learner, 1);
  return 0;
}
