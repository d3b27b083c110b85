/* renga data text IN OUT: a data set of bytes from a text. */
#include "app.h"
#include <string.h>

RengaErrorCode AppData(const App *app)
{
  MPI_Comm printer;
  int64_t sequence = 0;
  double validation = 0;
  RengaCall(RengaObjectGetComm(app->comm, &printer));
  RengaCheck(!strcmp(app->words[0], "text"), printer, RENGA_ERR_OPTION,
             "renga data makes data sets of kind text, not of kind %s", app->words[0]);
  RengaCall(RengaOptionsGetInt64("sequence", &sequence, NULL));
  RengaCall(RengaOptionsGetReal("data_validation", &validation, NULL));
  RengaCall(RengaDataWriteText(app->comm, app->words[1], app->words[2], sequence, validation));
  RengaCall(RengaPrintf(printer, "wrote %s: samples of %lld bytes and the next one\n",
                        app->words[2], (long long)sequence));
  return RENGA_SUCCESS;
}
