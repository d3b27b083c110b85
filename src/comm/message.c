/* Comm: messages between two ranks, and the one way in which this room waits. */
#include "commimpl.h"

enum { NO_PEER = -1 }; /* of a request that waits for all ranks */

static void ListAdd(RengaRequest *list, RengaRequest r)
{
  r->previous = NULL;
  r->next = *list;
  if (r->next != NULL) r->next->previous = r;
  *list = r;
}

static void ListRemove(RengaRequest *list, RengaRequest r)
{
  if (r->previous != NULL)
    r->previous->next = r->next;
  else
    *list = r->next;
  if (r->next != NULL) r->next->previous = r->previous;
}

/* One that is done, or was never started. */
static void RequestEnd(RengaComm comm, RengaRequest *request)
{
  RengaRequest r = *request;
  if (r->done) ListRemove(&comm->done, r);
  if (r->part != &r->one) RengaFree(&r->part);
  r->part = &r->one;
  r->next = comm->spare;
  comm->spare = r;
  *request = NULL;
}

static RengaErrorCode RequestCreate(RengaComm comm, MPI_Comm line, bool receives, size_t bytes,
                                    int peer, int tag, RengaRequest *request)
{
  RengaRequest r = comm->spare;
  if (r != NULL)
    comm->spare = r->next;
  else
    RengaCall(RengaMalloc(1, &r));
  size_t limit = (size_t)comm->message_limit;
  *r = (struct _RengaRequest){.line = line,
                              .receives = receives,
                              .peer = peer,
                              .tag = tag,
                              .bytes = bytes,
                              .part_bytes = limit};
  r->parts = bytes == 0 ? 1 : (int)((bytes + limit - 1) / limit);
  r->part = &r->one;
  const RengaErrorCode code = r->parts > 1 ? RengaMalloc(r->parts, &r->part) : RENGA_SUCCESS;
  if (code) RequestEnd(comm, &r);
  RengaCall(code);
  *request = r;
  return RENGA_SUCCESS;
}

/* Memory for so many messages of one part, which then start without any. */
RengaErrorCode RengaCommReserve_Private(RengaComm comm, int count)
{
  for (RengaRequest r = comm->spare; r; r = r->next) count--;
  for (; count > 0; count--) {
    RengaRequest r;
    RengaCall(RengaMalloc(1, &r));
    r->part = &r->one;
    r->next = comm->spare;
    comm->spare = r;
  }
  return RENGA_SUCCESS;
}

static int PartBytes(const struct _RengaRequest *r, int part)
{
  size_t before = (size_t)part * r->part_bytes, left = r->bytes - before;
  return (int)(left < r->part_bytes ? left : r->part_bytes);
}

static RengaErrorCode CheckLength(RengaComm comm, RengaRequest r, int part, MPI_Status *status)
{
  int bytes, wanted = PartBytes(r, part);
  RengaCallMPI(MPI_Get_count(status, MPI_BYTE, &bytes));
  r->received += (size_t)bytes;
  RengaCheck(bytes == wanted || r->shorter, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "rank %d received %d bytes from rank %d under tag %d, where %d were expected",
             comm->rank, bytes, r->peer, r->tag, wanted);
  return RENGA_SUCCESS;
}

