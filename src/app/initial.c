/* -initial: the parameters of another run; -initial_adapter: adapters. */
#include "app.h"
#include <string.h>

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

/* -initial_adapter: after the network's own. */
RengaErrorCode AppReadAdapter(RengaComm comm, RengaPipeline pipeline, bool says)
{
  RengaCheckpoint checkpoint = NULL;
  RengaCheckpointInitial initial;
  const char *path;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString("initial_adapter", &path, NULL));
  if (!path) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  RengaErrorCode code = RengaCheckpointSetPipeline(checkpoint, pipeline);
  if (!code) code = RengaCheckpointReadAdapter(checkpoint, path, &initial);
  RengaCheckpointDestroy(&checkpoint);
  RengaCall(code);
  if (says)
    RengaCall(RengaPrintf(printer, "%d of %d tensors of adapters are those of %s\n", initial.taken,
                          initial.network, path));
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

static RengaErrorCode TakeInitial(RengaComm comm, RengaPipeline pipeline, const char *path,
                                  bool partial, bool subset, RengaCheckpointInitial *initial)
{
  char step[32] = "";
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(AppReadParameters(comm, pipeline, path, partial, subset, initial));
  if (initial->step >= 0) snprintf(step, sizeof step, ", step %lld", (long long)initial->step);
  RengaCall(RengaPrintf(printer, "%d of %d parameters and states are those of %s%s\n",
                        initial->taken, initial->network, path, step));
  return RENGA_SUCCESS;
}

/* Who names a folder may take its numbers for granted. */
static RengaErrorCode SayRandom(MPI_Comm printer)
{
  const char *network;
  RengaCall(RengaOptionsGetString("graph", &network, NULL));
  if (!network || strncmp(network, "hf:", 3) != 0) return RENGA_SUCCESS;
  RengaCall(RengaPrintf(printer, "first values are random: -initial %.*s takes the folder's\n",
                        (int)strcspn(network + 3, ","), network + 3));
  return RENGA_SUCCESS;
}

RengaErrorCode AppReadInitial(RengaComm comm, RengaPipeline pipeline, bool subset,
                              RengaCheckpointInitial *initial)
{
  const char *path;
  bool partial;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString("initial", &path, NULL));
  RengaCall(RengaOptionsGetBool("initial_partial", &partial, NULL));
  RengaCheck(path || !partial, printer, RENGA_ERR_OPTION,
             "-initial_partial needs -initial: whose parameters?");
  *initial = (RengaCheckpointInitial){.step = -1};
  if (path)
    RengaCall(TakeInitial(comm, pipeline, path, partial, subset, initial));
  else
    RengaCall(SayRandom(printer));
  RengaCall(AppReadAdapter(comm, pipeline, true));
  return RENGA_SUCCESS;
}

/* A job's script gives the same command when it goes on. */
static RengaErrorCode SayUnread(MPI_Comm printer)
{
  static const char *const names[] = {"initial", "initial_adapter"};
  for (int i = 0; i < 2; i++) {
    const char *path;
    RengaCall(RengaOptionsGetString(names[i], &path, NULL));
    if (path)
      RengaCall(RengaPrintf(printer,
                            "-%s %s is not read: the run goes on from its own checkpoint\n",
                            names[i], path));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppTakeInitial(RengaComm comm, const RengaTrainerParts *parts, bool resumes)
{
  RengaCheckpointInitial initial;
  RengaErrorCode code = RENGA_SUCCESS;
  const MPI_Comm printer = AppPrinter(comm);
  if (resumes) return SayUnread(printer);
  if (parts->group == 0) code = AppReadInitial(parts->ranks, parts->pipeline, false, &initial);
  RengaCall(RengaErrorAgree(printer, code));
  return RENGA_SUCCESS;
}
