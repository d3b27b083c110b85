/* NCCL: the library is opened when it is asked for, so that the module opens where there is none.
   Its functions are those of its header, by name. */
#include "cuda.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if __has_include(<nccl.h>)
#include <nccl.h>

enum { NARROW_BLOCKS = 2 }; /* of threads, of a wire that waits beside kernels */

#define NCCL_FUNCTIONS(row)                                                                        \
  row(ncclGetVersion) row(ncclGetErrorString) row(ncclGetUniqueId) row(ncclCommInitRankConfig)     \
      row(ncclCommDestroy) row(ncclCommAbort) row(ncclCommGetAsyncError) row(ncclGroupStart)       \
          row(ncclGroupEnd) row(ncclSend) row(ncclRecv) row(ncclAllReduce)
#define MEMBER(name) __typeof__(&name) name;
static struct {
  NCCL_FUNCTIONS(MEMBER)
  bool found;
} nccl;

#ifdef RENGA_NCCL_LINKED /* with the emulator */
#define TAKE(name) nccl.name = name;
static int TakeFunctions(void)
{
  NCCL_FUNCTIONS(TAKE)
  return 0;
}
#else
static const char library_name[] = "libnccl.so.2";

#define TAKE(name)                                                                                 \
  if (RengaCudaTake(library, library_name, "it is older than NCCL 2.14", #name, &nccl.name))       \
    return 1;
static int TakeFunctions(void)
{
  void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (!library) return RengaCudaSay("NCCL", 1, dlerror());
  NCCL_FUNCTIONS(TAKE)
  return 0;
}
#endif

static int SayNccl(const char *what, ncclResult_t code)
{
  return code ? RengaCudaSay(what, (int)code, nccl.ncclGetErrorString(code)) : 0;
}

static int FindNccl(size_t size, char text[])
{
  int version = 0;
  if (!nccl.found && TakeFunctions()) return 1;
  if (SayNccl("ncclGetVersion", nccl.ncclGetVersion(&version))) return 1;
  nccl.found = true;
  snprintf(text, size, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  return 0;
}

static int MakeKey(char key[RENGA_CUDA_KEY])
{
  ncclUniqueId id;
  _Static_assert(sizeof id == RENGA_CUDA_KEY, "keys are NCCL's");
  const int code = SayNccl("ncclGetUniqueId", nccl.ncclGetUniqueId(&id));
  if (!code) memcpy(key, &id, sizeof id);
  return code;
}

static int OpenWire(const char key[RENGA_CUDA_KEY], int ranks, int rank, int narrow, void **wire)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  memcpy(&id, key, sizeof id);
  if (narrow) config.maxCTAs = NARROW_BLOCKS;
  return SayNccl("ncclCommInitRankConfig",
                 nccl.ncclCommInitRankConfig((ncclComm_t *)wire, ranks, id, rank, &config));
}

static int BeginGroup(void)
{
  return SayNccl("ncclGroupStart", nccl.ncclGroupStart());
}

static int EndGroup(void)
{
  return SayNccl("ncclGroupEnd", nccl.ncclGroupEnd());
}

static int SendBytes(void *wire, void *stream, const void *from, size_t bytes, int to)
{
  return SayNccl("ncclSend",
                 nccl.ncclSend(from, bytes, ncclInt8, to, (ncclComm_t)wire, (cudaStream_t)stream));
}

static int ReceiveBytes(void *wire, void *stream, void *to, size_t bytes, int from)
{
  return SayNccl("ncclRecv",
                 nccl.ncclRecv(to, bytes, ncclInt8, from, (ncclComm_t)wire, (cudaStream_t)stream));
}

static int SumValues(void *wire, void *stream, RengaCudaType type, int64_t count, void *values)
{
  const ncclDataType_t kind = type == RENGA_CUDA_BFLOAT16 ? ncclBfloat16 : ncclFloat32;
  return SayNccl("ncclAllReduce", nccl.ncclAllReduce(values, values, (size_t)count, kind, ncclSum,
                                                     (ncclComm_t)wire, (cudaStream_t)stream));
}

static int SumDoubles(void *wire, void *stream, int64_t count, double *values)
{
  return SayNccl("ncclAllReduce",
                 nccl.ncclAllReduce(values, values, (size_t)count, ncclFloat64, ncclSum,
                                    (ncclComm_t)wire, (cudaStream_t)stream));
}

static int CheckWire(void *wire)
{
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = nccl.ncclCommGetAsyncError((ncclComm_t)wire, &state);
  return SayNccl("a message by NCCL", code ? code : state);
}

static int CloseWire(void *wire, int abort)
{
  return abort ? SayNccl("ncclCommAbort", nccl.ncclCommAbort((ncclComm_t)wire))
               : SayNccl("ncclCommDestroy", nccl.ncclCommDestroy((ncclComm_t)wire));
}

#else

static int FindNccl(size_t size, char text[])
{
  (void)size;
  (void)text;
  return RengaCudaSay("NCCL", 1, "the module was built without nccl.h");
}
#define MakeKey NULL
#define OpenWire NULL
#define BeginGroup NULL
#define EndGroup NULL
#define SendBytes NULL
#define ReceiveBytes NULL
#define SumValues NULL
#define SumDoubles NULL
#define CheckWire NULL
#define CloseWire NULL
#endif

static int FindBus(char text[RENGA_CUDA_BUS])
{
  int device = 0;
  if (RengaCudaSayError("cudaGetDevice", cudaGetDevice(&device))) return 1;
  return RengaCudaSayError("cudaDeviceGetPCIBusId",
                           cudaDeviceGetPCIBusId(text, RENGA_CUDA_BUS, device));
}

const RengaCudaNccl RengaCudaNcclTable = {.find = FindNccl,
                                          .bus = FindBus,
                                          .makekey = MakeKey,
                                          .open = OpenWire,
                                          .begin = BeginGroup,
                                          .end = EndGroup,
                                          .send = SendBytes,
                                          .receive = ReceiveBytes,
                                          .sum = SumValues,
                                          .sumdoubles = SumDoubles,
                                          .check = CheckWire,
                                          .close = CloseWire};
