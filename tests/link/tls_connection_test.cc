#include "link/tls_connection.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <string>
#include <vector>

#include "connected.h"
#include "core/error.h"
#include "link/tls_listener.h"

namespace archipelago::link {
namespace {

class TlsListenerTest : public testing::Test {
 protected:
  std::future<ExitCode> call_with(const Secret& secret) {
    return std::async(std::launch::async, [this, secret] {
      try {
        TlsConnection::connect(listener_.address(), secret, kLong);
        return ExitCode::done;
      } catch (const Error& error) {
        return error.code();
      }
    });
  }

  Secret secret_ = random_secret();
  TlsListener listener_{{"127.0.0.1", 0}, secret_};
};

TEST_F(TlsListenerTest, AnotherSecretIsTurnedAway) {
  auto stranger = call_with(random_secret());
  EXPECT_TRUE(comes([&] {
    EXPECT_FALSE(listener_.accept(0.01));
    return stranger.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }));
  EXPECT_EQ(stranger.get(), ExitCode::configuration);
  auto friendly = call_with(secret_);
  EXPECT_TRUE(listener_.accept(kLong));
  EXPECT_EQ(friendly.get(), ExitCode::done);
}

TEST_F(TlsListenerTest, WhoSaysNothingKeepsNobodyWaiting) {
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 10; ++i) {
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(listener_.address().port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  auto friendly = call_with(secret_);
  EXPECT_TRUE(listener_.accept(kLong));
  EXPECT_EQ(friendly.get(), ExitCode::done);
}

TEST_F(TlsListenerTest, WhatIsNoTlsIsTurnedAway) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(listener_.address().port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(::send(socket.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  char answer[256];
  auto is_closed = std::async(std::launch::async, [&] {
    while (::recv(socket.get(), answer, sizeof answer, 0) > 0) {
    }
    return true;
  });
  EXPECT_TRUE(comes([&] {
    EXPECT_FALSE(listener_.accept(0.01));
    return is_closed.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }));
}

TEST_F(TlsListenerTest, ThePortIsTaken) {
  try {
    const TlsListener other(listener_.address(), secret_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("sync.listen"), std::string::npos);
  }
}

TEST(TlsConnectionTest, NobodyAnswers) {
  Address address;
  {
    const TlsListener listener({"127.0.0.1", 0}, {});
    address = listener.address();
    EXPECT_EQ(silence_of(address, kLong), std::nullopt);
  }
  EXPECT_EQ(silence_of(address, kLong),
            "nobody answers at " + to_text(address) + " (Connection refused)");
  try {
    TlsConnection::connect(address, {}, kLong);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::try_again);
  }
}

// Another service has the port now: the run may come back at another one.
TEST(TlsConnectionTest, SomethingElseAnswers) {
  const FileDescriptor service(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(service.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(service.get(), 1), 0);
  ASSERT_EQ(::getsockname(service.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  auto answer = std::async(std::launch::async, [&] {
    FileDescriptor caller(::accept(service.get(), nullptr, nullptr));
    const std::string words = "HTTP/1.0 400 Bad request\r\n\r\n";
    EXPECT_GT(::send(caller.get(), words.data(), words.size(), 0), 0);
    return caller;
  });
  try {
    TlsConnection::connect({"127.0.0.1", ntohs(at.sin_port)}, random_secret(), kLong);
    FAIL() << "took it for a run";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::try_again) << error.what();
  }
}

TEST(TlsConnectionTest, WordsAreBounded) {
  Pair pair = connected();
  const Bytes words = random_bytes(100'000, 1);
  pair.leader.send(words, kLong);
  EXPECT_EQ(pair.syncer.receive(words.size(), kLong), words);
  pair.leader.send(words, kLong);
  EXPECT_THROW(pair.syncer.receive(words.size() - 1, kLong), Error);
  EXPECT_THROW(pair.leader.receive(10, 0.01), Error);
}

TEST(AddressTest, ComesBackAsWritten) {
  for (const char* const text : {"host:1", "10.0.0.1:65535", "[::1]:4711", "[fe80::1%eth0]:0"}) {
    EXPECT_EQ(to_text(parse_address(text)), text);
  }
  for (const char* const text :
       {"", "host", ":1", "host:", "host:65536", "host:-1", "host:1x", "::1:4711", "[]:1"}) {
    EXPECT_THROW(parse_address(text), Error) << text;
  }
  for (const std::string text : {"host:65536", "[::1]:99999999999999999999"}) {
    try {
      parse_address(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "the port of '" + text + "' is above 65535");
    }
  }
}

TEST(SecretTest, ComesBackAsWritten) {
  const Secret secret = random_secret();
  EXPECT_EQ(secret_from_hex(to_hex(secret)), secret);
  EXPECT_NE(random_secret(), secret);
  for (const std::string& text :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g'),
        std::string(32, '-') + std::string(32, '1')}) {
    EXPECT_THROW(secret_from_hex(text), Error) << text;
  }
}

}  // namespace
}  // namespace archipelago::link
