/* A pipeline that is only its tensors: stands in for the functions that a checkpoint calls, so that
   layouts, steps and failures are the test's to choose. */
#pragma once
#include "tensors.h"
#include "renga/private/object.h"

static struct {
  struct _p_RengaObject hdr; /* as of any handle */
  TestTensors mine;
  int64_t step;
} standin = {.hdr = {.class_name = "RengaPipeline"}};

RengaErrorCode RengaPipelineGetDevice(RengaPipeline pipeline, RengaDevice *device)
{
  (void)pipeline;
  *device = NULL;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineGetPersistents(RengaPipeline pipeline, int *count,
                                           const RengaPersistent **tensors)
{
  (void)pipeline;
  *count = standin.mine.count;
  *tensors = standin.mine.tensors;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineGetGraph(RengaPipeline pipeline, RengaGraph *graph)
{
  (void)pipeline;
  *graph = NULL;
  return RENGA_SUCCESS;
}

int64_t RengaPipelineGetStepNumber(RengaPipeline pipeline)
{
  (void)pipeline;
  return standin.step;
}

RengaErrorCode RengaPipelineSetStepNumber(RengaPipeline pipeline, int64_t step)
{
  (void)pipeline;
  standin.step = step;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineGetLastStep(RengaPipeline pipeline, RengaPipelineStepInfo *info)
{
  (void)pipeline;
  *info = (RengaPipelineStepInfo){.step = standin.step - 1, .finite = true, .counts = true};
  return RENGA_SUCCESS;
}

/* Checkpoints of a run with these tensors. */
static inline RengaErrorCode StandinCreate(RengaComm comm, int stages, bool filled,
                                           const char *directory, RengaCheckpoint *checkpoint)
{
  RengaCall(TestTensorsCreate(RengaCommGetRank(comm), RengaCommGetSize(comm), stages, filled,
                              &standin.mine));
  RengaCall(RengaCheckpointCreate(comm, checkpoint));
  RengaCall(RengaCheckpointSetPipeline(*checkpoint, (RengaPipeline)(void *)&standin));
  RengaCall(RengaCheckpointSetDirectory(*checkpoint, directory));
  RengaCall(RengaCheckpointSetFromOptions(*checkpoint));
  RengaCall(RengaCheckpointSetUp(*checkpoint));
  return RENGA_SUCCESS;
}

static inline RengaErrorCode StandinDestroy(RengaCheckpoint *checkpoint)
{
  TestTensorsFree(&standin.mine);
  RengaCall(RengaCheckpointDestroy(checkpoint));
  return RENGA_SUCCESS;
}
