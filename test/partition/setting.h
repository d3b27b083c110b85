/* What tests of predictions share: a network on a machine of two levels, with analytic costs. */
#pragma once
#include "../check.h"
#include "renga/private/graph.h"
#include "rengacomm.h"
#include "rengapartition.h"

typedef struct {
  RengaComm comm;
  RengaMachine machine;
  RengaProfile profile;
  RengaGraph graph;
  RengaPartition partition;
} Setting;

static inline RengaErrorCode BeginSetting(Setting *own, const RengaMachineDevice *device,
                                          const RengaMachineLevel levels[2], const char *network,
                                          int lanes, int tokens)
{
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &own->comm));
  RengaCall(RengaMachineCreate(own->comm, &own->machine));
  RengaCall(RengaMachineSetDevice(own->machine, device));
  RengaCall(RengaMachineSetLevels(own->machine, 2, levels));
  RengaCall(RengaGraphCreate(own->comm, &own->graph));
  RengaCall(RengaGraphLoad(own->graph, network));
  RengaCall(RengaGraphSetLanes(own->graph, lanes));
  RengaCall(RengaGraphSetTokenLanes(own->graph, tokens));
  RengaCall(RengaGraphSetUp(own->graph));
  RengaCall(RengaProfileCreate(own->comm, &own->profile));
  RengaCall(RengaProfileSetMachine(own->profile, own->machine));
  RengaCall(RengaProfileSetType(own->profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaPartitionCreate(own->comm, &own->partition));
  RengaCall(RengaPartitionSetGraph(own->partition, own->graph));
  RengaCall(RengaPartitionSetMachine(own->partition, own->machine));
  RengaCall(RengaPartitionSetProfile(own->partition, own->profile));
  return RENGA_SUCCESS;
}

static inline RengaErrorCode EndSetting(Setting *own)
{
  RengaCall(RengaPartitionDestroy(&own->partition));
  RengaCall(RengaProfileDestroy(&own->profile));
  RengaCall(RengaGraphDestroy(&own->graph));
  RengaCall(RengaMachineDestroy(&own->machine));
  RengaCall(RengaCommDestroy(&own->comm));
  return RENGA_SUCCESS;
}
