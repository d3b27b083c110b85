/* Tensors of the program's own in a checkpoint: the same on all ranks, written by rank 0, read by
   all. Their names begin with "renga:", which no tensor of a network does; a file need not have
   them, nor need who reads it. */
#include "checkpointimpl.h"
#include <string.h>

#define EXTRA_PREFIX RENGA_CHECKPOINT_OWN

bool RengaCheckpointIsExtra_Private(const char *name)
{
  return strncmp(name, EXTRA_PREFIX, strlen(EXTRA_PREFIX)) == 0;
}

void RengaCheckpointFreeExtras_Private(RengaCheckpoint checkpoint)
{
  for (int i = 0; i < checkpoint->n_extras; i++) {
    char *name = (char *)(uintptr_t)checkpoint->extra[i].name;
    RengaFree(&name);
  }
  RengaFree(&checkpoint->extra);
  checkpoint->n_extras = 0;
}

static bool FitsTable(const RengaCheckpointTable *table, const RengaPersistent *extra)
{
  if (!table) return true;
  const int found = RengaCheckpointTableFind(table, extra->name);
  return found >= 0 && RengaTensorSpecEqual(&table->entries[found].spec, &extra->spec);
}

static RengaErrorCode MakeTensorList(RengaCheckpoint checkpoint, const RengaCheckpointTable *table,
                                     int *count, RengaPersistent **tensors)
{
  const RengaPersistent *own;
  int given, n = 0;
  if (checkpoint->tensors)
    RengaCall(checkpoint->tensors(checkpoint->tensors_user, &given, &own));
  else
    RengaCall(RengaPipelineGetPersistents(checkpoint->pipeline, &given, &own));
  RengaCall(RengaMalloc(given + checkpoint->n_extras + 1, tensors));
  for (int i = 0; i < given; i++)
    if (!RengaCheckpointIsExtra_Private(own[i].name) || FitsTable(table, &own[i]))
      (*tensors)[n++] = own[i];
  for (int i = 0; i < checkpoint->n_extras; i++)
    if (FitsTable(table, &checkpoint->extra[i])) (*tensors)[n++] = checkpoint->extra[i];
  *count = n;
  return RENGA_SUCCESS;
}

/* Collective: the pipeline's tensors and the program's; of the latter those that the table, if
   there is one, has in the same shape. *tensors: for RengaFree, where all ranks have it. */
RengaErrorCode RengaCheckpointListTensors_Private(RengaCheckpoint checkpoint,
                                                  const RengaCheckpointTable *table, int *count,
                                                  RengaPersistent **tensors)
{
  RengaPersistent *all = NULL;
  const RengaErrorCode code =
      RengaErrorAgree(checkpoint->hdr.comm, MakeTensorList(checkpoint, table, count, &all));
  if (code) RengaFree(&all);
  RengaCall(code);
  *tensors = all;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetTensors - what is written and read in place of the pipeline's tensors

   Input:
   . checkpoint - the checkpoint; its pipeline still says step, device and loss scale
   . tensors - called on all ranks for each file that is written or read; NULL: the pipeline's
   . user - a pointer that the function is given

   Notes: for programs that train several pipelines. Over all ranks each element of a name has one
   owner, as RengaPipelineGetPersistents says. A list may have tensors whose names begin with
   RENGA_CHECKPOINT_OWN: files without them are read all the same, and who does not list them does
   not see them. An error of tensors on one rank must be one on all of them, or leave no rank
   waiting.

   See also: RengaCheckpointAddTensor(), RengaPipelineGetPersistents()
@*/
RengaErrorCode RengaCheckpointSetTensors(RengaCheckpoint checkpoint, RengaCheckpointTensors tensors,
                                         void *user)
{
  RengaCheckPointer(checkpoint);
  checkpoint->tensors = tensors;
  checkpoint->tensors_user = user;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointAddTensor - a tensor of the program's own goes into checkpoints too

   Collective

   Input:
   . checkpoint - the checkpoint, with a pipeline on a host device
   . name - without "renga:", which its name in the file begins with
   . spec - float32, of a size that is known
   . data - [elements], the same on all ranks whenever a file is written, and filled on all of them
     when one is read. It is lent until the checkpoint ends

   Errors: a name that was added before, another type, a pipeline whose device is not a host's.

   Notes: RengaCheckpointHasTensor says whether the file that was read last had it in that shape; it
   is left as it was where the file does not. Those who read a file without having added its tensors
   do not see them.

   See also: RengaCheckpointHasTensor(), RengaCheckpointWrite()
@*/
RengaErrorCode RengaCheckpointAddTensor(RengaCheckpoint checkpoint, const char *name,
                                        const RengaTensorSpec *spec, float data[])
{
  RengaDevice device;
  RengaRectangle whole;
  char full[256], *copy;
  RengaCheckPointers(checkpoint, name, spec, data);
  RengaCheck(checkpoint->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaCheckpointAddTensor: call RengaCheckpointSetPipeline first");
  RengaCall(RengaPipelineGetDevice(checkpoint->pipeline, &device));
  RengaCheck(RengaDeviceIsHost(device), checkpoint->hdr.comm, RENGA_ERR_SUPPORT,
             "tensor %s of the program lies in the host's memory, and checkpoints of a device that "
             "has its own do not take it: use -device_type " RENGA_DEVICE_CPU
             ", or keep no checkpoints, or train without what needs the tensor",
             name);
  RengaCheck(spec->type == RENGA_FLOAT32, checkpoint->hdr.comm, RENGA_ERR_SUPPORT,
             "tensor %s: only float32 is supported", name);
  snprintf(full, sizeof full, EXTRA_PREFIX "%s", name);
  for (int i = 0; i < checkpoint->n_extras; i++)
    RengaCheck(strcmp(checkpoint->extra[i].name, full) != 0, checkpoint->hdr.comm,
               RENGA_ERR_ARGUMENT, "tensor %s was added to the checkpoint before", name);
  RengaCall(RengaRectangleWhole(spec, &whole));
  RengaCall(RengaRealloc(checkpoint->n_extras + 1, &checkpoint->extra));
  RengaCall(RengaStringCopy(full, &copy));
  checkpoint->extra[checkpoint->n_extras++] =
      (RengaPersistent){.name = copy,
                        .spec = *spec,
                        .part = whole,
                        .data = data,
                        .owner = RengaCommGetRank(checkpoint->hdr.owner) == 0,
                        .state = true};
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointHasTensor - did the file that was read last have a tensor of the program's own?

   Input:
   . checkpoint - after RengaCheckpointResume or RengaCheckpointRead
   . name - the name that RengaCheckpointAddTensor was given

   Output:
   . has - true: in the shape that was added, so that it was read; false: not, or no file was read

   See also: RengaCheckpointAddTensor()
@*/
RengaErrorCode RengaCheckpointHasTensor(RengaCheckpoint checkpoint, const char *name, bool *has)
{
  char full[256];
  RengaCheckPointers(checkpoint, name, has);
  snprintf(full, sizeof full, EXTRA_PREFIX "%s", name);
  *has = false;
  for (int i = 0; i < checkpoint->n_extras && checkpoint->found.n_entries > 0; i++)
    if (strcmp(checkpoint->extra[i].name, full) == 0)
      *has = FitsTable(&checkpoint->found, &checkpoint->extra[i]);
  return RENGA_SUCCESS;
}
