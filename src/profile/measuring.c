/* What all that measures needs: a device, the file of what is known, and which ranks measure. */
#include "measured.h"
#include "renga/private/device.h"
#include "renga/private/same.h"
#include "renga/private/settings.h"
#include <sched.h>
#include <string.h>

static const char what[] = "ranks to measure costs";

RengaDevice RengaMeasuredDevice_Private(RengaProfile profile)
{
  const Measured *measured = profile->data;
  return profile->device ? profile->device : measured->made;
}

static RengaErrorCode MakeDevice(RengaProfile profile)
{
  Measured *measured = profile->data;
  if (profile->device || measured->made) return RENGA_SUCCESS;
  RengaSettings settings;
  RengaDevice device;
  RengaPrecision precision;
  RengaCall(RengaProfileNeedSettings_Private(profile, &settings));
  RengaCall(RengaSettingsGetDevice(settings, &device));
  RengaCall(RengaGraphGetPrecision(profile->graph, &precision));
  RengaCall(RengaDeviceCheckPrecision_Private(device, precision));
  RengaCall(RengaDeviceDuplicate(device, &measured->made));
  RengaCall(RengaDeviceSetUp(measured->made));
  return RENGA_SUCCESS;
}

static RengaErrorCode WarnOfDifference(RengaProfile profile)
{
  const Measured *measured = profile->data;
  const uint64_t hash = RengaHash(measured->device, strlen(measured->device), 0);
  uint64_t *all = NULL;
  const int size = RengaCommGetSize(profile->hdr.owner);
  bool same = true;
  RengaCall(RengaMalloc(size, &all));
  RengaErrorCode code = RengaCommGather(profile->hdr.owner, &hash, sizeof hash, all, -1, what);
  for (int r = 1; r < size && code == RENGA_SUCCESS; r++) same = same && all[r] == all[0];
  RengaFree(&all);
  RengaCall(code);
  if (!same)
    RengaWarning(profile->hdr.comm,
                 "ranks have different devices; costs are kept as those of rank 0's: %s",
                 measured->device);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMeasuredAgree_Private(RengaProfile profile, int64_t asked, const char *name)
{
  const Measured *measured = profile->data;
  RengaSettingList list = {0};
  RengaPrecision precision = 0;
  if (profile->graph) RengaCall(RengaGraphGetPrecision(profile->graph, &precision));
  RengaSettingAddText_Private(&list, "wish to measure", name);
  RengaSettingAddInt64_Private(&list, "network",
                               profile->graph ? (int64_t)RengaGraphGetDigest(profile->graph) : 0);
  RengaSettingAddInt64_Private(&list, "precision (-precision)", precision);
  RengaSettingAddInt64_Private(&list, "samples or elements to measure", asked);
  RengaSettingAddText_Private(&list, "-profile_file", measured->file);
  if (profile->device)
    RengaSettingAddText_Private(&list, "device type", profile->device->hdr.type_name);
  if (profile->settings) RengaSettingsList_Private(profile->settings, &list);
  RengaCall(RengaCommCheckSame_Private(profile->hdr.owner, RENGA_ERR_ARGUMENT, what, &list));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMeasuredSetUp_Private(RengaProfile profile)
{
  Measured *measured = profile->data;
  if (measured->ready) return RENGA_SUCCESS;
  RengaCall(MakeDevice(profile));
  RengaCall(RengaDeviceDescribe(RengaMeasuredDevice_Private(profile), sizeof measured->device,
                                measured->device));
  RengaCall(WarnOfDifference(profile));
  if (measured->file)
    snprintf(measured->name, sizeof measured->name, "%s", measured->file);
  else
    RengaProfileStoreName_Private(sizeof measured->name, measured->name);
  RengaCall(RengaProfileStoreRead_Private(profile->hdr.owner, measured->name, measured->device,
                                          measured->file != NULL, &measured->rows));
  measured->ready = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMeasuredSave_Private(RengaProfile profile)
{
  const Measured *measured = profile->data;
  RengaCall(RengaProfileStoreWrite_Private(profile->hdr.owner, measured->name, measured->device,
                                           measured->file != NULL, &measured->rows));
  return RENGA_SUCCESS;
}

typedef struct {
  int node, local_rank, threads;
  cpu_set_t cores;
} CallPlace;

/* Cores that the ranks of a node may use, all together. */
static int CoresOfNode(int size, const CallPlace place[], int node)
{
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int r = 0; r < size; r++)
    if (place[r].node == node) CPU_OR(&all, &all, &place[r].cores);
  return CPU_COUNT(&all) > 0 ? CPU_COUNT(&all) : 1;
}

RengaErrorCode RengaMeasuredWorkers_Private(RengaProfile profile, int *number, int *count)
{
  RengaComm comm = profile->hdr.owner;
  const int size = RengaCommGetSize(comm);
  int nodes, local_size;
  CallPlace mine, *all = NULL;
  memset(&mine, 0, sizeof mine);
  RengaCall(RengaCommGetNode(comm, &mine.node, &nodes, &mine.local_rank, &local_size));
  RengaCall(RengaDeviceGetThreads(RengaMeasuredDevice_Private(profile), &mine.threads));
  CPU_ZERO(&mine.cores);
  if (sched_getaffinity(0, sizeof mine.cores, &mine.cores)) CPU_SET(0, &mine.cores);
  RengaCall(RengaMalloc(size, &all));
  RengaErrorCode code = RengaCommGather(comm, &mine, sizeof mine, all, -1, what);
  *count = 0;
  *number = -1;
  for (int r = 0; r < size && code == RENGA_SUCCESS; r++) {
    const int most = CoresOfNode(size, all, all[r].node) / all[r].threads;
    if (all[r].local_rank > 0 && all[r].local_rank >= most) continue;
    if (r == RengaCommGetRank(comm)) *number = *count;
    ++*count;
  }
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}
