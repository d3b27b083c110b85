/* Messages through memory that processes share. A channel for each pair and direction holds little,
   and a send ends when it is received: who relies on more hangs here. */
#include "messages.h"
#include <atomic>
#include <cstdio>
#include <cstring>
#include <cuda_bf16.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t CHUNK = 16 * 1024, SLOTS = 2;
struct Slot {
  uint64_t total, bytes;
  uint32_t kind, number;
  char data[CHUNK];
};
struct Channel {
  std::atomic<uint64_t> written, read;
  Slot slot[SLOTS];
};
struct EmuShared {
  std::atomic<int> joined;
  Channel channel[]; /* [from * ranks + to] */
};

static const char *const names[] = {"ncclSend or ncclRecv", "ncclAllReduce", "ncclReduce",
                                    "ncclReduceScatter",    "ncclAllGather", "ncclBroadcast"};

EmuShared *EmuJoin(const char *name, int rank, int ranks)
{
  const size_t bytes = sizeof(EmuShared) + sizeof(Channel) * (size_t)ranks * (size_t)ranks;
  const double begin = EmuNow(), limit = EmuGetSettings().timeout;
  const int file = shm_open(name, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, (off_t)bytes)) return nullptr;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  EmuShared *shared = (EmuShared *)memory;
  shared->joined++;
  while (shared->joined < ranks) {
    usleep(200);
    if (EmuNow() - begin > limit)
      EmuFail("ncclCommInitRank: %d of %d ranks came within %g s", (int)shared->joined, ranks,
              limit);
  }
  if (rank == 0) shm_unlink(name);
  return shared;
}

static Channel *FindChannel(const ncclComm *comm, const EmuMessage &m)
{
  const int from = m.send ? comm->rank : m.peer, to = m.send ? m.peer : comm->rank;
  return &comm->shared->channel[from * comm->ranks + to];
}

/* An empty message is one empty chunk. */
static bool Send(Channel *channel, EmuMessage &m)
{
  for (; m.done < m.bytes || !m.begun; m.begun = true) {
    const uint64_t written = channel->written;
    if (written - channel->read == SLOTS) return false;
    Slot *slot = &channel->slot[written % SLOTS];
    slot->bytes = m.bytes - m.done < CHUNK ? m.bytes - m.done : CHUNK;
    slot->total = m.bytes;
    slot->kind = m.kind;
    slot->number = m.number;
    memcpy(slot->data, m.data + m.done, slot->bytes);
    m.done += slot->bytes;
    channel->written = written + 1;
  }
  return channel->written == channel->read;
}

static bool Receive(Channel *channel, EmuMessage &m)
{
  for (; m.done < m.bytes || !m.begun; m.begun = true) {
    const uint64_t read = channel->read;
    if (channel->written == read) return false;
    const Slot *slot = &channel->slot[read % SLOTS];
    if (slot->kind != m.kind || slot->number != m.number || slot->total != m.bytes)
      EmuFail("this rank does %s (number %u) of %zu bytes, and rank %d %s (number %u) of %zu bytes",
              names[m.kind], m.number, m.bytes, m.peer, names[slot->kind], slot->number,
              (size_t)slot->total);
    memcpy(m.data + m.done, slot->data, slot->bytes);
    m.done += slot->bytes;
    channel->read = read + 1;
  }
  return true;
}

/* Messages of one channel and direction keep their order. */
bool EmuMoveMessages(const ncclComm *comm, std::vector<EmuMessage> &messages, std::string *waits)
{
  std::vector<std::pair<const Channel *, bool>> busy;
  for (auto &m : messages) {
    char text[160];
    Channel *channel = FindChannel(comm, m);
    bool free = true;
    for (const auto &b : busy) free = free && b != std::make_pair((const Channel *)channel, m.send);
    const bool whole = m.begun && m.done == m.bytes;
    if (whole && !m.send) continue;
    if (free && (m.send ? Send(channel, m) : Receive(channel, m))) continue;
    busy.push_back({channel, m.send});
    snprintf(text, sizeof text, " for rank %d to %s (%s, %zu of %zu bytes);", m.peer,
             m.send ? "receive" : "send", names[m.kind], m.done, m.bytes);
    *waits += text;
  }
  return busy.empty();
}

size_t EmuTypeBytes(ncclDataType_t type)
{
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  default:
    EmuFail("NCCL: type %d is not emulated", (int)type);
  }
}

template <class T> static T Combine(T a, T b, ncclRedOp_t op)
{
  switch (op) {
  case ncclSum:
  case ncclAvg:
    return a + b;
  case ncclProd:
    return a * b;
  case ncclMax:
    return a > b ? a : b;
  case ncclMin:
    return a < b ? a : b;
  default:
    EmuFail("NCCL: reduction %d is not emulated", (int)op);
  }
}

template <class T> static void CombineAll(T *to, const T *from, size_t count, ncclRedOp_t op)
{
  for (size_t i = 0; i < count; i++) to[i] = Combine(to[i], from[i], op);
}

static void CombineHalves(__nv_bfloat16 *to, const __nv_bfloat16 *from, size_t count,
                          ncclRedOp_t op)
{
  for (size_t i = 0; i < count; i++)
    to[i] = __float2bfloat16_rn(Combine(__bfloat162float(to[i]), __bfloat162float(from[i]), op));
}

static void CombineInto(char *to, const char *from, size_t count, ncclDataType_t type,
                        ncclRedOp_t op)
{
  switch (type) {
  case ncclFloat32:
    CombineAll((float *)to, (const float *)from, count, op);
    break;
  case ncclFloat64:
    CombineAll((double *)to, (const double *)from, count, op);
    break;
  case ncclInt32:
    CombineAll((int32_t *)to, (const int32_t *)from, count, op);
    break;
  case ncclInt64:
    CombineAll((int64_t *)to, (const int64_t *)from, count, op);
    break;
  case ncclBfloat16:
    CombineHalves((__nv_bfloat16 *)to, (const __nv_bfloat16 *)from, count, op);
    break;
  default:
    EmuFail("NCCL: sums of type %d are not emulated", (int)type);
  }
}

static void Divide(char *to, size_t count, ncclDataType_t type, int by)
{
  if (type != ncclFloat32) EmuFail("NCCL: means of type %d are not emulated", (int)type);
  for (size_t i = 0; i < count; i++) ((float *)to)[i] /= (float)by;
}

/* A block for each rank; it is added up from the rank behind its own on. */
void EmuSumRing(const ncclComm *comm, const std::vector<std::vector<char>> &parts, size_t count,
                ncclDataType_t type, ncclRedOp_t op, char *to)
{
  const size_t size = EmuTypeBytes(type), ranks = (size_t)comm->ranks;
  for (size_t block = 0; block < ranks; block++) {
    const size_t begin = count * block / ranks, here = count * (block + 1) / ranks - begin;
    char *sum = to + begin * size;
    for (size_t s = 0; s < ranks; s++) {
      const char *part = parts[(block + 1 + s) % ranks].data() + begin * size;
      if (s == 0)
        memcpy(sum, part, here * size);
      else
        CombineInto(sum, part, here, type, op);
    }
    if (op == ncclAvg) Divide(sum, here, type, comm->ranks);
  }
}
