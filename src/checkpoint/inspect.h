#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace archipelago::checkpoint {

struct DatasetReport {
  std::string path;  // "/params/wte.weight"
  std::vector<std::int64_t> shape;
  std::string type;  // "f32", "i64" ...
  std::optional<std::int32_t> fragment;
  std::optional<std::int32_t> version;
  double norm = 0;              // Euclidean, over the finite elements
  std::int64_t not_finite = 0;  // elements that are no number or infinite
};

// What stands in a checkpoint file of either kind.
struct Report {
  std::filesystem::path file;
  std::uintmax_t bytes = 0;
  std::map<std::string, std::string> texts;     // text attributes of the file: format, kind ...
  std::map<std::string, std::int64_t> numbers;  // whole-number attributes: round, step, tokens ...
  std::map<std::string, std::string> config;    // options of the run
  std::vector<DatasetReport> datasets;          // by path
};

// Throws Error(bad_data) as load_global() does.
Report inspect(const std::filesystem::path& file);

struct Difference {
  std::string path;
  double largest_absolute = 0;
  double largest_relative = 0;  // |a - b| / max(|a|, |b|), where that is not 0
  std::string note;             // why they can't be compared: in one file only, another shape
};

// Element by element, for all datasets of either file, by path. An element that is a number in one
// file only counts as infinitely different.
std::vector<Difference> compare(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace archipelago::checkpoint
