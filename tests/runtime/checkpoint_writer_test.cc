#include "runtime/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

namespace archipelago::runtime {
namespace {

TEST(CheckpointWriterTest, WritesOnAThreadOfItsOwn) {
  CheckpointWriter writer;
  std::promise<void> go;
  std::thread::id writing;
  writer.start("a test", [&] {
    go.get_future().wait();
    writing = std::this_thread::get_id();
  });
  EXPECT_TRUE(writer.busy()) << "start() did not wait for the write";
  go.set_value();
  EXPECT_TRUE(writer.finish());
  EXPECT_FALSE(writer.busy());
  EXPECT_NE(writing, std::this_thread::get_id());
  EXPECT_NE(writing, std::thread::id());
}

TEST(CheckpointWriterTest, AFailureIsCountedAndTheNextWriteGoesOn) {
  CheckpointWriter writer;
  EXPECT_TRUE(writer.finish()) << "nothing has failed yet";
  writer.start("a test", [] { throw std::runtime_error("disk full"); });
  EXPECT_FALSE(writer.finish());
  EXPECT_EQ(writer.failures(), 1);
  bool written = false;
  writer.start("a test", [&] { written = true; });
  EXPECT_TRUE(writer.finish());
  EXPECT_TRUE(written);
  EXPECT_EQ(writer.failures(), 1);
}

TEST(CheckpointWriterTest, TheEndWaitsForWhatWasAskedFor) {
  bool written = false;
  {
    CheckpointWriter writer;
    writer.start("a test", [&] { written = true; });
  }
  EXPECT_TRUE(written);
}

}  // namespace
}  // namespace archipelago::runtime
