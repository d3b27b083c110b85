/* The one device there is. */
#include "emu.h"
#include <cstdio>
#include <cstring>

extern "C" {

/* Without a driver the real one leaves count as it was. */
cudaError_t cudaGetDeviceCount(int *count)
{
  if (!EmuGetSettings().device) return EmuSetError(cudaErrorInsufficientDriver);
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
  if (!EmuGetSettings().device) return EmuSetError(cudaErrorInsufficientDriver);
  if (device != 0) return EmuSetError(cudaErrorInvalidDevice);
  EmuStart();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
  if (device != 0) return EmuSetError(cudaErrorInvalidDevice);
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "emulated CUDA");
  properties->totalGlobalMem = EmuGetSettings().memory;
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = EMU_SHARED;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = EMU_THREADS;
  properties->major = 9;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
  if (device != 0) return EmuSetError(cudaErrorInvalidDevice);
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
