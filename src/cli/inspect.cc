#include "checkpoint/inspect.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/damage.h"
#include "cli/checkpoint_argument.h"
#include "cli/commands.h"
#include "core/error.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage = {
    .synopsis = "archipelago inspect CHECKPOINT [--json] [--verify] [--diff OTHER]",
    .description =
        "Shows what a checkpoint holds (format: checkpoints/README.md). CHECKPOINT: a file, or a "
        "run's\nfolder for its newest global checkpoint.",
    .positional = 1,
    .most_positional = 1};

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

std::string number_text(double value) {
  std::ostringstream text;
  text << std::setprecision(6) << value;
  return text.str();
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (const std::int64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + ')';
}

std::string optional_text(const std::optional<std::int32_t>& number) {
  return number ? std::to_string(*number) : "";
}

void print_table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    std::cout << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  }
}

// JSON has no infinity and no NaN; they become null.
Json finite_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// A file's name may be no UTF-8, which alone is no reason to fail.
void print(const Json& json) {
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

template <class Number>
Json optional_json(const std::optional<Number>& number) {
  return number ? Json(*number) : Json(nullptr);
}

Json to_json(const checkpoint::Report& report) {
  Json json{{"file", report.file.string()}, {"bytes", report.bytes}};
  for (const auto& [name, text] : report.texts) json[name] = text;
  for (const auto& [name, number] : report.numbers) json[name] = number;
  json["config"] = report.config;
  json["datasets"] = Json::array();
  for (const checkpoint::DatasetReport& dataset : report.datasets) {
    json["datasets"].push_back({{"path", dataset.path},
                                {"shape", dataset.shape},
                                {"type", dataset.type},
                                {"fragment", optional_json(dataset.fragment)},
                                {"version", optional_json(dataset.version)},
                                {"norm", dataset.norm},
                                {"not_finite", dataset.not_finite}});
  }
  return json;
}

void print(const checkpoint::Report& report) {
  std::cout << report.file.string() << ": " << report.texts.at("kind") << " checkpoint, "
            << report.bytes << " bytes, written " << report.texts.at("file_time") << " by "
            << report.texts.at("creator") << "\n ";
  for (const auto& [name, number] : report.numbers) std::cout << ' ' << name << ' ' << number;
  std::cout << "\n\n";
  std::vector<Row> rows = {{"option", "value"}};
  for (const auto& [name, value] : report.config) rows.push_back({name, value});
  print_table(rows);
  std::cout << '\n';
  rows = {{"dataset", "shape", "type", "fragment", "version", "norm", "not finite"}};
  for (const checkpoint::DatasetReport& dataset : report.datasets) {
    rows.push_back({dataset.path, shape_text(dataset.shape), dataset.type,
                    optional_text(dataset.fragment), optional_text(dataset.version),
                    number_text(dataset.norm), std::to_string(dataset.not_finite)});
  }
  print_table(rows);
}

int show(const std::string& file, bool json) {
  const checkpoint::Report report = checkpoint::inspect(file);
  if (json) {
    print(to_json(report));
  } else {
    print(report);
  }
  return 0;
}

int verify(const std::string& file, bool json) {
  const std::vector<checkpoint::Damage> damage = checkpoint::find_damage(file);
  if (damage.empty()) checkpoint::require_readable(file);
  if (json) {
    Json list = Json::array();
    for (const auto& [dataset, reason] : damage) {
      list.push_back({{"dataset", dataset}, {"reason", reason}});
    }
    print(Json{{"file", file}, {"intact", damage.empty()}, {"damage", list}});
  } else if (damage.empty()) {
    std::cout << file << ": intact\n";
  } else {
    for (const auto& [dataset, reason] : damage) {
      std::cout << file << ": " << (dataset.empty() ? "" : dataset + ": ") << reason << '\n';
    }
  }
  return static_cast<int>(damage.empty() ? ExitCode::done : ExitCode::bad_data);
}

int diff(const std::string& file, const std::string& other, bool json) {
  const std::vector<checkpoint::Difference> differences = checkpoint::compare(file, other);
  if (json) {
    Json list = Json::array();
    for (const checkpoint::Difference& each : differences) {
      list.push_back({{"path", each.path},
                      {"largest_absolute", finite_json(each.largest_absolute)},
                      {"largest_relative", finite_json(each.largest_relative)},
                      {"note", each.note}});
    }
    print(Json{{"file", file}, {"other", other}, {"differences", list}});
    return 0;
  }
  std::vector<Row> rows = {{"dataset", "largest absolute", "largest relative", ""}};
  for (const checkpoint::Difference& each : differences) {
    rows.push_back({each.path, number_text(each.largest_absolute),
                    number_text(each.largest_relative), each.note});
  }
  print_table(rows);
  return 0;
}

}  // namespace

int run_inspect(std::span<const std::string> arguments) {
  bool json = false;
  bool verifying = false;
  std::string other;
  const std::array options = {
      config::flag("json", json, "print one JSON object"),
      config::flag("verify", verifying, "check every byte; says which dataset is damaged"),
      config::verbatim_text("diff", other, "OTHER",
                            "largest difference of each dataset to another file's")};
  const auto positional = read_arguments(kUsage, options, arguments);
  if (!positional) return 0;
  const std::string file = checkpoint_argument(positional->front());
  if (verifying) return verify(file, json);
  if (!other.empty()) return diff(file, checkpoint_argument(other), json);
  return show(file, json);
}

}  // namespace archipelago::cli
