#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace archipelago::runtime {

// Counts the joules that a device has used, as its own counter says.
class EnergyCounter {
 public:
  virtual ~EnergyCounter() = default;
  // Since some fixed time; NaN where it cannot be read.
  virtual double joules() = 0;
};

// The host's processor packages (Linux powercap, RAPL). Null where they cannot be read, which often
// only root may. `folder`: where the kernel shows them.
std::unique_ptr<EnergyCounter> package_energy(
    const std::filesystem::path& folder = "/sys/class/powercap");

// The GPU at this PCI address, by the driver's library (NVML), which is looked for at run time.
// Null where there is none, or where the GPU has no such counter.
std::unique_ptr<EnergyCounter> gpu_energy(const std::string& bus_id,
                                          const std::string& library = "libnvidia-ml.so.1");

// What this rank is charged with.
class EnergyMeter {
 public:
  // `share`: of the counter's joules, where several ranks use one device. A null counter: not
  // available.
  EnergyMeter(std::unique_ptr<EnergyCounter> counter, double share);

  // Joules since the last call; NaN where not available. Looks at the counter at most twice a
  // second, so many a call says 0 and a later one the rest.
  double take(double now);

 private:
  std::unique_ptr<EnergyCounter> counter_;
  double share_;
  double last_joules_;
  double last_look_ = 0;
};

}  // namespace archipelago::runtime
