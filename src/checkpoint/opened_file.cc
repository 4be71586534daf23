#include "checkpoint/opened_file.h"

#include <new>
#include <system_error>

#include "checkpoint/damage.h"
#include "checkpoint/layout.h"
#include "core/error.h"
#include "hdf5/attribute.h"
#include "hdf5/file.h"

namespace archipelago::checkpoint {
namespace {

void require_intact(const std::filesystem::path& path) {
  const std::vector<Damage> damage = find_damage(path);
  if (damage.empty()) return;
  const Damage& first = damage.front();
  std::string text = first.dataset.empty() ? first.reason : first.dataset + ": " + first.reason;
  if (damage.size() > 1) text += " (and " + std::to_string(damage.size() - 1) + " more)";
  throw hdf5::Failure(text);
}

void require_header(hid_t file) {
  if (!hdf5::has_attribute(file, "format") || hdf5::read_text(file, "format") != kFormat) {
    throw hdf5::Failure("it is no archipelago checkpoint");
  }
  const std::string version = hdf5::read_text(file, "format_version");
  if (!version.starts_with("1.")) {
    throw hdf5::Failure("its format version " + version + " is not known here");
  }
  if (!hdf5::has_attribute(file, "complete") || !hdf5::read_flag(file, "complete")) {
    throw hdf5::Failure("it is not complete");
  }
}

[[noreturn]] void refuse(const std::filesystem::path& path, const char* why) {
  throw Error(ExitCode::bad_data, "cannot use checkpoint " + path.string() + ": " + why);
}

}  // namespace

void with_opened(const std::filesystem::path& path, const std::function<void(hid_t)>& read) {
  const hdf5::LibraryLock lock;
  try {
    require_intact(path);
    const hdf5::File file = hdf5::open_file(path);
    require_header(file.get());
    read(file.get());
  } catch (const hdf5::Failure& failure) {
    refuse(path, failure.what());
  } catch (const std::system_error& error) {
    refuse(path, error.what());
  } catch (const std::bad_alloc&) {
    refuse(path, "there is no memory for as much as it says it holds");
  }
}

}  // namespace archipelago::checkpoint
