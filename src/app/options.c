/* renga options FILE: an options file of all options, each a comment until its # is taken away. */
#include "app.h"
#include <errno.h>
#include <string.h>

static RengaErrorCode WriteOptions(const char *name)
{
  FILE *file = fopen(name, "wx");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s%s", name, strerror(errno),
             errno == EEXIST ? "; it is not replaced" : "");
  RengaErrorCode code = RengaOptionsWriteAll(file);
  if (fclose(file) && !code)
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, __func__, __FILE__, __LINE__,
                           "%s: %s", name, strerror(errno));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppOptions(const App *app)
{
  MPI_Comm printer;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(app->comm, &printer));
  if (RengaCommGetRank(app->comm) == 0) code = WriteOptions(app->words[0]);
  RengaCall(RengaErrorAgree(printer, code));
  RengaCall(RengaPrintf(printer, "%s: all options, as comments\n", app->words[0]));
  return RENGA_SUCCESS;
}
