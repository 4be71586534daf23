#include "runtime/guest_door.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "core/blocked_signals.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"

namespace archipelago::runtime {
namespace {

constexpr double kLookSeconds = 0.2;
constexpr double kAnswerSeconds = 5;
constexpr double kKnockSeconds = 10;
constexpr std::size_t kLongestWords = 1 << 20;
constexpr std::size_t kMostMembers = 4096;

void send_words(link::TlsConnection& connection, const nlohmann::json& words) {
  const std::string text = words.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  connection.send(std::as_bytes(std::span(text)), kAnswerSeconds);
}

nlohmann::json receive_words(link::TlsConnection& connection, double seconds) {
  const auto bytes = connection.receive(kLongestWords, seconds);
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  auto words = nlohmann::json::parse(text, text + bytes.size(), nullptr, false);
  if (!words.is_object()) throw Error(ExitCode::try_again, "it said something else than expected");
  return words;
}

std::vector<island::Member> members_in(const nlohmann::json& words) {
  std::vector<island::Member> members;
  for (const auto& member : words.at("members")) {
    members.push_back({member.at("host").get<std::string>(), member.at("pid").get<std::int64_t>()});
  }
  if (members.empty() || members.size() > kMostMembers) {
    throw Error(ExitCode::bad_data, "it has no ranks, or too many");
  }
  return members;
}

// Any host's address will do: then this one's name leads here.
link::Address advertised(link::Address address) {
  const bool is_any = address.host == "0.0.0.0" || address.host == "::" || address.host == "*";
  if (is_any) address.host = host_name();
  return address;
}

}  // namespace

link::Address address_to_listen(const std::string& listen) try {
  return link::parse_address(listen);
} catch (const Error& error) {
  throw Error(error.code(), std::string("sync.listen: ") + error.what());
}

Description guest_description(Description of_run) {
  Description description;
  const std::string digest = "digest of " + of_run["data.path"];
  for (auto& [name, value] : of_run) {
    const bool is_own = name == "out" || name == "data.path" || name == "device" ||
                        name == "profile" || name == "chaos" || name == "train.threads" ||
                        name == "sync.listen" || name == "sync.standby" || name == "sync.spares" ||
                        name == "sync.refill" || name == "sync.ranks_per_learner";
    if (!is_own) description[name == digest ? "digest of the data" : name] = std::move(value);
  }
  return description;
}

GuestDoor::GuestDoor(const std::string& listen, std::filesystem::path file, Description description)
    : file_(std::move(file)), description_(guest_description(std::move(description))) {
  const link::Address address = address_to_listen(listen);
  const auto before = read_invitation(file_);
  const link::Secret secret = before ? before->secret : link::random_secret();
  listener_ = std::make_unique<link::TlsListener>(address, secret);
  write_invitation(file_, {advertised(listener_->address()), secret});
  log_info("guests come in at " + link::to_text(advertised(listener_->address())));
  const BlockedSignals for_other_threads;
  thread_ = std::thread([this] { run(); });
}

GuestDoor::~GuestDoor() {
  closing_ = true;
  thread_.join();
}

std::vector<Guest> GuestDoor::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(arrived_, {});
}

void GuestDoor::run() noexcept {
  while (!closing_) {
    try {
      if (auto connection = listener_->accept(kLookSeconds)) meet(std::move(*connection));
    } catch (const std::exception& error) {
      log_warning(std::string("a guest was not let in: ") + error.what());
    }
  }
}

void GuestDoor::meet(link::TlsConnection connection) {
  const auto words = receive_words(connection, kAnswerSeconds);
  const auto other = difference(words.at("description").get<Description>(), description_);
  if (other) {
    send_words(connection, {{"refused", *other}});
    throw Error(ExitCode::configuration, *other);
  }
  auto members = members_in(words);
  send_words(connection, {{"welcome", true}});
  log_info("a guest has come: " + std::to_string(members.size()) + " rank" +
           (members.size() > 1 ? "s" : "") + " on " + members.front().host);
  const std::lock_guard lock(mutex_);
  arrived_.push_back({std::move(connection), std::move(members)});
}

link::TlsConnection knock(const Invitation& invitation, const Description& own,
                          const std::vector<island::Member>& members) {
  auto connection =
      link::TlsConnection::connect(invitation.address, invitation.secret, kKnockSeconds);
  auto listed = nlohmann::json::array();
  for (const auto& member : members) listed.push_back({{"host", member.host}, {"pid", member.pid}});
  send_words(connection, {{"description", guest_description(own)}, {"members", std::move(listed)}});
  const auto answer = receive_words(connection, kKnockSeconds);
  if (const auto refused = answer.find("refused"); refused != answer.end()) {
    throw Error(ExitCode::configuration,
                "this island does not fit into the run and is turned away: " +
                    (refused->is_string() ? refused->get<std::string>() : refused->dump()));
  }
  return connection;
}

}  // namespace archipelago::runtime
