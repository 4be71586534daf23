#include "simulate/bandwidth.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"

namespace archipelago::simulate {

Exchange exchange_of(const Scenario& scenario, Method method) {
  Exchange exchange;
  exchange.method = method;
  exchange.parameters = scenario.model.parameters;
  exchange.bits = scenario.model.bits;
  if (method == Method::data_parallel || method == Method::elastic) {
    exchange.bits = scenario.model.gradient_bits;
  }
  exchange.step_seconds = scenario.train.step_seconds;
  exchange.learners = std::max<double>(2, static_cast<double>(scenario.sync.learners));
  exchange.interval = scenario.sync.interval;
  exchange.fragments = static_cast<double>(scenario.sync.fragments);
  exchange.overlap = scenario.sync.overlap;
  exchange.buckets = static_cast<double>(scenario.model.layers);
  exchange.latency = slowest_link(scenario).latency;
  return exchange;
}

std::vector<double> utilisations_of(const std::string& list) {
  std::vector<double> values;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) {
    std::istringstream number(part);
    double value = 0;
    if (!(number >> value) || !number.eof() || value <= 0 || value >= 1) {
      throw Error(ExitCode::configuration, "utilisations: '" + part + "' is not between 0 and 1");
    }
    values.push_back(value);
  }
  return values;
}

std::vector<BandwidthRow> bandwidth_table(const Scenario& scenario,
                                          const std::vector<double>& utilisations) {
  std::vector<BandwidthRow> rows;
  for (const Method method : methods_of(scenario)) {
    BandwidthRow& row = rows.emplace_back(BandwidthRow{method, {}});
    for (const double wanted : utilisations) {
      row.points.push_back(least_grid_point(exchange_of(scenario, method), wanted));
    }
  }
  return rows;
}

std::string bandwidth_text(const std::vector<BandwidthRow>& rows,
                           const std::vector<double>& wanted) {
  std::ostringstream out;
  out << "Gbit/s of a learner's link for a compute utilisation of\n" << std::setw(18) << "";
  for (const double value : wanted) out << std::setw(9) << 100 * value << " %";
  out << "\n";
  for (const BandwidthRow& row : rows) {
    out << std::left << std::setw(18) << name_of(row.method) << std::right << std::setprecision(4);
    for (const int point : row.points) {
      out << std::setw(11);
      if (point < 0) {
        out << "-";
      } else {
        out << grid_gbps(point);
      }
    }
    out << "\n";
  }
  return out.str();
}

std::string bandwidth_json(const std::vector<BandwidthRow>& rows,
                           const std::vector<double>& wanted) {
  nlohmann::ordered_json json = {{"methods", nlohmann::ordered_json::object()}};
  for (const BandwidthRow& row : rows) {
    auto& gbps = json["methods"][name_of(row.method)]["gbps"];
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::ostringstream share;
      share << wanted[i];
      if (row.points[i] < 0) {
        gbps[share.str()] = nullptr;
      } else {
        gbps[share.str()] = grid_gbps(row.points[i]);
      }
    }
  }
  return json.dump(2);
}

}  // namespace archipelago::simulate
