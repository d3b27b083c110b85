/* Comm: the processes, carved into pipeline and data groups; messages; ordered reductions. */
#pragma once
#include "rengaop.h"

RENGA_BEGIN_DECLS

/* -transport_type: how tensors get from one rank's device to another's. */
#define RENGA_TRANSPORT_AUTO "auto"             /* what fits devices and MPI */
#define RENGA_TRANSPORT_MPI "mpi"               /* MPI gets the device's memory, the host's */
#define RENGA_TRANSPORT_MPI_DEVICE "mpi_device" /* MPI gets the device's own memory */
#define RENGA_TRANSPORT_STAGED "staged"         /* by way of memory of the host */
#define RENGA_TRANSPORT_NCCL "nccl"             /* from device to device, by NCCL */

RengaErrorCode RengaCommCreate(MPI_Comm user, RengaComm *comm); /* a private duplicate */
RengaErrorCode RengaCommCreateFortran(MPI_Fint user, RengaComm *comm);
RengaErrorCode RengaSetWorldFortran(MPI_Fint comm);     /* RengaSetWorld */
RengaErrorCode RengaCommSetFromOptions(RengaComm comm); /* -comm_message_limit, -comm_view */
RengaErrorCode RengaCommView(RengaComm comm, RengaViewer viewer);
RengaErrorCode RengaCommDestroy(RengaComm *comm);
int RengaCommGetRank(RengaComm comm);
int RengaCommGetSize(RengaComm comm);
RengaErrorCode RengaCommGetNode(RengaComm comm, int *node, int *nodes, int *local_rank,
                                int *local_size);

RengaErrorCode RengaCommSplit(RengaComm comm, int color, int key, RengaComm *group);

/* Messages between ranks of comm. Nothing blocks until RengaCommWait. A request is NULL when
   done. */
typedef struct _RengaRequest *RengaRequest;
RengaErrorCode RengaCommSend(RengaComm comm, const void *buffer, size_t bytes, int to, int tag,
                             RengaRequest *request);
RengaErrorCode RengaCommReceive(RengaComm comm, void *buffer, size_t bytes, int from, int tag,
                                RengaRequest *request);
RengaErrorCode RengaCommTest(RengaComm comm, RengaRequest *request, bool *done);
RengaErrorCode RengaCommWait(RengaComm comm, RengaRequest *request, const char *what);
RengaErrorCode RengaCommProgress(RengaComm comm); /* cheap: call between kernels */
RengaErrorCode RengaCommSetTimeout(RengaComm comm, double seconds); /* 0: never; 300 at first */
RengaErrorCode RengaCommGetTimeout(RengaComm comm, double *seconds);

/* Collectives on all ranks of comm; they wait politely (test, yield, sleep) and name what they wait
   for. */
RengaErrorCode RengaCommBarrier(RengaComm comm, const char *what);
RengaErrorCode RengaCommBroadcast(RengaComm comm, void *buffer, size_t bytes, int root,
                                  const char *what);
RengaErrorCode RengaCommSumInt64(RengaComm comm, int64_t count, int64_t values[], const char *what);
RengaErrorCode RengaCommStartLargest(RengaComm comm, int count, int64_t values[],
                                     RengaRequest *request);
RengaErrorCode RengaCommGather(RengaComm comm, const void *mine, size_t bytes, void *all, int root,
                               const char *what); /* equal sizes; root -1: to all */
/* Of memory that ranks of a node share for sums over them: at most, and used. */
int64_t RengaCommSumMemory(int ranks);
RengaErrorCode RengaCommGetSumMemory(RengaComm comm, int64_t *bytes);

RENGA_END_DECLS
