#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>

#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "core/file.h"
#include "example_state.h"

namespace archipelago::checkpoint {
namespace {

TEST(RoundTrip, Global) {
  const TemporaryFolder folder;
  const Global state = example_global(42);
  save(folder.path() / "new" / "folder", state, 3);
  expect_same(load_global(folder.path() / "new/folder/global-0000000042.h5"), state);
}

TEST(RoundTrip, Learner) {
  const TemporaryFolder folder;
  const Learner state = example_learner(11, 1000);
  save(folder.path(), state, 3);
  expect_same(load_learner(folder.path() / "learner-11-0000001000.h5"), state);
}

TEST(RoundTrip, NotANumberAndZerosSurvive) {
  const TemporaryFolder folder;
  Global state = example_global(1);
  state.common.parameters[0] = -0.0f;
  state.common.parameters[1] = std::numeric_limits<float>::infinity();
  state.common.parameters[2] = std::numeric_limits<float>::denorm_min();
  save(folder.path(), state, 1);
  const Global again = load_global(folder.path() / global_name(1));
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(again.common.parameters)),
                                 std::as_bytes(std::span(state.common.parameters))));
}

TEST(RoundTrip, NewestReadableIsTaken) {
  const TemporaryFolder folder;
  EXPECT_FALSE(newest_global(folder.path()));
  EXPECT_FALSE(newest_global(folder.path() / "absent"));
  for (const int round : {9, 10, 11}) save(folder.path(), example_global(round), 5);
  EXPECT_EQ(newest_global(folder.path())->round, 11);

  const auto newest = folder.path() / global_name(11);
  const std::string whole = read_file(newest);
  write_file(newest, whole.substr(0, whole.size() - 100), Durability::unflushed);
  EXPECT_EQ(newest_global(folder.path())->round, 10);
  write_file(folder.path() / global_name(10), "", Durability::unflushed);
  EXPECT_EQ(newest_global(folder.path())->round, 9);
}

TEST(RoundTrip, NewestOfOneOrAnyLearner) {
  const TemporaryFolder folder;
  save(folder.path(), example_learner(0, 300), 5);
  save(folder.path(), example_learner(1, 200), 5);
  save(folder.path(), example_learner(1, 250), 5);
  save(folder.path(), example_learner(10, 400), 5);
  EXPECT_EQ(newest_learner(folder.path(), 1)->step, 250);
  EXPECT_EQ(newest_learner(folder.path(), -1)->learner, 10);
  EXPECT_FALSE(newest_learner(folder.path(), 2));
}

std::string difference(const Common& file, const Common& model) {
  try {
    require_same_model(file.tensors, model.tensors, "file.h5");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    return error.what();
  }
  return "";
}

TEST(SameModel, FirstDifferenceIsNamed) {
  const Common file = example_common(1);
  EXPECT_EQ(difference(file, file), "");

  Common model = file;
  model.tensors[2].shape = {32, 128};
  EXPECT_NE(difference(file, model)
                .find("h.0.attn.c_attn.weight has shape (32, 96) where this model has (32, 128)"),
            std::string::npos);
  model = file;
  model.tensors.pop_back();
  EXPECT_NE(difference(file, model).find("h.0.attn.c_attn.weight is not in this model"),
            std::string::npos);
  EXPECT_NE(difference(model, file).find("h.0.attn.c_attn.weight is missing"), std::string::npos);
  model = file;
  std::swap(model.tensors[1], model.tensors[2]);
  EXPECT_NE(difference(file, model).find("tensor 1 is h.0.ln_1.bias"), std::string::npos);
}

}  // namespace
}  // namespace archipelago::checkpoint
