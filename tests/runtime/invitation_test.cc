#include "runtime/invitation.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"
#include "runtime/guest_door.h"

namespace archipelago::runtime {
namespace {

namespace fs = std::filesystem;

class InvitationTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& text) const { std::ofstream(file()) << text; }
  fs::path file() const { return folder_ / "join.json"; }

 private:
  fs::path folder_ =
      fs::temp_directory_path() / ("archipelago-invitation-" + std::to_string(::getpid()));
};

TEST_F(InvitationTest, ComesBackAsWritten) {
  const Invitation written{{"host.example", 4711}, link::random_secret()};
  write_invitation(file(), {{"other", 1}, link::random_secret()});
  write_invitation(file(), written);
  const auto read = read_invitation(file());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->address.host, "host.example");
  EXPECT_EQ(read->address.port, 4711);
  EXPECT_EQ(read->secret, written.secret);
  EXPECT_EQ(std::distance(fs::directory_iterator(file().parent_path()), {}), 1);
}

TEST_F(InvitationTest, IsForItsOwnerAlone) {
  write_invitation(file(), {{"host", 1}, link::random_secret()});
  struct stat status {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(InvitationTest, NothingWithoutAFile) { EXPECT_FALSE(read_invitation(file())); }

TEST_F(InvitationTest, RefusesWhatIsNone) {
  const std::string secret(64, 'a');
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string(R"({"address": 3})"),
        R"({"address": "host", "secret": ")" + secret + "\"}",
        R"({"address": "host:70000", "secret": ")" + secret + "\"}",
        std::string(R"({"address": "host:1", "secret": "aa"})"), std::string(1 << 20, '[')}) {
    write(text);
    try {
      read_invitation(file());
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      const std::string line = error.what();
      EXPECT_NE(line.find("join.json"), std::string::npos);
      EXPECT_EQ(line.find("json.exception"), std::string::npos) << "a user does not know it";
    }
  }
}

TEST(GuestDescription, LeavesOutWhatIsEachMachinesOwn) {
  const Description of_run = {
      {"out", "/a/run"},      {"data.path", "/a/data.h5"},   {"train.lr", "0.1"},
      {"train.threads", "2"}, {"digest of /a/data.h5", "d"}, {"build", "b"}};
  const Description of_guest = {
      {"out", "/b/run"},      {"data.path", "/b/data.h5"},   {"train.lr", "0.1"},
      {"train.threads", "8"}, {"digest of /b/data.h5", "d"}, {"build", "b"}};
  EXPECT_EQ(guest_description(of_run), guest_description(of_guest));
  for (const char* const name : {"train.lr", "digest of /b/data.h5", "build"}) {
    auto other = of_guest;
    other[name] = "other";
    EXPECT_TRUE(difference(guest_description(other), guest_description(of_run))) << name;
  }
}

}  // namespace
}  // namespace archipelago::runtime
