#include "core/log.h"

#include <unistd.h>

#include <atomic>
#include <ctime>
#include <mutex>

namespace archipelago {
namespace {

std::atomic<LogLevel> lowest_level{LogLevel::info};
std::mutex speaker_mutex;
std::string speaker;

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "DEBUG";
    case LogLevel::info:
      return "INFO";
    case LogLevel::warning:
      return "WARN";
    case LogLevel::error:
      return "ERROR";
  }
  return "?";
}

}  // namespace

void set_log_speaker(std::string name) {
  const std::lock_guard lock(speaker_mutex);
  speaker = std::move(name);
}

void set_log_level(LogLevel level) { lowest_level = level; }

void log_line(LogLevel level, std::string_view message) noexcept try {
  if (level < lowest_level.load()) return;
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
  std::string line = std::string(stamp) + ' ' + name_of(level) + ' ';
  {
    const std::lock_guard lock(speaker_mutex);
    if (!speaker.empty()) line += speaker + ' ';
  }
  line.append(message).push_back('\n');
  // A log that cannot be written has nowhere to say so.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
} catch (...) {
}

}  // namespace archipelago
