#include "runtime/invitation.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/file.h"

namespace archipelago::runtime {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw Error(ExitCode::configuration,
              file.string() + " holds no invitation to a run (" + why +
                  "); a run with --sync.listen makes it, copy it again from the run's folder");
}

}  // namespace

void write_invitation(const std::filesystem::path& file, const Invitation& invitation) {
  const std::string text = nlohmann::json{{"address", link::to_text(invitation.address)},
                                          {"secret", link::to_hex(invitation.secret)}}
                               .dump() +
                           '\n';
  const std::filesystem::path temporary =
      file.parent_path() / ('.' + file.filename().string() + '.' + host_name() + '.' +
                            std::to_string(::getpid()) + ".0.tmp");
  std::filesystem::remove(temporary);
  FileDescriptor opened(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!opened.valid()) {
    throw std::system_error(errno, std::generic_category(), "cannot create " + temporary.string());
  }
  write_all(opened.get(), std::as_bytes(std::span(text)), temporary);
  opened.reset();
  std::filesystem::rename(temporary, file);
}

std::optional<Invitation> read_invitation(const std::filesystem::path& file) {
  constexpr std::size_t kLargest = 4096;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(read_file(file, kLargest));
    return Invitation{link::parse_address(json.at("address").get<std::string>()),
                      link::secret_from_hex(json.at("secret").get<std::string>())};
  } catch (const nlohmann::json::exception&) {
    refuse(file, "its content is damaged, or something else");
  } catch (const std::exception& problem) {
    refuse(file, problem.what());
  }
}

}  // namespace archipelago::runtime
