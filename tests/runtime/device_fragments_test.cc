// What a learner on a GPU sends up is what a processor would have made of its parameters.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "fragment/partition.h"
#include "runtime/fragment_encoder.h"
#include "runtime/global_state.h"
#include "runtime/learner_state.h"
#include "tests/runtime/tiny_setup.h"
#include "tests/runtime/tiny_text.h"

namespace archipelago::runtime {
namespace {

class DeviceFragmentsTest : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  void SetUp() override {
    if (kernels::cuda_devices() == 0) GTEST_SKIP() << kernels::why_no_cuda();
    std::filesystem::create_directories(folder_);
    write_tiny_text(folder_ / "text.h5", 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  runtime::Setup make_tiny_setup(const data::Dataset& dataset) const {
    config::RunConfig config = tiny_config();
    config.data.path = (folder_ / "text.h5").string();
    config.train.batch = 4;
    config.train.warmup = 3;
    config.sync.learners = 1;
    config.sync.fragments = 2;
    config.wire = {GetParam().first, GetParam().second};
    config.model = fit_model(config.model, dataset, config.data.path);
    return make_setup(config);
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                  ("device_fragments_test." + std::to_string(getpid()));
};
INSTANTIATE_TEST_SUITE_P(Wires, DeviceFragmentsTest,
                         testing::Values(std::pair{"f32", "f32"}, std::pair{"f32", "bf16"},
                                         std::pair{"bf16", "f32"}, std::pair{"int8", "bf16"},
                                         std::pair{"e3m0", "bf16"}),
                         [](const auto& wire) {
                           return std::string(wire.param.first) + "_" + wire.param.second;
                         });

TEST_P(DeviceFragmentsTest, AreWhatTheProcessorWouldSend) {
  const auto dataset = data::open_dataset((folder_ / "text.h5").string());
  const runtime::Setup setup = make_tiny_setup(*dataset);
  GlobalState global(setup);
  LearnerState state(setup, *dataset, kernels::make_cuda_kernels({}), 0, 0, 1);
  EXPECT_FALSE(state.needs_base()) << "the device keeps what it received itself";
  FragmentEncoder processor(setup.wire, setup.fragment_count(), 1);
  FragmentEncoder encoder(setup.wire, setup.fragment_count(), 1);
  std::vector<link::Bytes> bases(setup.fragments.size());
  std::vector<float> room;
  for (int life = 0; life < 2; ++life) {
    state.begin(life, 0, nullptr);
    state.take_fixed_share();
    for (int p = 0; p < setup.fragment_count(); ++p) {
      const auto data = global.payload(p).bytes();
      bases[static_cast<std::size_t>(p)] = {data.begin(), data.end()};
      state.receive_encoded(p, 0, data);
    }
    for (int round = 0; round < 3; ++round) {
      state.step([](std::span<float>) {});
      const auto parameters = state.arrays(room).parameters;
      for (int p = 0; p < setup.fragment_count(); ++p) {
        const auto& fragment = setup.fragments[static_cast<std::size_t>(p)];
        link::Values values(static_cast<std::size_t>(fragment.size));
        fragment::gather(fragment, parameters, values);
        link::FragmentHeader expected_header = state.header(p, round), header = expected_header;
        link::Bytes expected_buffer, buffer;
        const auto expected = processor.encode(
            expected_header, values, {}, &bases[static_cast<std::size_t>(p)], expected_buffer);
        state.take_fragment(p);
        std::shared_ptr<const kernels::HostArray> taken;
        while ((taken = state.taken_fragment()) == nullptr) {
        }
        const auto sent = encoder.encode(header, *taken, nullptr, buffer);
        EXPECT_TRUE(std::ranges::equal(sent, expected)) << "life " << life << ", round " << round;
        EXPECT_EQ(header.checksum, expected_header.checksum);
        EXPECT_EQ(header.encoding, expected_header.encoding);
      }
    }
  }
}

}  // namespace
}  // namespace archipelago::runtime
