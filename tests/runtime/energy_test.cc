#include "runtime/energy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

namespace archipelago::runtime {
namespace {

class EnergyTest : public testing::Test {
 protected:
  EnergyTest() { std::filesystem::create_directories(folder_); }
  ~EnergyTest() override { std::filesystem::remove_all(folder_); }

  void zone(const std::string& name, const std::string& kind, std::int64_t microjoules) {
    std::filesystem::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "name") << kind << "\n";
    std::ofstream(folder_ / name / "energy_uj") << microjoules << "\n";
    std::ofstream(folder_ / name / "max_energy_range_uj") << 10'000'000 << "\n";
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("archipelago-energy-" + std::to_string(::getpid()));
};

TEST_F(EnergyTest, AddsUpPackagesAndTheirTurnsOver) {
  zone("intel-rapl:0", "package-0", 9'000'000);
  zone("intel-rapl:0:0", "core", 5'000'000);
  zone("intel-rapl:1", "package-1", 0);
  const auto counter = package_energy(folder_);
  ASSERT_NE(counter, nullptr);
  EXPECT_DOUBLE_EQ(counter->joules(), 0);
  zone("intel-rapl:0", "package-0", 1'000'000);  // began again after 10 J
  zone("intel-rapl:1", "package-1", 500'000);
  EXPECT_DOUBLE_EQ(counter->joules(), 2.5);
  std::filesystem::remove(folder_ / "intel-rapl:1" / "energy_uj");
  EXPECT_TRUE(std::isnan(counter->joules()));
}

TEST_F(EnergyTest, IsNotAvailableWithoutReadablePackages) {
  EXPECT_EQ(package_energy(folder_ / "nowhere"), nullptr);
  EXPECT_EQ(package_energy(folder_), nullptr);
  zone("intel-rapl:0", "package-0", 1);
  std::filesystem::remove(folder_ / "intel-rapl:0" / "energy_uj");
  EXPECT_EQ(package_energy(folder_), nullptr);
}

TEST_F(EnergyTest, AsksTheDriversLibraryForTheGpu) {
  EXPECT_EQ(gpu_energy("0000:01:00.0", "no-such-library.so"), nullptr);
  EXPECT_EQ(gpu_energy("0000:01:00.0", "libm.so.6"), nullptr) << "not NVML";
  EXPECT_EQ(gpu_energy("0000:99:00.0", FAKE_NVML), nullptr) << "no such GPU";
  const auto counter = gpu_energy("0000:01:00.0", FAKE_NVML);
  ASSERT_NE(counter, nullptr);
  const double before = counter->joules();
  EXPECT_DOUBLE_EQ(counter->joules() - before, 1.5);
}

class Steady final : public EnergyCounter {
 public:
  double joules() override { return total_ += 8; }

 private:
  double total_ = 0;
};

TEST_F(EnergyTest, ChargesItsShareOnceALook) {
  EnergyMeter meter(std::make_unique<Steady>(), 0.25);
  EXPECT_DOUBLE_EQ(meter.take(100), 2);
  EXPECT_DOUBLE_EQ(meter.take(100.1), 0);
  EXPECT_DOUBLE_EQ(meter.take(101), 2);
  EXPECT_TRUE(std::isnan(EnergyMeter(nullptr, 1).take(0)));
}

}  // namespace
}  // namespace archipelago::runtime