/* Parts end in order, so only the first unfinished one is asked. */
static RengaErrorCode RequestAdvance(RengaComm comm, RengaRequest r)
{
  while (!r->done) {
    int done = 0, part = r->parts_done;
    MPI_Status status;
    RengaCallMPI(MPI_Test(&r->part[part], &done, &status));
    if (!done) return RENGA_SUCCESS;
    comm->finished++;
    r->done = ++r->parts_done == r->parts;
    if (r->done) ListRemove(&comm->outstanding, r);
    if (r->done) ListAdd(&comm->done, r);
    if (r->receives) RengaCall(CheckLength(comm, r, part, &status));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AdvanceAll(RengaComm comm)
{
  for (RengaRequest r = comm->outstanding, next; r != NULL; r = next) {
    next = r->next;
    RengaCall(RequestAdvance(comm, r));
  }
  RengaCall(RengaCommSumsAdvance(comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckMessage(RengaComm comm, const void *buffer, size_t bytes, int peer,
                                   int tag, RengaRequest *request, const char *function)
{
  RengaCheckPointerOf(function, comm);
  RengaCheckPointerOf(function, request);
  RengaCheck(buffer != NULL || bytes == 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a message of %zu bytes has no buffer", bytes);
  RengaCheck(peer >= 0 && peer < comm->size, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank %d is not one of 0 to %d", peer, comm->size - 1);
  RengaCheck(tag >= 0 && tag <= comm->tag_limit, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "tag %d is not one of 0 to %d, which this MPI allows", tag, comm->tag_limit);
  return RENGA_SUCCESS;
}

/* Parts that were started before one failed stay under way; a message of which none was is over. */
static void ListOrEnd(RengaComm comm, RengaErrorCode code, RengaRequest *request)
{
  RengaRequest r = *request;
  if (code) r->parts = r->started;
  if (r->started > 0)
    ListAdd(&comm->outstanding, r);
  else
    RequestEnd(comm, request);
}

static RengaErrorCode StartSend(RengaRequest r, const void *buffer)
{
  for (; r->started < r->parts; r->started++) {
    const char *from = (const char *)buffer + (size_t)r->started * r->part_bytes;
    RengaCallStart(MPI_Isend(from, PartBytes(r, r->started), MPI_BYTE, r->peer, r->tag, r->line,
                             &r->part[r->started]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode StartReceive(RengaRequest r, void *buffer)
{
  for (; r->started < r->parts; r->started++) {
    char *to = (char *)buffer + (size_t)r->started * r->part_bytes;
    RengaCallStart(MPI_Irecv(to, PartBytes(r, r->started), MPI_BYTE, r->peer, r->tag, r->line,
                             &r->part[r->started]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SendOn(RengaComm comm, MPI_Comm line, const void *buffer, size_t bytes,
                             int to, int tag, RengaRequest *request)
{
  RengaRequest r;
  RengaCall(RequestCreate(comm, line, false, bytes, to, tag, &r));
  RengaLogEventBegin(comm->event[RENGA_COMM_EVENT_SEND]);
  const RengaErrorCode code = StartSend(r, buffer);
  ListOrEnd(comm, code, &r);
  RengaLogEventEnd(comm->event[RENGA_COMM_EVENT_SEND], 0, 1, (int64_t)bytes);
  RengaCall(code);
  *request = r;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReceiveOn(RengaComm comm, MPI_Comm line, bool shorter, void *buffer,
                                size_t bytes, int from, int tag, RengaRequest *request)
{
  RengaRequest r;
  RengaCall(RequestCreate(comm, line, true, bytes, from, tag, &r));
  r->shorter = shorter;
  RengaLogEventBegin(comm->event[RENGA_COMM_EVENT_RECEIVE]);
  const RengaErrorCode code = StartReceive(r, buffer);
  ListOrEnd(comm, code, &r);
  RengaLogEventEnd(comm->event[RENGA_COMM_EVENT_RECEIVE], 0, 1, (int64_t)bytes);
  RengaCall(code);
  *request = r;
  return RENGA_SUCCESS;
}

static RengaErrorCode StartLargest(RengaComm comm, RengaRequest r, int count, int64_t values[])
{
  RengaCallStart(
      MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_MAX, comm->hdr.comm, r->part));
  r->started = 1;
  return RENGA_SUCCESS;
}

/*@
   RengaCommSend - start to send bytes to another rank

   Input:
   . buffer - must not change until the request is done
   . bytes - any number; more than -comm_message_limit travel in parts
   . to - the rank, from 0, that calls RengaCommReceive with the same number of bytes
   . tag - a number from 0: messages between two ranks under one tag arrive in the order in which
     they were sent

   Output:
   . request - the request that RengaCommTest or RengaCommWait must end

   Errors: RENGA_ERR_ARGUMENT for a rank or a tag that there is not, or bytes without a buffer;
   RENGA_ERR_LIBRARY where MPI refuses three times.

   See also: RengaCommReceive(), RengaCommTest(), RengaCommWait()
@*/
RengaErrorCode RengaCommSend(RengaComm comm, const void *buffer, size_t bytes, int to, int tag,
                             RengaRequest *request)
{
  RengaCall(CheckMessage(comm, buffer, bytes, to, tag, request, __func__));
  RengaCall(SendOn(comm, comm->hdr.comm, buffer, bytes, to, tag, request));
  return RENGA_SUCCESS;
}

/*@
   RengaCommReceive - start to receive bytes from another rank

   Input:
   . buffer - filled when the request is done
   . bytes - bytes, at least 0, exactly as many as are sent; another length is an error
   . from - the rank, from 0, that calls RengaCommSend
   . tag - the tag of RengaCommSend, from 0

   Output:
   . request - the request that RengaCommTest or RengaCommWait must end

   Errors: RENGA_ERR_ARGUMENT for a rank or a tag that there is not, or bytes without a buffer;
   RENGA_ERR_LIBRARY where MPI refuses three times.

   See also: RengaCommSend(), RengaCommTest(), RengaCommWait()
@*/
RengaErrorCode RengaCommReceive(RengaComm comm, void *buffer, size_t bytes, int from, int tag,
                                RengaRequest *request)
{
  RengaCall(CheckMessage(comm, buffer, bytes, from, tag, request, __func__));
  RengaCall(ReceiveOn(comm, comm->hdr.comm, false, buffer, bytes, from, tag, request));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCommSendPart_Private(RengaComm comm, const void *buffer, size_t bytes, int to,
                                         int tag, RengaRequest *request)
{
  RengaCall(SendOn(comm, comm->tree, buffer, bytes, to, tag, request));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCommReceivePart_Private(RengaComm comm, void *buffer, size_t room, int from,
                                            int tag, RengaRequest *request)
{
  RengaCall(ReceiveOn(comm, comm->tree, true, buffer, room, from, tag, request));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCommTestPart_Private(RengaComm comm, RengaRequest *request, bool *done,
                                         size_t *bytes)
{
  if (*request != NULL) {
    RengaCall(RequestAdvance(comm, *request));
    if ((*request)->done && bytes) *bytes = (*request)->received;
    if ((*request)->done) RequestEnd(comm, request);
  }
  *done = *request == NULL;
  return RENGA_SUCCESS;
}

/*@
   RengaCommStartLargest - start to find the largest of all ranks' numbers, place by place

   Collective

   Input:
   . count - numbers of each rank, at least 1, the same on all; few: they travel in one call of MPI

   Input and output:
   . values - [count] this rank's; the largest, on all ranks, when the request is done

   Output:
   . request - the request that RengaCommTest or RengaCommWait must end

   Errors: RENGA_ERR_ARGUMENT for a count of numbers that does not fit a request;
   RENGA_ERR_LIBRARY where MPI refuses three times.

   See also: RengaCommTest(), RengaCommWait()
@*/
RengaErrorCode RengaCommStartLargest(RengaComm comm, int count, int64_t values[],
                                     RengaRequest *request)
{
  RengaRequest r;
  RengaCheckPointers(comm, values, request);
  RengaCheck(count > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a count of %d numbers", count);
  RengaCall(
      RequestCreate(comm, comm->hdr.comm, false, (size_t)count * sizeof *values, NO_PEER, 0, &r));
  r->parts = 1;
  const RengaErrorCode code = StartLargest(comm, r, count, values);
  ListOrEnd(comm, code, &r);
  RengaCall(code);
  *request = r;
  return RENGA_SUCCESS;
}

/*@
   RengaCommTest - is a message done?

   Input:
   . request - set to NULL when done; NULL is done

   Output:
   . done - whether the buffer may be used again

   Errors: RENGA_ERR_SHAPE where a message of another length came; RENGA_ERR_LIBRARY from MPI.

   See also: RengaCommWait(), RengaCommProgress()
@*/
RengaErrorCode RengaCommTest(RengaComm comm, RengaRequest *request, bool *done)
{
  RengaCheckPointers(comm, request, done);
  RengaCall(RengaCommTestPart_Private(comm, request, done, NULL));
  return RENGA_SUCCESS;
}

/*@
   RengaCommProgress - let outstanding messages and sums move; call it between kernels

   Errors: RENGA_ERR_SHAPE where a message of another length came; RENGA_ERR_LIBRARY from MPI.

   Notes: MPI moves messages only inside its own calls. Costs a fraction of a microsecond where
   nothing has come. Of sums also those of the comm that comm was made of, and of its groups: what
   they can add up they add.

   See also: RengaCommTest(), RengaCommWait()
@*/
RengaErrorCode RengaCommProgress(RengaComm comm)
{
  RengaCheckPointer(comm);
  if (comm->outstanding != NULL || comm->sums->first != NULL) return AdvanceAll(comm);
  RengaCall(RengaCommSumsAdvance(comm));
  int flag;
  RengaCallMPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm->hdr.comm, &flag, MPI_STATUS_IGNORE));
  return RENGA_SUCCESS;
}

static void DescribeRequest(const void *subject, size_t size, char text[])
{
  const struct _RengaRequest *r = subject;
  if (r->peer == NO_PEER) return;
  snprintf(text, size, " (%zu bytes %s rank %d, tag %d)", r->bytes, r->receives ? "from" : "to",
           r->peer, r->tag);
}

RengaErrorCode RengaCommPause_Private(RengaComm comm, RengaWait *wait)
{
  RengaCall(AdvanceAll(comm));
  RengaCall(RengaWaitPause_Private(wait, comm->finished + comm->sums->moved));
  return RENGA_SUCCESS;
}

/*@
   RengaCommWait - wait until a message is done, politely

   Input:
   . request - set to NULL
   . what - the sentence to print when nothing moves for the timeout: "stage 1 waits for forward of
     micro-batch 3 from stage 0"

   Errors: RENGA_ERR_TIMEOUT where nothing moves within the time limit; RENGA_ERR_SHAPE where a
   message of another length came; RENGA_ERR_LIBRARY from MPI.

   Notes: tests, yields the core, then sleeps a little; all other messages and sums of comm move
   meanwhile.
   RENGA_ERR_TIMEOUT after the time of RengaCommSetTimeout without any message moving; the sentence
   then names the ranks that gave no sign. The buffers of messages that were under way stay MPI's.

   See also: RengaCommTest(), RengaCommSetTimeout()
@*/
RengaErrorCode RengaCommWait(RengaComm comm, RengaRequest *request, const char *what)
{
  RengaCheckPointers(comm, request, what);
  if (*request == NULL) return RENGA_SUCCESS;
  RengaWait wait = {
      .comm = comm->hdr.comm, .what = what, .describe = DescribeRequest, .subject = *request};
  RengaLogEventBegin(comm->event[RENGA_COMM_EVENT_WAIT]);
  for (;;) {
    RengaCall(RequestAdvance(comm, *request));
    if ((*request)->done) break;
    RengaCall(RengaCommPause_Private(comm, &wait));
  }
  RengaLogEventEnd(comm->event[RENGA_COMM_EVENT_WAIT], 0, 0, 0);
  RequestEnd(comm, request);
  return RENGA_SUCCESS;
}

/* Requests of MPI's own; those that are MPI_REQUEST_NULL are done. */
RengaErrorCode RengaCommWaitAll(RengaComm comm, int count, MPI_Request requests[], const char *what)
{
  RengaWait wait = {.comm = comm->hdr.comm, .what = what};
  for (int i = 0; i < count;) {
    int done = 0;
    RengaCallMPI(MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE));
    if (done) {
      comm->finished++;
      i++;
    } else
      RengaCall(RengaCommPause_Private(comm, &wait));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RaiseOutstanding(RengaComm comm, const struct _RengaRequest *r)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_ORDER,
             "rank %d: a message of %zu bytes %s rank %d (tag %d) is outstanding: call "
             "RengaCommWait",
             comm->rank, r->bytes, r->receives ? "from" : "to", r->peer, r->tag);
}

static void ListFree(RengaRequest *list)
{
  while (*list != NULL) {
    RengaRequest r = *list;
    *list = r->next;
    if (r->part != &r->one) RengaFree(&r->part);
    RengaFree(&r);
  }
}

/* All requests end here. broken: messages that were given up are no mistake. */
RengaErrorCode RengaCommFreeMessages(RengaComm comm, bool broken)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (comm->outstanding != NULL && !broken) code = RaiseOutstanding(comm, comm->outstanding);
  ListFree(&comm->outstanding);
  ListFree(&comm->done);
  ListFree(&comm->spare);
  RengaCall(code);
  return RENGA_SUCCESS;
}
