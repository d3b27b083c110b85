/* NCCL's functions. Operations of a communicator run one after the other in the order of the calls,
   whatever their streams; those of a group run together; who waits too long is told for whom. */
#include "messages.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

struct Call {
  ncclComm *comm;
  cudaStream_t stream;
  const char *name;
  std::function<void(EmuTask &)> begin; /* fills the task when its turn comes */
};
static thread_local int depth; /* of groups */
static thread_local std::vector<Call> calls;

/* The calls of a group on one communicator. */
struct Operation {
  ncclComm *comm;
  std::vector<Call> calls;
  std::vector<EmuTask> tasks;
  std::vector<EmuMessage> messages; /* of all tasks */
  uint64_t ticket;
  bool captured, begun, done;
  double time;
};

static void Begin(Operation &o)
{
  o.tasks.assign(o.calls.size(), EmuTask());
  o.messages.clear();
  for (size_t i = 0; i < o.calls.size(); i++) {
    o.calls[i].begin(o.tasks[i]);
    o.messages.insert(o.messages.end(), o.tasks[i].messages.begin(), o.tasks[i].messages.end());
  }
  o.begun = true;
  o.time = EmuNow();
}

static bool IsTurn(const Operation &o)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  return o.captured || o.comm->finished == o.ticket;
}

/* Of a communicator that was aborted; of one that failed nothing ends before that. */
static bool IsGivenUp(const Operation &o, bool *stuck)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  *stuck = o.comm->failed;
  return o.comm->aborted;
}

static void Finish(Operation &o)
{
  for (auto &task : o.tasks)
    if (task.then) task.then();
  o.tasks.clear();
  o.begun = false;
  std::unique_lock<std::mutex> hold(emu_lock);
  if (!o.captured) o.comm->finished++;
}

static bool StepOperation(Operation &o);

/* NCCL's own stream of a communicator waits for each kernel of it. */
static bool RunOperation(Operation &o)
{
  o.done = StepOperation(o);
  return o.done;
}

static bool StepOperation(Operation &o)
{
  std::string waits;
  bool stuck;
  if (IsGivenUp(o, &stuck)) return true;
  if (stuck || !IsTurn(o)) return false;
  if (!o.begun && EmuFails("nccl")) {
    std::unique_lock<std::mutex> hold(emu_lock);
    o.comm->failed = true;
    return false;
  }
  if (!o.begun) Begin(o);
  if (EmuMoveMessages(o.comm, o.messages, &waits)) {
    Finish(o);
    return true;
  }
  if (EmuNow() - o.time > EmuGetSettings().timeout)
    EmuFail("rank %d waits for more than %g s%s", o.comm->rank, EmuGetSettings().timeout,
            waits.c_str());
  return false;
}

static ncclResult_t QueueOperation(std::shared_ptr<Operation> o)
{
  const cudaStream_t stream = o->calls[0].stream;
  std::string name = o->calls[0].name;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  for (size_t i = 1; i < o->calls.size(); i++) {
    if (o->calls[i].stream != stream) EmuFail("a group uses a communicator on two streams");
    if (i < 4) name += std::string("+") + o->calls[i].name;
  }
  if (cudaStreamIsCapturing(stream, &status)) return ncclUnhandledCudaError;
  o->captured = status != cudaStreamCaptureStatusNone; /* the graph has an order of its own */
  {
    std::unique_lock<std::mutex> hold(emu_lock);
    o->ticket = o->captured ? 0 : o->comm->issued++;
  }
  cudaError_t code = EmuQueue(
      stream, name, [o] { return RunOperation(*o); }, true);
  if (!code && o->comm->own && !o->captured)
    code = EmuQueue(
        o->comm->own, "a wait of NCCL", [o] { return o->done; }, true);
  return code ? ncclUnhandledCudaError : ncclSuccess;
}

