/* Whether MPI takes memory of a device. Libraries that do not copy from it as if it were the
   host's, and the process would end: so faults are caught. First MPI packs a few bytes of the
   device, which no other rank sees: a fault there leaves nothing of MPI half done. Where all ranks
   can do that, each sends to the next; after a fault there no message can be trusted, and the run
   ends with a sentence. */
#include "transportimpl.h"
#include <setjmp.h>
#include <signal.h>

enum { PROBE_BYTES = 256, TAG_PROBE = 0 };

static sigjmp_buf back;

static void OnFault(int number)
{
  (void)number;
  siglongjmp(back, 1);
}

typedef struct {
  struct sigaction segv, bus;
} FaultHandlers;

static void CatchFaults(FaultHandlers *before)
{
  struct sigaction action = {.sa_handler = OnFault};
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &before->segv);
  sigaction(SIGBUS, &action, &before->bus);
}

static void LeaveFaults(const FaultHandlers *before)
{
  sigaction(SIGSEGV, &before->segv, NULL);
  sigaction(SIGBUS, &before->bus, NULL);
}

/* What MPI reads at an address of the device. */
static bool CanPack(const char *memory, int rank)
{
  static char packed[4 * PROBE_BYTES];
  FaultHandlers before;
  volatile bool right = false;
  CatchFaults(&before);
  if (sigsetjmp(back, 1) == 0) {
    int at = 0;
    right = MPI_Pack(memory, PROBE_BYTES, MPI_BYTE, packed, sizeof packed, &at, MPI_COMM_SELF) ==
                MPI_SUCCESS &&
            at >= PROBE_BYTES && packed[at - 1] == (char)rank;
  }
  LeaveFaults(&before);
  return right;
}

static RengaErrorCode SendRound(RengaComm comm, char *memory)
{
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  RengaRequest in = NULL, out = NULL;
  RengaCall(RengaCommReceive(comm, memory + PROBE_BYTES, PROBE_BYTES, (rank + size - 1) % size,
                             TAG_PROBE, &in));
  RengaErrorCode code =
      RengaCommSend(comm, memory, PROBE_BYTES, (rank + 1) % size, TAG_PROBE, &out);
  RengaKeepFirst_Private(&code, RengaCommWait(comm, &in, "a message of the device's memory"));
  RengaKeepFirst_Private(&code, RengaCommWait(comm, &out, "a message of the device's memory"));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* memory: two messages; host: pinned, of one. */
static RengaErrorCode CanSend(RengaTransport transport, char *memory, char *host, bool *right)
{
  RengaComm comm = transport->hdr.owner;
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  FaultHandlers before;
  volatile RengaErrorCode code = RENGA_ERR_LIBRARY;
  volatile bool fault = true;
  CatchFaults(&before);
  if (sigsetjmp(back, 1) == 0) {
    code = SendRound(comm, memory);
    fault = false;
  }
  LeaveFaults(&before);
  if (fault) RengaWatchBreak_Private(transport->hdr.comm); /* MPI is in the middle of a message */
  RengaCheck(!fault, MPI_COMM_SELF, RENGA_ERR_LIBRARY,
             "rank %d: this MPI packs memory of the device, but cannot send it: use "
             "-transport_type staged",
             rank);
  RengaCall(code);
  RengaCall(RengaDeviceCopy(transport->device, NULL, RENGA_DEVICE_TO_HOST, host,
                            memory + PROBE_BYTES, PROBE_BYTES));
  RengaCall(RengaStreamSynchronize(transport->device, NULL));
  *right = true;
  for (int i = 0; i < PROBE_BYTES; i++)
    *right = *right && host[i] == (char)((rank + size - 1) % size);
  return RENGA_SUCCESS;
}

/* All ranks, or none. */
static RengaErrorCode AgreeWorks(RengaTransport transport, bool mine, bool *all)
{
  int64_t failed = !mine;
  RengaCall(RengaCommSumInt64(transport->hdr.owner, 1, &failed, "all ranks to test MPI"));
  *all = failed == 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode ProbeMemory(RengaTransport transport, char *memory, char *host, bool *works,
                                  size_t size, char why[])
{
  const int rank = RengaCommGetRank(transport->hdr.owner);
  bool right = false;
  RengaCall(RengaDeviceSetBytes(transport->device, NULL, memory, rank % 128, 2 * PROBE_BYTES));
  RengaCall(RengaStreamSynchronize(transport->device, NULL));
  RengaCall(AgreeWorks(transport, CanPack(memory, rank), works));
  snprintf(why, size, "this MPI does not read memory of the device");
  if (!*works) return RENGA_SUCCESS;
  RengaErrorCode code = CanSend(transport, memory, host, &right);
  RengaCall(AgreeWorks(transport, !code && right, works));
  snprintf(why, size,
           *works ? "MPI has sent memory of the device from each rank to the next"
                  : "this MPI reads memory of the device, but does not send it");
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportProbe(RengaTransport transport, bool *works, size_t size, char why[])
{
  RengaDevice device = transport->device;
  char *memory = NULL, *host = NULL;
  RengaErrorCode code = RengaDeviceMalloc(device, 2 * PROBE_BYTES, &memory);
  if (!code) code = RengaDeviceHostMalloc(device, PROBE_BYTES, &host);
  code = RengaErrorAgree(transport->hdr.comm, code);
  if (!code) code = ProbeMemory(transport, memory, host, works, size, why);
  if (memory) RengaKeepFirst_Private(&code, RengaDeviceFree(device, &memory));
  if (host) RengaKeepFirst_Private(&code, RengaDeviceHostFree(device, &host));
  RengaCall(code);
  return RENGA_SUCCESS;
}
