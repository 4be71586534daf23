#include "core/program.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace archipelago {
namespace {

constexpr char kOwner[] = "GNU";

std::size_t padded(std::size_t size) { return (size + 3) / 4 * 4; }

// The id in a segment of notes; "" where there is none.
std::string id_in(const char* notes, std::size_t size) {
  std::string id;
  std::size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= size) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes + at, sizeof header);
    const std::size_t name = at + sizeof header;
    const std::size_t content = name + padded(header.n_namesz);
    at = content + padded(header.n_descsz);
    if (at > size) break;
    if (header.n_type != NT_GNU_BUILD_ID || header.n_namesz != sizeof kOwner ||
        std::memcmp(notes + name, kOwner, sizeof kOwner) != 0) {
      continue;
    }
    for (std::size_t i = content; i < content + header.n_descsz; ++i) {
      constexpr char kDigits[] = "0123456789abcdef";
      const auto byte = static_cast<std::uint8_t>(notes[i]);
      id += kDigits[byte >> 4];
      id += kDigits[byte & 15];
    }
  }
  return id;
}

// The first object is the program itself.
int take_id(dl_phdr_info* object, std::size_t, void* id) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* const notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    *static_cast<std::string*>(id) += id_in(notes, segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string id;
  ::dl_iterate_phdr(take_id, &id);
  return id.empty() ? "unknown" : id;
}

std::filesystem::path program_file() {
  constexpr std::string_view kReplaced = " (deleted)";
  std::string file = std::filesystem::read_symlink("/proc/self/exe").string();
  if (file.ends_with(kReplaced)) file.resize(file.size() - kReplaced.size());
  return file;
}

}  // namespace archipelago
