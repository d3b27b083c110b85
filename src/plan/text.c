/* The text of a plan's file, on all ranks. */
#include "planimpl.h"
#include "renga/private/open.h"
#include "rengacomm.h"
#include <errno.h>

/* The whole file, ended by a zero; *text is RengaFree'd by the caller. */
static RengaErrorCode ReadPlanText(const char *file_name, int64_t *size, char **text)
{
  FILE *file = RengaFileOpen_Private(file_name, "r");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "cannot read the plan %s: %s", file_name,
             RengaFileReason_Private(errno));
  size_t capacity = 1 << 16, used = 0, got = 0;
  RengaErrorCode code = RengaMalloc(capacity, text);
  while (!code && (got = fread(*text + used, 1, capacity - used - 1, file)) > 0) {
    used += got;
    if (used + 1 == capacity) code = RengaRealloc(capacity *= 2, text);
  }
  const bool whole = !ferror(file);
  fclose(file);
  RengaCall(code);
  RengaCheck(whole, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "cannot read the plan %s", file_name);
  (*text)[used] = 0;
  *size = (int64_t)used + 1;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanShareText_Private(RengaPlan plan, const char *file, char **text)
{
  int64_t size = 0;
  RengaComm comm = plan->hdr.owner;
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaCommGetRank(comm) == 0) code = ReadPlanText(file, &size, text);
  RengaCall(RengaErrorAgree(plan->hdr.comm, code));
  RengaCall(RengaCommBroadcast(comm, &size, sizeof size, 0, "size of the plan's file"));
  if (RengaCommGetRank(comm) != 0) code = RengaMalloc(size, text);
  RengaCall(RengaErrorAgree(plan->hdr.comm, code));
  RengaCall(RengaCommBroadcast(comm, *text, (size_t)size, 0, "the plan's file"));
  return RENGA_SUCCESS;
}
