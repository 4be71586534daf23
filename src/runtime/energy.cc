#include "runtime/energy.h"

#include <dlfcn.h>

#include <fstream>
#include <limits>
#include <optional>
#include <utility>

namespace archipelago::runtime {
namespace {

constexpr double kNotAvailable = std::numeric_limits<double>::quiet_NaN();
constexpr double kLookSeconds = 0.5;

std::optional<std::int64_t> read_number(const std::filesystem::path& file) {
  std::int64_t number = 0;
  if (std::ifstream(file) >> number) return number;
  return std::nullopt;
}

std::string read_word(const std::filesystem::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

// Counters of microjoules that begin again at a range of their own.
class PackageEnergy final : public EnergyCounter {
 public:
  struct Package {
    std::filesystem::path file;
    std::int64_t range;
    std::int64_t last;
  };

  explicit PackageEnergy(std::vector<Package> packages) : packages_(std::move(packages)) {}

  double joules() override {
    for (Package& package : packages_) {
      const auto now = read_number(package.file);
      if (!now) return kNotAvailable;
      const std::int64_t used = *now - package.last;
      total_ += used < 0 ? used + package.range : used;
      package.last = *now;
    }
    return 1e-6 * static_cast<double>(total_);
  }

 private:
  std::vector<Package> packages_;
  std::int64_t total_ = 0;
};

// The three functions of NVML that are needed; its header is not, as they have been the same since
// NVML 10.
class GpuEnergy final : public EnergyCounter {
 public:
  using Device = void*;
  using ReadEnergy = int (*)(Device, unsigned long long*);  // millijoules; 0: success

  GpuEnergy(Device device, ReadEnergy read) : device_(device), read_(read) {}

  double joules() override {
    unsigned long long millijoules = 0;
    if (read_(device_, &millijoules) != 0) return kNotAvailable;
    return 1e-3 * static_cast<double>(millijoules);
  }

 private:
  Device device_;
  ReadEnergy read_;
};

template <typename Function>
Function find_function(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

std::unique_ptr<EnergyCounter> package_energy(const std::filesystem::path& folder) {
  std::vector<PackageEnergy::Package> packages;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    // Zones inside a package are part of it.
    if (!read_word(entry.path() / "name").starts_with("package")) continue;
    const auto file = entry.path() / "energy_uj";
    const auto now = read_number(file);
    const auto range = read_number(entry.path() / "max_energy_range_uj");
    if (!now || !range) return nullptr;
    packages.push_back({file, *range, *now});
  }
  if (packages.empty()) return nullptr;
  return std::make_unique<PackageEnergy>(std::move(packages));
}

std::unique_ptr<EnergyCounter> gpu_energy(const std::string& bus_id, const std::string& library) {
  // Stays for the process's life: other parts of the driver use it too.
  void* const nvml = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (nvml == nullptr) return nullptr;
  const auto init = find_function<int (*)()>(nvml, "nvmlInit_v2");
  const auto find = find_function<int (*)(const char*, GpuEnergy::Device*)>(
      nvml, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto read =
      find_function<GpuEnergy::ReadEnergy>(nvml, "nvmlDeviceGetTotalEnergyConsumption");
  GpuEnergy::Device device = nullptr;
  unsigned long long energy = 0;
  if (init == nullptr || find == nullptr || read == nullptr || init() != 0 ||
      find(bus_id.c_str(), &device) != 0 || read(device, &energy) != 0) {
    return nullptr;
  }
  return std::make_unique<GpuEnergy>(device, read);
}

EnergyMeter::EnergyMeter(std::unique_ptr<EnergyCounter> counter, double share)
    : counter_(std::move(counter)),
      share_(share),
      last_joules_(counter_ ? counter_->joules() : kNotAvailable) {}

double EnergyMeter::take(double now) {
  if (counter_ == nullptr) return kNotAvailable;
  if (now - last_look_ < kLookSeconds) return 0;
  last_look_ = now;
  const double joules = counter_->joules();
  return share_ * (joules - std::exchange(last_joules_, joules));
}

}  // namespace archipelago::runtime
