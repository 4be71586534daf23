#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "island/member.h"
#include "link/tls_connection.h"
#include "link/tls_listener.h"
#include "runtime/description.h"
#include "runtime/invitation.h"

namespace archipelago::runtime {

// Guests: islands that are jobs of their own, which reach the syncer over TLS and take part like
// any other island (docs/design.md, "Guests").

// The address in sync.listen. Throws Error(configuration) where it is none.
link::Address address_to_listen(const std::string& listen);

// What a guest must have the same as the run: a run's description without what may be each
// machine's own (where its folder and its data are, device, threads).
Description guest_description(Description of_run);

struct Guest {
  link::TlsConnection connection;
  std::vector<island::Member> members;
};

// The syncer's side: lets guests in, on a thread of its own.
class GuestDoor {
 public:
  // Listens at `listen` (HOST:PORT) and writes the invitation to `file`; with the secret that
  // stands there already, so that it stays good for the next start. Throws Error(configuration)
  // where it cannot listen there.
  GuestDoor(const std::string& listen, std::filesystem::path file, Description description);
  ~GuestDoor();
  GuestDoor(const GuestDoor&) = delete;
  GuestDoor& operator=(const GuestDoor&) = delete;

  // Those that have come since the last call.
  std::vector<Guest> take();

 private:
  void run() noexcept;
  void meet(link::TlsConnection connection);

  std::filesystem::path file_;
  Description description_;
  std::unique_ptr<link::TlsListener> listener_;
  std::mutex mutex_;
  std::vector<Guest> arrived_;
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

// The guest's side: introduces the island of `members` to the syncer. Throws Error(try_again) where
// nobody answers, Error(configuration) where the secret is not the run's or this island does not
// fit into it (the line names the difference).
link::TlsConnection knock(const Invitation& invitation, const Description& own,
                          const std::vector<island::Member>& members);

}  // namespace archipelago::runtime
