/* Where samples come from: the data set, or a function of the program. */
#include "trainerimpl.h"

/*@
   RengaTrainerSetReader - samples of the program, in the order of a data set

   Input:
   . trainer - the trainer, before its data are set
   . reader - called on ranks that need an input, for samples that follow each other: of the
     training part by their places in the order of the epoch, which RengaDataFindSample() knows
   . user - handed to the reader

   Errors: RENGA_ERR_ORDER after RengaTrainerSetData(), which counts the samples of evaluations.

   Notes: the data set then says how many training samples there are, and their order; samples of an
   evaluation are as many as the rules say.

   See also: RengaTrainerSetData(), RengaDataFindSample()
@*/
RengaErrorCode RengaTrainerSetReader(RengaTrainer trainer, RengaTrainerReader reader, void *user)
{
  RengaCheckPointer(trainer);
  RengaCheck(!trainer->parts.data, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaTrainerSetReader comes before RengaTrainerSetData");
  trainer->reader = reader;
  trainer->reader_user = user;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReadWindow(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const RengaWindow *window = user;
  RengaTrainer trainer = window->trainer;
  const int64_t at = window->first + first;
  if (trainer->reader)
    RengaCall(trainer->reader(trainer->reader_user, window->part, field, window->epoch, at, count,
                              buffer));
  else
    RengaCall(
        RengaDataRead(trainer->parts.data, window->part, field, window->epoch, at, count, buffer));
  return RENGA_SUCCESS;
}
