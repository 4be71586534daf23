#include "loading_driver.h"

#include <atomic>

// A driver in which programs can be loaded and nothing else be done, for a machine without a GPU:
// cuDNN compiles its kernels there for the GPU it is told of, and hands them to the driver before
// it calls a plan built. Arguments are those of CUDA's driver API.

namespace archipelago {
namespace {

constexpr int kSuccess = 0;
constexpr int kStubLibrary = 34;

std::atomic<int> kernels{0};
char anything;

}  // namespace

int loaded_kernels() { return kernels; }

}  // namespace archipelago

extern "C" {

using namespace archipelago;

int cuLibraryLoadData(void** library, const void*, void*, void**, unsigned, void*, void**,
                      unsigned) {
  *library = &anything;
  return kSuccess;
}

int cuLibraryUnload(void*) { return kSuccess; }

int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = &anything;
  ++kernels;
  return kSuccess;
}

int cuGetErrorName(int, const char** name) {
  *name = "no GPU";
  return kSuccess;
}

int cuGetErrorString(int, const char** text) {
  *text = "this driver loads programs and does nothing else";
  return kSuccess;
}

// The others that cuDNN looks for.
#define REFUSED(name) \
  int name() { return kStubLibrary; }
REFUSED(cuInit)
REFUSED(cuCtxGetCurrent)
REFUSED(cuCtxGetLimit)
REFUSED(cuCtxPopCurrent)
REFUSED(cuCtxPushCurrent)
REFUSED(cuDeviceGet)
REFUSED(cuDeviceGetCount)
REFUSED(cuDriverGetVersion)
REFUSED(cuKernelGetAttribute)
REFUSED(cuKernelSetAttribute)
REFUSED(cuLaunchCooperativeKernel)
REFUSED(cuLaunchKernel)
REFUSED(cuLaunchKernelEx)
REFUSED(cuLibraryLoadFromFile)
REFUSED(cuLinkAddData)
REFUSED(cuLinkComplete)
REFUSED(cuLinkCreate)
REFUSED(cuLinkDestroy)
REFUSED(cuOccupancyMaxPotentialClusterSize)
REFUSED(cuStreamGetCtx)
#undef REFUSED

}  // extern "C"
