/* What transports need of comm: to be moved on whenever a rank waits, to wait as comm does, and
   the messages of sums. */
#pragma once
#include "renga/private/wait.h"
#include "rengacomm.h"

/* Moved on by all waits and by progress in a comm, in the comm that it was made of and in groups of
   that. advance does not wait; its error is told to whoever waits, and it is called again. */
typedef struct _RengaCommDriven {
  struct _RengaCommDriven *previous, *next;
  RengaErrorCode (*advance)(struct _RengaCommDriven *driven);
} RengaCommDriven;
void RengaCommDrive_Private(RengaComm comm, RengaCommDriven *driven);
void RengaCommUndrive_Private(RengaComm comm, RengaCommDriven *driven);
/* Something went on that is no message: who waits begins its time anew. */
void RengaCommMoved_Private(RengaComm comm);
/* All that is under way moves; then a moment's rest. */
RengaErrorCode RengaCommPause_Private(RengaComm comm, RengaWait *wait);

/* So many messages at once, none longer than the message limit, start without memory. */
RengaErrorCode RengaCommReserve_Private(RengaComm comm, int count);

/* So many ranks of each node write files; 0: all, each what it owns. */
void RengaCommSetWriters_Private(RengaComm comm, int of_node);
int RengaCommGetWriters_Private(RengaComm comm);
/* Allocates writer: [ranks] who writes for each; NULL: itself. */
RengaErrorCode RengaCommFindWriters_Private(RengaComm comm, int **writer);

/* What -comm_view says, lent; NULL: nothing. */
const char *RengaCommGetViewWanted_Private(RengaComm comm);

/* Messages of sums: on a communicator that tags of users cannot meet. One that arrives may be
   shorter than its room; bytes: of what arrived. */
RengaErrorCode RengaCommSendPart_Private(RengaComm comm, const void *buffer, size_t bytes, int to,
                                         int tag, RengaRequest *request);
RengaErrorCode RengaCommReceivePart_Private(RengaComm comm, void *buffer, size_t room, int from,
                                            int tag, RengaRequest *request);
RengaErrorCode RengaCommTestPart_Private(RengaComm comm, RengaRequest *request, bool *done,
                                         size_t *bytes);
