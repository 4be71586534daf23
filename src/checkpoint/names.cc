#include "checkpoint/names.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "checkpoint/checkpoint.h"
#include "core/log.h"

namespace archipelago::checkpoint {
namespace {

constexpr std::string_view kGlobalPrefix = "global-";
constexpr std::string_view kLearnerPrefix = "learner-";
constexpr std::string_view kSuffix = ".h5";

std::string padded(std::int64_t number) {
  std::ostringstream text;
  text << std::setw(10) << std::setfill('0') << number;
  return text.str();
}

template <class Integer>
std::optional<Integer> parse(std::string_view digits) {
  Integer value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// The name must be exactly what global_name() or learner_name() make of its numbers, so that no
// file of somebody else's is ever taken for a checkpoint (and removed).
std::optional<NamedFile> parse_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::string_view rest = name;
  if (!rest.ends_with(kSuffix)) return std::nullopt;
  rest.remove_suffix(kSuffix.size());
  if (rest.starts_with(kGlobalPrefix)) {
    const auto round = parse<std::int64_t>(rest.substr(kGlobalPrefix.size()));
    if (!round || global_name(*round) != name) return std::nullopt;
    return NamedFile{path, -1, *round};
  }
  if (!rest.starts_with(kLearnerPrefix)) return std::nullopt;
  rest.remove_prefix(kLearnerPrefix.size());
  const std::size_t dash = rest.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto learner = parse<int>(rest.substr(0, dash));
  const auto step = parse<std::int64_t>(rest.substr(dash + 1));
  if (!learner || !step || learner_name(*learner, *step) != name) return std::nullopt;
  return NamedFile{path, *learner, *step};
}

template <class Wanted>
std::vector<NamedFile> list(const std::filesystem::path& folder, Wanted wanted) {
  std::vector<NamedFile> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const auto file = parse_name(entry.path());
    if (file && wanted(*file)) files.push_back(*file);
  }
  std::sort(files.begin(), files.end(), [](const NamedFile& a, const NamedFile& b) {
    return a.number != b.number ? a.number > b.number : a.path < b.path;
  });
  return files;
}

}  // namespace

std::filesystem::path global_name(std::int64_t round) {
  return std::string(kGlobalPrefix) + padded(round) + std::string(kSuffix);
}

std::filesystem::path learner_name(int learner, std::int64_t step) {
  return std::string(kLearnerPrefix) + std::to_string(learner) + '-' + padded(step) +
         std::string(kSuffix);
}

std::vector<NamedFile> list_global(const std::filesystem::path& folder) {
  return list(folder, [](const NamedFile& file) { return file.learner < 0; });
}

std::vector<NamedFile> list_learner(const std::filesystem::path& folder, int learner) {
  return list(folder, [learner](const NamedFile& file) {
    return file.learner >= 0 && (learner < 0 || file.learner == learner);
  });
}

void remove_older(const std::vector<NamedFile>& newest_first, std::int64_t number, int keep,
                  std::int64_t keep_every) {
  int kept = 0;
  for (std::size_t i = 0; i < newest_first.size(); ++i) {
    const NamedFile& file = newest_first[i];
    if (file.number > number || kept++ < std::max(keep, 1)) continue;
    const std::int64_t before = i + 1 < newest_first.size() ? newest_first[i + 1].number : 0;
    if (keep_every > 0 && file.number / keep_every > before / keep_every) continue;
    std::error_code error;
    std::filesystem::remove(file.path, error);
    if (error) log_warning("cannot remove " + file.path.string() + ": " + error.message());
  }
}

}  // namespace archipelago::checkpoint
