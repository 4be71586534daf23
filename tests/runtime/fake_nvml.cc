#include <cstring>

// Stands in for the driver's library: one GPU, which uses 1.5 J between two questions.

extern "C" {

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  static int gpu;
  *device = &gpu;
  return std::strcmp(bus_id, "0000:01:00.0") == 0 ? 0 : 6;
}

int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {
  static unsigned long long total = 0;
  *millijoules = total += 1500;
  return 0;
}
}
