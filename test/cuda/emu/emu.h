/* What the files of the emulator share: settings, reports, memory, queues, graphs. */
#pragma once
#include <cuda_runtime_api.h>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

enum EmuOrder { EMU_FORWARD, EMU_REVERSE, EMU_RANDOM, EMU_CHECK };

/* From the environment, once: EMU_MODE and so on (README.md). */
struct EmuSettings {
  bool sync;
  int devices; /* 0: no driver */
  bool old_driver, open_memory, nccl;
  std::string name; /* of the device */
  EmuOrder order;
  uint64_t seed;
  unsigned delay; /* microseconds, at most */
  size_t memory;
  double timeout;      /* seconds */
  int queues;          /* of the hardware, which streams share; 0: each has its own */
  bool connect;        /* NCCL joins ranks late */
  int cublas;          /* major version; 0: that of the headers */
  int capability;      /* 90 of sm_90 */
  bool trace;          /* what is queued, and waits of the host, are said */
  std::string longest; /* a kernel, and how many milliseconds a block of it may take; empty: any */
};
const EmuSettings &EmuGetSettings();

/* report.cc: EmuFail says what is wrong and in which kernel, and ends the process with 86. */
[[noreturn]] void EmuFail(const char *format, ...) __attribute__((format(printf, 1, 2)));
cudaError_t EmuSetError(cudaError_t code); /* cudaGetLastError's; returns it */
void EmuWatchFaults();                     /* of this thread, too */
uint64_t EmuNextRandom(uint64_t *state);   /* not 0 */
double EmuNow();                           /* seconds */

/* Whether EMU_FAIL asks for this failure now: from the n-th time on that it is asked. */
bool EmuFails(const char *what);
int EmuRank();
/* The device has met a fault: what is queued vanishes, and all calls return this; 0: it has not. */
cudaError_t EmuFault();
void EmuSetFault();

/* memory.cc */
struct EmuBlock {
  size_t bytes;
  char *map; /* whole pages; the block stands at their end */
  size_t map_bytes;
};
extern std::map<char *, EmuBlock> emu_blocks; /* by address; emu_lock */
void EmuReserveMemory();
void EmuOpenMemory(bool open); /* to everyone, or to nobody; emu_lock is held */
void EmuCheckFences(const char *who);
bool EmuDescribeAddress(const char *at, size_t size, char text[]); /* false: not the device's */
cudaError_t EmuFreeBlock(void *pointer);                           /* emu_lock is held */
bool EmuIsDevice(const void *pointer, size_t bytes); /* wholly inside one live block */
bool EmuIsPinned(const void *pointer, size_t bytes);
void EmuNeedDevice(const char *who, const char *what, const void *pointer, size_t bytes);

/* queue.cc: one thread plays the device. */
struct EmuOperation {
  std::string name;
  std::function<bool()> step;         /* called until it returns true */
  uint64_t number;                    /* order of the calls */
  std::vector<const void *> pointers; /* of a captured one: memory that must be there still */
};
struct EmuGraph {
  std::vector<EmuOperation> operations; /* in the order of the capture */
  bool invalid = false;                 /* a call that is forbidden meanwhile was made */
};
struct CUstream_st {
  std::deque<EmuOperation> queue;
  bool blocking = true; /* with regard to the NULL stream */
  std::shared_ptr<EmuGraph> capture;
  uint64_t priority = 0;
  int number = 0;     /* 0: the NULL stream */
  int lane = 0;       /* of the hardware */
  bool nccls = false; /* NCCL's own: it only waits */
};
extern std::mutex emu_lock;
extern std::condition_variable emu_idle; /* told when something is done */
void EmuStart();
CUstream_st *EmuFindStream(cudaStream_t stream); /* NULL: there is none */
/* remote: it waits for other processes, and so sync mode does not wait for it. */
cudaError_t EmuQueue(cudaStream_t stream, std::string name, std::function<bool()> step,
                     bool remote = false);
void EmuWaitStream(std::unique_lock<std::mutex> &hold, const CUstream_st *stream);
void EmuWaitAll(std::unique_lock<std::mutex> &hold);
bool EmuWorks(); /* but for NCCL's own streams; emu_lock is held */
void EmuSayHost(const char *does, const char *what, int number); /* "waits for", "event", 3 */
bool EmuIsCapturing();                                           /* any stream; emu_lock is held */
/* For calls that no capture bears: an error, and all captures are spoilt. emu_lock is held. */
cudaError_t EmuRefuseCapture();
/* The next operation that this thread queues has an argument that points there. */
void EmuNotePointer(const void *pointer);
void EmuEndCapture(const std::shared_ptr<EmuGraph> &graph);
bool EmuIsDeviceThread();
void EmuSayRunning(const std::string &name);
const char *EmuRunning();

/* fiber.cc: one block of a grid. */
struct EmuGrid {
  const char *kernel;
  dim3 grid, block;
  size_t shared;
  const std::function<void()> *body; /* of a thread */
};
enum { EMU_THREADS = 1024, EMU_SHARED = 227 * 1024 }; /* of a block, at most */
void EmuBeginGrid(const EmuGrid &grid);
void EmuEndGrid();
/* order: of its threads; shuffled: those who waited go on in another order than they came */
void EmuRunBlock(uint64_t block, const int order[], bool shuffled, uint64_t *random);
bool EmuDescribeThread(size_t size, char text[]); /* false: no kernel runs */
