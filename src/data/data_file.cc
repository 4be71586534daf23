#include "data/data_file.h"

#include <new>
#include <string>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "hdf5/attribute.h"
#include "hdf5/file.h"

namespace archipelago::data {
namespace {

constexpr std::size_t kMostDatasets = 16;

[[noreturn]] void refuse(const std::string& why) { throw hdf5::Failure(why); }

void require_kind(hid_t file, const FileKind& kind) {
  if (!hdf5::has_attribute(file, "format") ||
      hdf5::read_fixed_text(file, "format") != kind.format) {
    refuse(std::string("it is no ") + kind.name + " of `" + kind.command + "`");
  }
  const std::string version = hdf5::read_fixed_text(file, "format_version");
  if (!version.starts_with("1.")) refuse("its format version " + version + " is not known here");
}

void require_digest(hid_t file, const FileKind& kind, std::uint64_t digest) {
  if (hdf5::has_attribute(file, "digest") &&
      hdf5::read_fixed_text(file, "digest") != to_hex(digest)) {
    refuse(std::string("its ") + kind.contents + " do not match its attribute digest");
  }
}

[[noreturn]] void cannot_use(const std::filesystem::path& path, const FileKind& kind,
                             const std::string& why) {
  throw Error(ExitCode::bad_data, std::string("cannot use ") + kind.name + " " + path.string() +
                                      ": " + why + "; make one with `" + kind.command + "`");
}

}  // namespace

void write_data_file(const std::filesystem::path& path, const FileKind& kind,
                     std::size_t data_bytes, std::uint64_t digest,
                     const std::function<void(hid_t file)>& write) {
  const hdf5::LibraryLock lock;
  MappedFile output(path, hdf5::image_capacity(data_bytes, kMostDatasets));
  hdf5::ImageFile image(output);
  const hid_t file = image.id();
  hdf5::write_fixed_text(file, "format", kind.format);
  hdf5::write_fixed_text(file, "format_version", kind.version);
  write(file);
  hdf5::write_fixed_text(file, "digest", to_hex(digest));
  output.commit(std::move(image).finish(), Durability::flushed);
}

void read_data_file(const std::filesystem::path& path, const FileKind& kind,
                    const std::function<std::uint64_t(hid_t file)>& read) {
  const hdf5::LibraryLock lock;
  try {
    if (!std::filesystem::exists(path)) refuse("there is no such file");
    const hdf5::File file = hdf5::open_file(path);
    require_kind(file.get(), kind);
    require_digest(file.get(), kind, read(file.get()));
  } catch (const hdf5::Failure& failure) {
    cannot_use(path, kind, failure.what());
  } catch (const std::bad_alloc&) {
    cannot_use(path, kind, "there is no memory for as much as it says it holds");
  }
}

}  // namespace archipelago::data
