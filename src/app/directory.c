/* The folder of -checkpoint_dir, and the options that need one. */
#include "app.h"
#include <string.h>

RengaErrorCode AppFindDirectory(RengaComm comm, const char **directory, bool *resume)
{
  const char *every, *manner, *format;
  bool every_given, async_given, best;
  int64_t memory;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString("checkpoint_dir", directory, NULL));
  RengaCall(RengaOptionsGetString("checkpoint_every", &every, &every_given));
  RengaCall(RengaOptionsGetString("pipeline_on_nonfinite", &manner, NULL));
  RengaCall(RengaOptionsGetBool("checkpoint_async", &async_given, NULL));
  RengaCall(RengaOptionsGetString("checkpoint_format", &format, NULL));
  RengaCall(RengaOptionsGetInt64("checkpoint_memory", &memory, NULL));
  RengaCall(RengaOptionsGetBool("resume", resume, NULL));
  RengaCall(RengaOptionsGetBool("keep_best", &best, NULL));
  const char *needs = *resume                           ? "resume"
                      : best                            ? "keep_best"
                      : every_given                     ? "checkpoint_every"
                      : async_given                     ? "checkpoint_async"
                      : strcmp(format, "hdf5") != 0     ? "checkpoint_format"
                      : memory > 0                      ? "checkpoint_memory"
                      : strcmp(manner, "rollback") == 0 ? "pipeline_on_nonfinite rollback"
                                                        : NULL;
  RengaCheck(*directory || !needs, printer, RENGA_ERR_OPTION,
             "-%s needs -checkpoint_dir: where are the checkpoints?", needs);
  return RENGA_SUCCESS;
}
