#include "runtime/resources.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace archipelago::runtime {
namespace {

TEST(RequireMemory, NamesBothSizes) {
  require_memory(3e9, 3e9);
  try {
    require_memory(4 << 20, 3 << 20);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("need 4 MiB of memory, it has 3;"), std::string::npos);
  }
}

TEST(RequireWindowRoom, CountsAWindowForEachLeader) {
  const link::MailboxLayout mailbox(4, 1000);
  require_window_room(mailbox, 3, 3 * mailbox.bytes(), "/dev/shm");
  try {
    require_window_room(mailbox, 3, 3 * mailbox.bytes() - 1, "/dev/shm");
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("/dev/shm"), std::string::npos);
  }
}

}  // namespace
}  // namespace archipelago::runtime
