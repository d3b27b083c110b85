/* Sums by NCCL: the ranks of a group share one communicator on a stream of its own, on which all
   their sums are queued one after the other, in the order in which they begin on all of them. A sum
   by the tree is messages and the device's additions, on that stream too; unordered ones are
   NCCL's. */
#include "nccl.h"

static Gang *GangOf(void *user)
{
  return ((struct _RengaConvoy *)user)->data;
}

RengaErrorCode RengaConvoyCreate_NCCL(RengaConvoy convoy)
{
  Nccl *nccl = convoy->transport->data;
  int g = 0;
  while (g < nccl->n_gangs && nccl->gang[g].comm != convoy->comm) g++;
  RengaCheck(g < nccl->n_gangs, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the ranks of a sum are not connected: call RengaTransportConnect");
  convoy->data = &nccl->gang[g];
  convoy->order.stream = nccl->gang[g].track.stream;
  return RENGA_SUCCESS;
}

static RengaErrorCode EnterGang(void *user)
{
  const struct _RengaConvoy *convoy = user;
  const Nccl *nccl = convoy->transport->data;
  RengaCheck(!nccl->aborted, MPI_COMM_SELF, RENGA_ERR_LIBRARY,
             "sums by %s were given up after an error", nccl->fabric->library);
  RengaCall(RengaConvoyEnter(convoy));
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginInGang(void *user, int count, size_t bytes)
{
  (void)count;
  (void)bytes;
  RengaCall(EnterGang(user));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndGangSpan(RengaDevice device, const Gang *gang, const char *name)
{
  RengaCall(RengaSpanEnd_Private(device, gang->track.stream, gang->span, "sum of gradients",
                                 "Sum by NCCL", 0, name));
  return RENGA_SUCCESS;
}

static RengaErrorCode TogetherInGang(void *user, bool begin)
{
  RengaTransport transport = ((const struct _RengaConvoy *)user)->transport;
  Gang *gang = GangOf(user);
  RengaDevice device = transport->device;
  const Nccl *nccl = transport->data;
  if (begin) {
    RengaCall(RengaSpanBegin_Private(device, gang->track.stream, &gang->span));
    RengaCall(RengaMarkBegin(transport, gang->track.stream, TRANSPORT_SUMMING, &gang->mark));
    RengaCall(nccl->fabric->begin(device));
  } else {
    RengaCall(nccl->fabric->end(device));
    RengaCall(RengaMarkEnd(transport, gang->track.stream, gang->mark));
    RengaCall(EndGangSpan(device, gang, "messages of a round"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SendInGang(void *user, int place, const void *from, size_t bytes, int to,
                                 int tag)
{
  const struct _RengaConvoy *convoy = user;
  const Nccl *nccl = convoy->transport->data;
  (void)place;
  (void)tag;
  RengaCall(nccl->fabric->send(convoy->transport->device, GangOf(user)->track.wire,
                               convoy->order.stream, from, bytes, to));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReceiveInGang(void *user, int place, void *to, size_t room, int from, int tag)
{
  const struct _RengaConvoy *convoy = user;
  const Nccl *nccl = convoy->transport->data;
  (void)place;
  (void)tag;
  RengaCall(nccl->fabric->receive(convoy->transport->device, GangOf(user)->track.wire,
                                  convoy->order.stream, to, room, from));
  return RENGA_SUCCESS;
}

const RengaCommCarrier RengaConvoyCarrier_NCCL = {.reserve = BeginInGang,
                                                  .send = SendInGang,
                                                  .receive = ReceiveInGang,
                                                  .together = TogetherInGang,
                                                  .take = RengaConvoyLeave};

RengaErrorCode RengaConvoySum_NCCL(RengaConvoy convoy, RengaDataType type, int64_t count,
                                   void *values, const char *what)
{
  const Nccl *nccl = convoy->transport->data;
  RengaDevice device = convoy->transport->device;
  Gang *gang = GangOf(convoy);
  (void)what; /* the host does not wait */
  RengaCall(EnterGang(convoy));
  RengaCall(RengaSpanBegin_Private(device, convoy->order.stream, &gang->span));
  RengaCall(
      RengaMarkBegin(convoy->transport, convoy->order.stream, TRANSPORT_SUMMING, &gang->mark));
  RengaCall(nccl->fabric->sum(device, gang->track.wire, convoy->order.stream, type, count, values));
  RengaCall(RengaMarkEnd(convoy->transport, convoy->order.stream, gang->mark));
  RengaCall(EndGangSpan(device, gang, "sum"));
  return RENGA_SUCCESS;
}

/* NCCL's sums take one way or another by their sizes, and it (2.22 or later) joins the ranks on
   each way when that is first taken: it waits for all of them then, and may for what is queued. */
RengaErrorCode RengaConvoyJoin_NCCL(RengaConvoy convoy, RengaDataType type, int64_t count,
                                    void *values)
{
  static const char what[] = "the first sum of a group by NCCL";
  const Nccl *nccl = convoy->transport->data;
  RengaGuardBegin_Private(what);
  const RengaErrorCode code =
      nccl->fabric->sum(convoy->transport->device, GangOf(convoy)->track.wire, convoy->order.stream,
                        type, count, values);
  RengaGuardEnd_Private();
  RengaCall(code);
  RengaCall(RengaTransportAwait_Private(convoy->transport, convoy->order.stream, what));
  return RENGA_SUCCESS;
}

/* There is none of so many numbers yet: NCCL may join the ranks for it. */
static bool IsFirstOfCount(Nccl *nccl, int64_t count)
{
  for (int i = 0; i < nccl->n_counts; i++)
    if (nccl->count[i] == count) return false;
  if (nccl->n_counts < NCCL_COUNTS) nccl->count[nccl->n_counts++] = count;
  return true;
}

/* All ranks come to it behind the same messages. */
RengaErrorCode RengaTransportSumExact_NCCL(RengaTransport transport, int64_t count, double values[])
{
  Nccl *nccl = transport->data;
  Mark *mark = NULL; /* of the first one there is none: nothing may be queued before it */
  const bool first = IsFirstOfCount(nccl, count);
  RengaCheck(!nccl->aborted, MPI_COMM_SELF, RENGA_ERR_LIBRARY,
             "sums by %s were given up after an error", nccl->fabric->library);
  if (!first) RengaCall(RengaMarkBegin(transport, NULL, TRANSPORT_SUMMING, &mark));
  if (first) RengaGuardBegin_Private("the first sum over all ranks by NCCL");
  const RengaErrorCode code =
      nccl->fabric->sumdoubles(transport->device, nccl->all.wire, NULL, count, values);
  if (first) RengaGuardEnd_Private();
  RengaCall(code);
  RengaCall(RengaMarkEnd(transport, NULL, mark));
  return RENGA_SUCCESS;
}
