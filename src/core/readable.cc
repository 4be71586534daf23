#include "core/readable.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/file.h"

namespace archipelago {
namespace {

constexpr int kDeepest = 32;

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), "cannot read " + path.string());
}

}  // namespace

std::optional<std::ifstream> open_to_read(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid() && errno == ENOENT) return std::nullopt;
  char first = 0;
  if (!file.valid() || ::read(file.get(), &first, 1) < 0) fail(path);
  std::ifstream stream(path);
  if (!stream) fail(path);
  return stream;
}

void require_folder(const std::filesystem::path& path) {
  const auto kind = std::filesystem::status(path).type();  // throws where it cannot be looked at
  if (kind == std::filesystem::file_type::directory) return;
  const bool missing = kind == std::filesystem::file_type::not_found;
  throw Error(ExitCode::configuration,
              missing ? "there is no folder " + path.string() : path.string() + " is no folder");
}

bool is_nested_too_deeply(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace archipelago
