#pragma once

#include <string>
#include <string_view>

namespace archipelago {

enum class LogLevel { debug, info, warning, error };

// Names the speaker in every later line of this process, e.g. "learner=2 rank=0".
void set_log_speaker(std::string speaker);

// Lines below this level are dropped; the default is info.
void set_log_level(LogLevel level);

// Writes "2026-11-29T19:55:01Z INFO learner=2 rank=0 message" to standard error as one write, so
// that lines of several processes do not mix. Thread-safe; never throws.
void log_line(LogLevel level, std::string_view message) noexcept;

inline void log_info(std::string_view message) noexcept { log_line(LogLevel::info, message); }
inline void log_warning(std::string_view message) noexcept {
  log_line(LogLevel::warning, message);
}
inline void log_error(std::string_view message) noexcept { log_line(LogLevel::error, message); }

}  // namespace archipelago
