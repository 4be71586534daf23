#include "mpi/launcher.h"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>

namespace archipelago::mpi {
namespace {

// Of PMIx's interface (PMIx Standard 4, "Event notification"), by which Open MPI hears from its
// launcher; its headers do not come with every Open MPI. What is passed on unread is opaque here.
constexpr int kLostConnection = -61;   // PMIX_ERR_LOST_CONNECTION
constexpr int kActionComplete = -334;  // PMIX_EVENT_ACTION_COMPLETE: no other handler is asked
constexpr int kSuccess = 0;
using Done = void (*)(int status, void* results, std::size_t count, void* released,
                      void* released_data, void* data);
using Handler = void (*)(std::size_t id, int status, const void* source, void* info,
                         std::size_t info_count, void* results, std::size_t result_count, Done done,
                         void* data);
using Registered = void (*)(int status, std::size_t id, void* data);
using RegisterHandler = int (*)(int* codes, std::size_t code_count, void* info,
                                std::size_t info_count, Handler handler, Registered registered,
                                void* data);

std::atomic<bool> gone{false};
std::atomic<int> registration{1};  // the status once there is one

void on_lost_connection(std::size_t, int, const void*, void*, std::size_t, void*, std::size_t,
                        Done done, void* data) {
  gone = true;
  gone.notify_all();
  if (done != nullptr) done(kActionComplete, nullptr, 0, nullptr, nullptr, data);
}

void on_registered(int status, std::size_t, void*) {
  registration = status;
  registration.notify_all();
}

}  // namespace

bool outlive_launcher() {
  const auto register_handler =
      reinterpret_cast<RegisterHandler>(::dlsym(RTLD_DEFAULT, "PMIx_Register_event_handler"));
  if (register_handler == nullptr) return false;
  static int codes[] = {kLostConnection};
  if (register_handler(codes, 1, nullptr, 0, on_lost_connection, on_registered, nullptr) !=
      kSuccess) {
    return false;
  }
  registration.wait(1);
  return registration == kSuccess;
}

bool launcher_is_gone() noexcept { return gone; }

void wait_until_launcher_is_gone() noexcept { gone.wait(false); }

}  // namespace archipelago::mpi