/* One operation for each communicator of the calls so far. */
static ncclResult_t Flush()
{
  std::vector<Call> now;
  if (depth > 0) return ncclSuccess;
  now.swap(calls);
  while (!now.empty()) {
    auto o = std::make_shared<Operation>();
    std::vector<Call> rest;
    o->comm = now[0].comm;
    for (auto &call : now) (call.comm == o->comm ? o->calls : rest).push_back(call);
    now.swap(rest);
    const ncclResult_t result = QueueOperation(o);
    if (result) return result;
  }
  return ncclSuccess;
}

static ncclResult_t Add(ncclComm *comm, cudaStream_t stream, const char *name,
                        std::function<void(EmuTask &)> begin)
{
  calls.push_back({comm, stream, name, std::move(begin)});
  return Flush();
}

/* Part `rank` goes to that rank, which keeps what it gets as parts: `each` bytes, at `stride`. */
static void Exchange(const ncclComm *comm, EmuTask &task, const char *from, size_t each,
                     size_t stride, EmuKind kind, uint32_t number)
{
  task.parts.assign((size_t)comm->ranks, std::vector<char>(each));
  for (int r = 0; r < comm->ranks; r++) {
    char *mine = (char *)from + stride * (size_t)r, *theirs = task.parts[(size_t)r].data();
    if (r == comm->rank)
      memcpy(theirs, mine, each);
    else {
      task.messages.push_back({true, r, mine, each, kind, number, 0, false});
      task.messages.push_back({false, r, theirs, each, kind, number, 0, false});
    }
  }
}

/* The ways of sums are joined when they are first taken: that takes memory, and so waits for all
   that is queued, which others may have to answer. */
static void JoinForSums(ncclComm *comm, const char *name, size_t bytes)
{
  enum { FEW = 1 << 14 };
  const bool many = bytes > FEW;
  std::unique_lock<std::mutex> hold(emu_lock);
  if (comm->joined[many] || !EmuGetSettings().connect) return;
  if (EmuWorks())
    EmuFail("%s of %zu bytes is the first one of its kind: it joins the ranks, and waits for all "
            "that is queued",
            name, bytes);
  comm->joined[many] = true;
}

/* So are two ranks for their messages each way, when the first is queued. Those of a rank to itself
   are copies. */
static void JoinForMessages(ncclComm *comm, const char *name, int peer, bool sends)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  comm->met[sends].resize((size_t)comm->ranks, false);
  if (peer == comm->rank || comm->met[sends][(size_t)peer] || !EmuGetSettings().connect) return;
  if (EmuWorks())
    EmuFail("%s of rank %d and rank %d of a communicator is their first: it joins them, and waits "
            "for all that is queued",
            name, comm->rank, peer);
  comm->met[sends][(size_t)peer] = true;
}

/* A call that adds up: from has one part for all ranks, or one for each of them. */
static ncclResult_t AddSum(const char *name, EmuKind kind, const void *from, void *to, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, int root, ncclComm *comm,
                           cudaStream_t stream)
{
  const size_t each = count * EmuTypeBytes(type), stride = kind == EMU_SCATTER ? each : 0;
  const uint32_t number = ++comm->collectives;
  const bool wanted = root < 0 || root == comm->rank;
  JoinForSums(comm, name, each);
  EmuNeedDevice(name, "the send buffer", from, stride ? each * (size_t)comm->ranks : each);
  if (wanted) EmuNeedDevice(name, "the receive buffer", to, each);
  return Add(comm, stream, name, [=](EmuTask &task) {
    Exchange(comm, task, (const char *)from, each, stride, kind, number);
    if (wanted)
      task.then = [comm, &task, count, type, op, to] {
        EmuSumRing(comm, task.parts, count, type, op, (char *)to);
      };
  });
}

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
  if (!EmuGetSettings().nccl) return ncclSystemError;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code)
{
  return code == ncclRemoteError ? "a remote process exited, or there was a network error"
                                 : "error of the emulated NCCL";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
  static std::atomic<int> made;
  if (EmuFails("key")) return ncclSystemError;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/renga-emunccl-%d-%d-%.0f", (int)getpid(), made++,
           EmuNow() * 1e6);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
  if (rank < 0 || rank >= ranks) return ncclInvalidArgument;
  if (EmuGetSettings().devices == 0) return ncclUnhandledCudaError;
  EmuShared *shared = EmuJoin(id.internal, rank, ranks);
  if (!shared) return ncclSystemError;
  *comm = new ncclComm{shared, rank, ranks, 0, 0, 0, false, false, nullptr, {}, {}};
  if (EmuGetSettings().queues == 0) return ncclSuccess;
  if (cudaStreamCreateWithFlags(&(*comm)->own, cudaStreamNonBlocking))
    return ncclUnhandledCudaError;
  (*comm)->own->nccls = true;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
  if (config && config->blocking == 0) EmuFail("communicators that do not block are not emulated");
  return ncclCommInitRank(comm, ranks, id, rank);
}

