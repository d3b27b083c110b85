/* What NCCL's operations are made of: messages between the processes of one machine. */
#pragma once
#include "emu.h"
#include <nccl.h>

enum EmuKind { EMU_SEND, EMU_ALLREDUCE, EMU_REDUCE, EMU_SCATTER, EMU_GATHER, EMU_BROADCAST };
struct EmuShared; /* memory of all ranks */

struct ncclComm {
  EmuShared *shared;
  int rank, ranks;
  uint64_t issued, finished; /* operations; emu_lock */
  uint32_t collectives;
  bool failed, aborted; /* emu_lock */
  cudaStream_t own;     /* waits for each operation; NULL: nobody shares queues of the hardware */
  bool joined[2];       /* for sums: of few numbers, of many */
  std::vector<bool> met[2]; /* [ranks] for messages: from each, to each */
};

/* One message; kind and number of what it belongs to are compared between both ends. */
struct EmuMessage {
  bool send;
  int peer;
  char *data;
  size_t bytes;
  EmuKind kind;
  uint32_t number;
  size_t done;
  bool begun;
};

/* A call, once it has begun: its messages, and what follows when all have ended. */
struct EmuTask {
  std::vector<EmuMessage> messages;
  std::vector<std::vector<char>> parts; /* of the ranks, where they are added up */
  std::function<void()> then;
};

EmuShared *EmuJoin(const char *name, int rank, int ranks); /* waits for the others */
/* True when all have ended; what is waited for is appended to waits. */
bool EmuMoveMessages(const ncclComm *comm, std::vector<EmuMessage> &messages, std::string *waits);
size_t EmuTypeBytes(ncclDataType_t type);
/* Sums go round the ring, as NCCL's: they depend on the number of ranks. */
void EmuSumRing(const ncclComm *comm, const std::vector<std::vector<char>> &parts, size_t count,
                ncclDataType_t type, ncclRedOp_t op, char *to);
