/* -initial: the parameters of another run. */
#include "app.h"

RengaErrorCode AppReadParameters(RengaComm comm, RengaPipeline pipeline, const char *path,
                                 bool partial, bool subset, RengaCheckpointInitial *initial)
{
  RengaCheckpoint checkpoint = NULL;
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  RengaErrorCode code = RengaCheckpointSetPipeline(checkpoint, pipeline);
  if (!code) code = RengaCheckpointSetSubset(checkpoint, subset);
  if (!code) code = RengaCheckpointReadInitial(checkpoint, path, partial, initial);
  RengaCheckpointDestroy(&checkpoint);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppPeekInitial(RengaComm comm)
{
  RengaCheckpoint checkpoint = NULL;
  const char *path;
  int64_t step;
  RengaCall(RengaOptionsGetString("initial", &path, NULL));
  if (!path) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  const RengaErrorCode code = RengaCheckpointPeekInitial(checkpoint, path, &step);
  RengaCheckpointDestroy(&checkpoint);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppReadInitial(RengaComm comm, RengaPipeline pipeline, bool subset,
                              RengaCheckpointInitial *initial)
{
  MPI_Comm printer;
  const char *path;
  bool partial;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaOptionsGetString("initial", &path, NULL));
  RengaCall(RengaOptionsGetBool("initial_partial", &partial, NULL));
  RengaCheck(path || !partial, printer, RENGA_ERR_OPTION,
             "-initial_partial needs -initial: whose parameters?");
  *initial = (RengaCheckpointInitial){.step = -1};
  if (!path) return RENGA_SUCCESS;
  RengaCall(AppReadParameters(comm, pipeline, path, partial, subset, initial));
  char step[32] = "";
  if (initial->step >= 0) snprintf(step, sizeof step, ", step %lld", (long long)initial->step);
  RengaCall(RengaPrintf(printer, "%d of %d parameters and states are those of %s%s\n",
                        initial->taken, initial->network, path, step));
  return RENGA_SUCCESS;
}
