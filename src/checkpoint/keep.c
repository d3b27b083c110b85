/* Which files stay, and whether there is room for them. */
#include "checkpointimpl.h"
#include <sys/statvfs.h>
#include <unistd.h>

/* The newest whole files of this run stay, so many as -checkpoint_keep says, and the newest regular
   one that a finite step has followed. A file that was cut short is none of them. */
static RengaErrorCode ChooseOld(RengaCheckpoint checkpoint, int count,
                                const RengaCheckpointFileInfo files[], RengaCheckpointOld *old)
{
  int kept = 0;
  bool good = false;
  RengaCall(RengaMalloc(count + 1, &old->path));
  for (int i = 0; i < count; i++) {
    if (files[i].run != checkpoint->run) continue;
    const bool found = !good && files[i].whole && files[i].mark == RENGA_MARK_GOOD &&
                       RengaCheckpointIsRegular_Private(checkpoint, files[i].step);
    const bool stays = found || kept < checkpoint->options.keep;
    good = good || found;
    kept += files[i].whole;
    if (stays) continue;
    RengaCall(RengaCheckpointDirectoryPath(checkpoint->options.directory, files[i].step,
                                           &old->path[old->count]));
    old->count++;
  }
  return RENGA_SUCCESS;
}

/* A file that will be there, before all others; it takes the place of one of its step. */
static RengaErrorCode PutComing(const RengaCheckpointFileInfo *coming, int *count,
                                RengaCheckpointFileInfo **files)
{
  RengaCheckpointFileInfo *all;
  int made = 0;
  RengaCall(RengaMalloc(*count + 1, &all));
  all[made++] = *coming;
  for (int i = 0; i < *count; i++)
    if ((*files)[i].step != coming->step) all[made++] = (*files)[i];
  RengaFree(files);
  *files = all;
  *count = made;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointFindOld_Private(RengaCheckpoint checkpoint,
                                              const RengaCheckpointFileInfo *coming,
                                              RengaCheckpointOld *old)
{
  RengaCheckpointOld found = {.folders =
                                  checkpoint->options.format == RENGA_CHECKPOINT_SAFETENSORS};
  RengaCheckpointFileInfo *files;
  int count;
  RengaCall(RengaCheckpointDirectoryList(checkpoint->options.directory, &count, &files));
  RengaErrorCode code = coming ? PutComing(coming, &count, &files) : RENGA_SUCCESS;
  if (!code) code = ChooseOld(checkpoint, count, files, &found);
  RengaFree(&files);
  if (code) RengaCheckpointOldFree_Private(&found);
  RengaCall(code);
  *old = found;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointDeleteOld_Private(RengaCheckpoint checkpoint)
{
  RengaCheckpointOld old;
  RengaCall(RengaCheckpointFindOld_Private(checkpoint, NULL, &old));
  RengaCheckpointOldDelete_Private(&old);
  RengaCheckpointOldFree_Private(&old);
  return RENGA_SUCCESS;
}

/* Rank 0: is there room for files of so many bytes, those that are kept and one more? */
static RengaErrorCode WarnOfRoom(RengaCheckpoint checkpoint, int64_t bytes)
{
  struct statvfs space;
  int count;
  if (statvfs(checkpoint->options.directory, &space) != 0) return RENGA_SUCCESS;
  RengaCheckpointFileInfo *files;
  RengaCall(RengaCheckpointDirectoryList(checkpoint->options.directory, &count, &files));
  int kept = 0;
  for (int i = 0; i < count; i++) kept += files[i].run == checkpoint->run && files[i].whole;
  RengaFree(&files);
  const double room = (double)space.f_bavail * (double)space.f_frsize / (double)bytes + kept;
  char size[16];
  RengaFormatBytes((double)bytes, sizeof size, size);
  if (room < checkpoint->options.keep + 1)
    RengaWarning(checkpoint->hdr.comm,
                 "%s has room for %d checkpoints of %s; -checkpoint_keep %d takes %d while one is "
                 "written",
                 checkpoint->options.directory, (int)room, size, checkpoint->options.keep,
                 checkpoint->options.keep + 1);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointLookForRoom_Private(RengaCheckpoint checkpoint)
{
  RengaPersistent *tensors = NULL;
  int count = 0;
  int64_t bytes = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  if (checkpoint->bytes > 0) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointListTensors_Private(checkpoint, NULL, &count, &tensors));
  for (int i = 0; i < count; i++)
    if (tensors[i].owner) bytes += RengaPersistentGetBytes(&tensors[i]);
  RengaFree(&tensors);
  RengaCall(RengaCommSumInt64(checkpoint->hdr.owner, 1, &bytes, "the size of a checkpoint"));
  checkpoint->bytes = bytes;
  if (RengaCommGetRank(checkpoint->hdr.owner) == 0 && bytes > 0)
    code = WarnOfRoom(checkpoint, bytes);
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code));
  return RENGA_SUCCESS;
}
