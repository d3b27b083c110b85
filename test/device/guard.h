/* Workspaces that are watched: what a kernel writes behind its own is another tensor. */
#pragma once
#include "../check.h"
#include "renga/private/kernel.h"
#include "rengadevice.h"

/* Workspace of a kernel with a guard behind it that nobody may touch. */
enum { GUARD_BYTES = 4096, GUARD_BYTE = 0x5a };
static inline RengaErrorCode NewWorkspace(RengaDevice device, RengaKernel kernel, void *workspace)
{
  const size_t bytes = RengaKernelGetWorkspace(kernel);
  char **made = workspace;
  RengaCall(RengaDeviceMalloc(device, bytes + GUARD_BYTES, made));
  RengaCall(RengaDeviceSetBytes(device, NULL, *made + bytes, GUARD_BYTE, GUARD_BYTES));
  return RENGA_SUCCESS;
}

static inline RengaErrorCode FreeWorkspace(RengaDevice device, RengaKernel kernel, char *workspace)
{
  char guard[GUARD_BYTES];
  RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, guard,
                            workspace + RengaKernelGetWorkspace(kernel), sizeof guard));
  RengaCall(RengaStreamSynchronize(device, NULL));
  for (int i = 0; i < GUARD_BYTES; i++) Expect(guard[i] == GUARD_BYTE);
  RengaCall(RengaDeviceFree(device, &workspace));
  return RENGA_SUCCESS;
}
