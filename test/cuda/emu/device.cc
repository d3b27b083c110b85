/* The devices: as many as EMU_DEVICES says, of which a process uses one. */
#include "emu.h"
#include <cstdio>
#include <cstring>

static int current = -1; /* -1: none was chosen, and 0 is used */

static bool IsThere(int device)
{
  return device >= 0 && device < EmuGetSettings().devices;
}

static bool HasDriver()
{
  return EmuGetSettings().devices > 0 && !EmuGetSettings().old_driver;
}

extern "C" {

/* Without a driver the real one leaves count as it was. */
cudaError_t cudaGetDeviceCount(int *count)
{
  if (!HasDriver()) return EmuSetError(cudaErrorInsufficientDriver);
  *count = EmuGetSettings().devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
  if (!HasDriver()) return EmuSetError(cudaErrorInsufficientDriver);
  if (!IsThere(device)) return EmuSetError(cudaErrorInvalidDevice);
  if (current >= 0 && current != device) EmuFail("two devices of a process are not emulated");
  current = device;
  EmuStart();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
  *device = current < 0 ? 0 : current;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
  if (!IsThere(device)) return EmuSetError(cudaErrorInvalidDevice);
  snprintf(text, (size_t)size, "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
  *version = EmuGetSettings().old_driver ? 11080 : CUDART_VERSION;
  if (EmuGetSettings().devices == 0) *version = 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
  if (!IsThere(device)) return EmuSetError(cudaErrorInvalidDevice);
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "%s", EmuGetSettings().name.c_str());
  properties->totalGlobalMem = EmuGetSettings().memory;
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = EMU_SHARED;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = EMU_THREADS;
  properties->major = EmuGetSettings().capability / 10;
  properties->minor = EmuGetSettings().capability % 10;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
  if (!IsThere(device)) return EmuSetError(cudaErrorInvalidDevice);
  switch (attribute) {
  case cudaDevAttrMultiProcessorCount:
    *value = 4;
    break;
  case cudaDevAttrWarpSize:
    *value = 32;
    break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = EMU_SHARED;
    break;
  case cudaDevAttrComputeCapabilityMajor:
    *value = 9;
    break;
  case cudaDevAttrComputeCapabilityMinor:
    *value = 0;
    break;
  default:
    EmuFail("cudaDeviceGetAttribute: attribute %d is not emulated", (int)attribute);
  }
  return cudaSuccess;
}
}
