/* What a training does where standard output does not take its lines. */
#include "app.h"
#include <signal.h>

/* A log on a disk that is full, or a pipe that is closed, is no reason to lose the training. */
void AppLetOutputFail(void)
{
  RengaPrintSetOptional(true);
  (void)signal(SIGPIPE, SIG_IGN);
}

/* Collective. Once all is kept, the loss of output is an error. */
RengaErrorCode AppCheckOutput(MPI_Comm printer)
{
  bool lost;
  RengaErrorCode code = RengaPrintGetLost(&lost);
  if (!code && lost)
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, __func__, __FILE__, __LINE__,
                           "the training is complete, but standard output lost some of what it "
                           "had to say");
  RengaCall(RengaErrorAgree(printer, code));
  return RENGA_SUCCESS;
}
