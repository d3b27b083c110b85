/* renga options FILE: an options file of all options, each a comment until its # is taken away. */
#include "app.h"
#include "renga/private/open.h"
#include <errno.h>
#include <unistd.h>

static RengaErrorCode WriteOptions(const char *name)
{
  FILE *file = RengaFileOpen_Private(name, "wx");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s%s", name,
             RengaFileReason_Private(errno), errno == EEXIST ? "; it is not replaced" : "");
  const RengaErrorCode code = RengaOptionsWriteAll(file);
  const bool whole = fclose(file) == 0;
  const int cause = errno;
  if (code || !whole) unlink(name); /* nobody else's */
  RengaCall(code);
  RengaCheck(whole, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", name,
             RengaFileReason_Private(cause));
  return RENGA_SUCCESS;
}

RengaErrorCode AppOptions(const App *app)
{
  RengaErrorCode code = RENGA_SUCCESS;
  const MPI_Comm printer = AppPrinter(app->comm);
  if (RengaCommGetRank(app->comm) == 0) code = WriteOptions(app->words[0]);
  RengaCall(RengaErrorAgree(printer, code));
  RengaCall(RengaPrintf(printer, "%s: all options, as comments\n", app->words[0]));
  return RENGA_SUCCESS;
}
