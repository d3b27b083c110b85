/* How the host waits for a device: within the time limit, while messages move; errors of messages
   that the device waits for are found meanwhile. */
#include "transportimpl.h"
#include <time.h>

static const double DRAIN_SECONDS = 5;    /* for work that may never end */
static const double SHORT_SECONDS = 5e-3; /* asked for without a pause */

/* Who waits for whom: this rank's device for another, or all for this device. */
static void DescribeDevice(const void *subject, size_t size, char text[])
{
  RengaTransport transport = (RengaTransport)(uintptr_t)subject;
  int peer;
  if (!transport->ops->awaits || !transport->ops->awaits(transport, &peer))
    snprintf(text, size, " (this rank's device does not end work of its own)");
  else if (peer == TRANSPORT_SUMMING)
    snprintf(text, size, " (its device is stuck in a sum with other ranks)");
  else if (peer == TRANSPORT_NOBODY_KNOWS)
    snprintf(text, size, " (it is not known what its device is stuck in)");
  else
    snprintf(text, size, " (its device is stuck in a message with rank %d)", peer);
}

RengaErrorCode RengaTransportAwaitEvent_Private(RengaTransport transport, RengaEvent event,
                                                const char *what)
{
  RengaComm comm = transport->hdr.owner;
  MPI_Comm mpi;
  bool done = false;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaWait wait = {.comm = mpi, .what = what, .describe = DescribeDevice, .subject = transport};
  for (;;) {
    RengaCall(RengaEventQuery(transport->device, event, &done));
    if (done) break;
    if (transport->ops->check) RengaCall(transport->ops->check(transport));
    RengaCall(RengaCommPause_Private(comm, &wait));
  }
  RengaCall(RengaEventSynchronize(transport->device, event)); /* finds errors */
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportAwait_Private(RengaTransport transport, RengaStream stream,
                                           const char *what)
{
  if (!transport->reached) {
    RengaCall(RengaStreamSynchronize(transport->device, stream));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaEventRecord(transport->device, transport->reached, stream));
  RengaCall(RengaTransportAwaitEvent_Private(transport, transport->reached, what));
  return RENGA_SUCCESS;
}

/* Whoever waits here has an error already, and says no other. Where work does not end all that it
   may use stays, as after a wait that reached the limit. */
void RengaTransportDrain_Private(RengaTransport transport, RengaStream stream)
{
  const struct timespec pause = {0, 100000};
  const double begin = MPI_Wtime();
  bool done = false;
  RengaErrorCode code = RENGA_SUCCESS;
  MPI_Comm mpi;
  if (RengaObjectGetComm(transport->hdr.owner, &mpi) || !transport->reached) {
    RengaStreamSynchronize(transport->device, stream);
    return;
  }
  const double limit =
      RengaWatchIsBroken_Private(mpi) ? DRAIN_SECONDS : RengaWatchGetLimit_Private(mpi);
  code = RengaEventRecord(transport->device, transport->reached, stream);
  while (!code && !done && (limit == 0 || MPI_Wtime() - begin < limit)) {
    code = RengaEventQuery(transport->device, transport->reached, &done);
    if (!done && MPI_Wtime() - begin > SHORT_SECONDS) nanosleep(&pause, NULL);
  }
  if (!code && !done) RengaWatchBreak_Private(mpi);
}
