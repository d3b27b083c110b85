/* A transport from outside for tests: messages are MPI's, on communicators of its own, one for all
   ranks and one for each group. It is as slow as a rule may be: messages are started by progress
   alone, one each time, and done when test has asked three times more than it takes. */
#pragma once
#include "renga.h"
#include <stdlib.h>

enum { CARRIED_GROUPS = 64, CARRIED_LATER = 3 };

typedef struct CarriedMessage {
  struct CarriedMessage *next; /* that waits to be started */
  RengaTransportMessage *message;
  MPI_Request request;
  bool receives, started;
  int asked;
} CarriedMessage;

typedef struct {
  MPI_Comm comm[1 + CARRIED_GROUPS]; /* of all ranks, of groups */
  int count;
  CarriedMessage *first, *last;
} Carried;

/* What a test counts, and what it wants. fails: the n-th send from now on, 0: none. still: nothing
   is started. longer: so many bytes more are said to have come with messages of no group. */
typedef struct {
  int states, routes, sends, receives, sums, cancelled, under_way;
  int fails, longer;
  bool still, refuses;
} CarriedCounts;

static inline RengaErrorCode CarriedCreate(MPI_Comm comm, void **state, void *user)
{
  CarriedCounts *counts = user;
  Carried *made = calloc(1, sizeof *made);
  RengaCheck(made, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no memory for a transport");
  RengaCallMPI(MPI_Comm_dup(comm, &made->comm[0])); /* by all ranks, whatever follows */
  if (counts->refuses) {
    RengaCallMPI(MPI_Comm_free(&made->comm[0]));
    free(made);
    return RENGA_ERR_LIBRARY;
  }
  made->count = 1;
  counts->states++;
  *state = made;
  return RENGA_SUCCESS;
}

static inline RengaErrorCode CarriedDestroy(void **state, void *user)
{
  Carried *carried = *state;
  ((CarriedCounts *)user)->states--;
  for (int c = 0; c < carried->count; c++) RengaCallMPI(MPI_Comm_free(&carried->comm[c]));
  free(carried);
  *state = NULL;
  return RENGA_SUCCESS;
}

static inline RengaErrorCode CarriedConnect(void *state, int n_routes, const RengaRoute routes[],
                                            int n_groups, const MPI_Comm groups[], void *user)
{
  Carried *carried = state;
  int rank;
  RengaCallMPI(MPI_Comm_rank(carried->comm[0], &rank));
  for (int r = 0; r < n_routes; r++)
    ((CarriedCounts *)user)->routes += routes[r].from == rank || routes[r].to == rank;
  RengaCheck(n_groups <= CARRIED_GROUPS, MPI_COMM_SELF, RENGA_ERR_SUPPORT, "%d groups", n_groups);
  for (int g = 0; g < n_groups; g++)
    RengaCallMPI(MPI_Comm_dup(groups[g], &carried->comm[carried->count++]));
  return RENGA_SUCCESS;
}

static inline RengaErrorCode CarriedQueue(void *state, RengaTransportMessage *message,
                                          bool receives, CarriedCounts *counts)
{
  Carried *carried = state;
  CarriedMessage *made = calloc(1, sizeof *made);
  RengaCheck(made, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no memory for a message");
  made->message = message;
  made->receives = receives;
  message->own = made;
  if (carried->last)
    carried->last->next = made;
  else
    carried->first = made;
  carried->last = made;
  counts->sums += message->group >= 0;
  counts->under_way++;
  return RENGA_SUCCESS;
}

static inline RengaErrorCode CarriedSend(void *state, RengaTransportMessage *message, void *user)
{
  CarriedCounts *counts = user;
  if (counts->fails && --counts->fails == 0) return RENGA_ERR_LIBRARY; /* without a sentence */
  RengaCall(CarriedQueue(state, message, false, counts));
  counts->sends++;
  return RENGA_SUCCESS;
}

static inline RengaErrorCode CarriedReceive(void *state, RengaTransportMessage *message, void *user)
{
  RengaCall(CarriedQueue(state, message, true, user));
  ((CarriedCounts *)user)->receives++;
  return RENGA_SUCCESS;
}

static inline RengaErrorCode CarriedProgress(void *state, void *user)
{
  Carried *carried = state;
  CarriedMessage *next = carried->first;
  if (!next || ((CarriedCounts *)user)->still) return RENGA_SUCCESS;
  RengaTransportMessage *message = next->message;
  MPI_Comm comm = carried->comm[1 + message->group];
  carried->first = next->next;
  if (!carried->first) carried->last = NULL;
  next->started = true;
  if (next->receives)
    RengaCallMPI(MPI_Irecv(message->memory, (int)message->bytes, MPI_BYTE, message->peer,
                           message->tag, comm, &next->request));
  else
    RengaCallMPI(MPI_Isend(message->memory, (int)message->bytes, MPI_BYTE, message->peer,
                           message->tag, comm, &next->request));
  return RENGA_SUCCESS;
}

static inline RengaErrorCode CarriedTest(void *state, RengaTransportMessage *message, bool *done,
                                         void *user)
{
  CarriedCounts *counts = user;
  CarriedMessage *own = message->own;
  MPI_Status status;
  int arrived = 0, count;
  (void)state;
  if (!own->started || own->asked++ < CARRIED_LATER) return RENGA_SUCCESS;
  RengaCallMPI(MPI_Test(&own->request, &arrived, &status));
  *done = arrived;
  if (!arrived) return RENGA_SUCCESS;
  RengaCallMPI(MPI_Get_count(&status, MPI_BYTE, &count));
  if (own->receives) message->bytes = (size_t)count;
  if (own->receives && message->group < 0) message->bytes += (size_t)counts->longer;
  free(own);
  message->own = NULL;
  counts->under_way--;
  return RENGA_SUCCESS;
}

/* One that is not started is forgotten; of others MPI keeps what it has. */
static inline RengaErrorCode CarriedCancel(void *state, RengaTransportMessage *message, void *user)
{
  Carried *carried = state;
  CarriedCounts *counts = user;
  CarriedMessage *own = message->own, *before = NULL;
  for (CarriedMessage *at = carried->first; at && at != own; at = at->next) before = at;
  if (!own->started && before) before->next = own->next;
  if (!own->started && !before) carried->first = own->next;
  if (carried->last == own) carried->last = before;
  if (own->started && own->receives) MPI_Cancel(&own->request);
  if (own->started) MPI_Request_free(&own->request);
  free(own);
  message->own = NULL;
  counts->cancelled++;
  counts->under_way--;
  return RENGA_SUCCESS;
}

#define CARRIED_RULE(type, counts)                                                                 \
  {                                                                                                \
    .size = sizeof(RengaTransportRule), .name = type, .does = "the test carries tensors",          \
    .create = CarriedCreate, .destroy = CarriedDestroy, .connect = CarriedConnect,                 \
    .send = CarriedSend, .receive = CarriedReceive, .test = CarriedTest,                           \
    .progress = CarriedProgress, .cancel = CarriedCancel, .user = counts                           \
  }
