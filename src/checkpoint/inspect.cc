#include "checkpoint/inspect.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "checkpoint/opened_file.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/file.h"

namespace archipelago::checkpoint {
namespace {

std::string type_name(const hdf5::Dataset& dataset) {
  const hdf5::Datatype type(H5Dget_type(dataset.get()), "read a dataset's type");
  const std::string bits = std::to_string(8 * H5Tget_size(type.get()));
  if (H5Tget_class(type.get()) == H5T_FLOAT) return "f" + bits;
  return (H5Tget_sign(type.get()) == H5T_SGN_NONE ? "u" : "i") + bits;
}

bool is_float(const hdf5::Dataset& dataset) { return type_name(dataset).front() == 'f'; }

// Numbers of any type; integers beyond 2^53 are rounded.
std::vector<double> read_numbers(hid_t file, const std::string& path) {
  if (is_float(hdf5::open_dataset(file, path))) return hdf5::read_vector<double>(file, path);
  const std::vector<std::int64_t> whole = hdf5::read_vector<std::int64_t>(file, path);
  return {whole.begin(), whole.end()};
}

std::optional<std::int32_t> optional_number(hid_t object, const std::string& name) {
  if (!hdf5::has_attribute(object, name)) return std::nullopt;
  return hdf5::read_number<std::int32_t>(object, name);
}

DatasetReport report_of(hid_t file, const std::string& path) {
  const hdf5::Dataset dataset = hdf5::open_dataset(file, path);
  DatasetReport report;
  report.path = path;
  report.shape = hdf5::shape_of(dataset);
  report.type = type_name(dataset);
  report.fragment = optional_number(dataset.get(), "fragment");
  report.version = optional_number(dataset.get(), "version");
  double squares = 0;
  for (const double value : read_numbers(file, path)) {
    if (std::isfinite(value)) {
      squares += value * value;
    } else {
      ++report.not_finite;
    }
  }
  report.norm = std::sqrt(squares);
  return report;
}

double relative(double a, double b) {
  const double larger = std::max(std::abs(a), std::abs(b));
  return larger == 0 ? 0 : std::abs(a - b) / larger;
}

void compare_elements(double a, double b, Difference& difference) {
  const bool same = a == b || (std::isnan(a) && std::isnan(b));
  if (same) return;
  const bool comparable = std::isfinite(a) && std::isfinite(b);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  difference.largest_absolute =
      std::max(difference.largest_absolute, comparable ? std::abs(a - b) : kInfinity);
  difference.largest_relative =
      std::max(difference.largest_relative, comparable ? relative(a, b) : kInfinity);
}

Difference compare_dataset(hid_t a, hid_t b, const std::string& path) {
  Difference difference;
  difference.path = path;
  if (hdf5::shape_of(hdf5::open_dataset(a, path)) != hdf5::shape_of(hdf5::open_dataset(b, path))) {
    difference.note = "of another shape";
  } else {
    const std::vector<double> left = read_numbers(a, path);
    const std::vector<double> right = read_numbers(b, path);
    for (std::size_t i = 0; i < left.size(); ++i) {
      compare_elements(left[i], right[i], difference);
    }
  }
  return difference;
}

std::vector<Difference> compare_all(hid_t a, hid_t b) {
  std::map<std::string, int> files;  // path -> 1: in a, 2: in b, 3: in both
  for (const std::string& path : hdf5::dataset_paths(a)) files[path] |= 1;
  for (const std::string& path : hdf5::dataset_paths(b)) files[path] |= 2;
  std::vector<Difference> differences;
  for (const auto& [path, where] : files) {
    if (where == 3) {
      differences.push_back(compare_dataset(a, b, path));
    } else {
      differences.push_back(
          {path, 0, 0, where == 1 ? "only in the first file" : "only in the second file"});
    }
  }
  return differences;
}

}  // namespace

Report inspect(const std::filesystem::path& path) {
  Report report;
  report.file = path;
  with_opened(path, [&report, &path](hid_t file) {
    report.bytes = std::filesystem::file_size(path);
    report.texts = hdf5::read_texts(file);
    for (const char* name : {"round", "learner", "incarnation", "step", "tokens", "adam_steps"}) {
      if (hdf5::has_attribute(file, name)) {
        report.numbers[name] = hdf5::read_number<std::int64_t>(file, name);
      }
    }
    report.config = hdf5::read_texts(hdf5::open_group(file, "config").get());
    for (const std::string& name : hdf5::dataset_paths(file)) {
      report.datasets.push_back(report_of(file, name));
    }
  });
  return report;
}

std::vector<Difference> compare(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::vector<Difference> differences;
  with_opened(a, [&](hid_t left) {
    with_opened(b, [&](hid_t right) { differences = compare_all(left, right); });
  });
  return differences;
}

}  // namespace archipelago::checkpoint