/* Its memory stays until the end of the process: others may still read their messages. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
  if (cudaDeviceSynchronize()) return ncclUnhandledCudaError;
  if (comm->own) cudaStreamDestroy(comm->own);
  delete comm;
  return ncclSuccess;
}

/* Others still wait for this rank. The communicator stays for what is queued. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  comm->aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  *result = comm->failed ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
  depth++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
  if (depth == 0) return ncclInvalidUsage;
  depth--;
  return Flush();
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
  const size_t bytes = count * EmuTypeBytes(type);
  if (peer < 0 || peer >= comm->ranks) return ncclInvalidArgument;
  JoinForMessages(comm, "ncclSend", peer, true);
  EmuNeedDevice("ncclSend", "the buffer", from, bytes);
  return Add(comm, stream, "ncclSend", [=](EmuTask &task) {
    task.messages.push_back({true, peer, (char *)from, bytes, EMU_SEND, 0, 0, false});
  });
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
  const size_t bytes = count * EmuTypeBytes(type);
  if (peer < 0 || peer >= comm->ranks) return ncclInvalidArgument;
  JoinForMessages(comm, "ncclRecv", peer, false);
  EmuNeedDevice("ncclRecv", "the buffer", to, bytes);
  return Add(comm, stream, "ncclRecv", [=](EmuTask &task) {
    task.messages.push_back({false, peer, (char *)to, bytes, EMU_SEND, 0, 0, false});
  });
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
  return AddSum("ncclAllReduce", EMU_ALLREDUCE, from, to, count, type, op, -1, comm, stream);
}

ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
  return AddSum("ncclReduce", EMU_REDUCE, from, to, count, type, op, root, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
  return AddSum("ncclReduceScatter", EMU_SCATTER, from, to, count, type, op, -1, comm, stream);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
  const size_t each = count * EmuTypeBytes(type);
  const uint32_t number = ++comm->collectives;
  EmuNeedDevice("ncclAllGather", "the send buffer", from, each);
  EmuNeedDevice("ncclAllGather", "the receive buffer", to, each * (size_t)comm->ranks);
  return Add(comm, stream, "ncclAllGather", [=](EmuTask &task) {
    for (int r = 0; r < comm->ranks; r++) {
      char *place = (char *)to + each * (size_t)r;
      if (r == comm->rank)
        memmove(place, from, each);
      else {
        task.messages.push_back({true, r, (char *)from, each, EMU_GATHER, number, 0, false});
        task.messages.push_back({false, r, place, each, EMU_GATHER, number, 0, false});
      }
    }
  });
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
  const size_t bytes = count * EmuTypeBytes(type);
  const uint32_t number = ++comm->collectives;
  if (comm->rank == root) EmuNeedDevice("ncclBroadcast", "the send buffer", from, bytes);
  EmuNeedDevice("ncclBroadcast", "the receive buffer", to, bytes);
  return Add(comm, stream, "ncclBroadcast", [=](EmuTask &task) {
    for (int r = 0; r < comm->ranks && comm->rank == root; r++)
      if (r != root)
        task.messages.push_back({true, r, (char *)from, bytes, EMU_BROADCAST, number, 0, false});
    if (comm->rank == root && to != from) memmove(to, from, bytes);
    if (comm->rank != root)
      task.messages.push_back({false, root, (char *)to, bytes, EMU_BROADCAST, number, 0, false});
  });
}
}
