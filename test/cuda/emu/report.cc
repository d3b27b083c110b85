/* Settings of the environment, and reports of what no program may do. */
#include "emu.h"
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_CODE = 86 };
static thread_local cudaError_t last_error = cudaSuccess;
static struct sigaction previous; /* who else watches faults */

static const char *Setting(const char *name, const char *otherwise)
{
  const char *text = getenv(name);
  return text && *text ? text : otherwise;
}

static EmuOrder ReadOrder(const char *text)
{
  static const char *const names[] = {"forward", "reverse", "random", "check"};
  for (int i = 0; i < 4; i++)
    if (strcmp(text, names[i]) == 0) return (EmuOrder)i;
  EmuFail("EMU_ORDER is %s: give forward, reverse, random or check", text);
}

static bool ReadMode(const char *text)
{
  if (strcmp(text, "sync") != 0 && strcmp(text, "async") != 0)
    EmuFail("EMU_MODE is %s: give sync or async", text);
  return strcmp(text, "sync") == 0;
}

const EmuSettings &EmuGetSettings()
{
  static const EmuSettings settings = {
      ReadMode(Setting("EMU_MODE", "async")),
      atoi(Setting("EMU_DEVICES", "1")),
      strcmp(Setting("EMU_DRIVER", ""), "old") == 0,
      strcmp(Setting("EMU_OPEN", "0"), "0") != 0,
      strcmp(Setting("EMU_NCCL", ""), "none") != 0,
      Setting("EMU_NAME", "emulated CUDA"),
      ReadOrder(Setting("EMU_ORDER", "forward")),
      strtoull(Setting("EMU_SEED", "1"), nullptr, 10),
      (unsigned)atoi(Setting("EMU_DELAY", "200")),
      (size_t)strtoull(Setting("EMU_MEMORY", "8192"), nullptr, 10) << 20,
      atof(Setting("EMU_TIMEOUT", "60")),
      atoi(Setting("EMU_QUEUES", "0")),
      strcmp(Setting("EMU_CONNECT", ""), "late") == 0,
      atoi(Setting("EMU_CUBLAS", "0")),
      atoi(Setting("EMU_CAPABILITY", "90")),
      strcmp(Setting("EMU_TRACE", "0"), "0") != 0,
      Setting("EMU_LONGEST", ""),
  };
  return settings;
}

/* kernel:5 or kernel:5@1, of the process that is rank 1 for its launcher. */
struct Failure {
  char what[32] = "";
  long number = 0, rank = -1, asked = 0;
};

/* Of this process, for its launcher. */
int EmuRank()
{
  return atoi(Setting("PMI_RANK", Setting("OMPI_COMM_WORLD_RANK", "0")));
}

static Failure ReadFailure(const char *text)
{
  Failure f;
  if (*text && sscanf(text, "%31[a-z]:%ld@%ld", f.what, &f.number, &f.rank) < 2)
    EmuFail("EMU_FAIL is %s: give kernel:5, hang:5, begin:5, capture:5, key:5, nccl:5, plan:5 or "
            "cudnn:5, or kernel:5@1 for rank 1",
            text);
  if (f.rank >= 0 && f.rank != EmuRank()) f.what[0] = '\0';
  return f;
}

bool EmuFails(const char *what)
{
  static std::mutex lock;
  static Failure failure = ReadFailure(Setting("EMU_FAIL", ""));
  std::unique_lock<std::mutex> hold(lock);
  return strcmp(what, failure.what) == 0 && ++failure.asked >= failure.number;
}

static std::atomic<bool> faulted;

void EmuSetFault()
{
  faulted = true;
}

cudaError_t EmuFault()
{
  return faulted ? EmuSetError(cudaErrorIllegalAddress) : cudaSuccess;
}

/* " [in kernel Add, block (0,0,0), thread (3,0,0)]" where the device's thread asks. */
static void DescribePlace(size_t size, char text[])
{
  char thread[200];
  text[0] = '\0';
  if (!EmuIsDeviceThread()) return;
  const bool kernel = EmuDescribeThread(sizeof thread, thread);
  snprintf(text, size, " [in %s]", kernel ? thread : EmuRunning());
}

void EmuFail(const char *format, ...)
{
  char text[1024], place[256];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  DescribePlace(sizeof place, place);
  fprintf(stderr, "emulated CUDA: %s%s\n", text, place);
  fflush(stderr);
  _exit(EXIT_CODE);
}

static void OnFault(int number, siginfo_t *info, void *context)
{
  char what[256];
  if (EmuDescribeAddress((const char *)info->si_addr, sizeof what, what))
    EmuFail("%s touched %s", EmuIsDeviceThread() ? "the device" : "the host", what);
  if ((previous.sa_flags & SA_SIGINFO) && previous.sa_sigaction)
    previous.sa_sigaction(number, info, context);
  else
    signal(SIGSEGV, SIG_DFL);
}

void EmuWatchFaults()
{
  static thread_local char alternate[64 * 1024];
  stack_t stack = {};
  stack.ss_sp = alternate;
  stack.ss_size = sizeof alternate;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {}, old;
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &old);
  if (old.sa_sigaction != OnFault) previous = old;
}

uint64_t EmuNextRandom(uint64_t *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

double EmuNow()
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

cudaError_t EmuSetError(cudaError_t code)
{
  if (code != cudaSuccess) last_error = code;
  return code;
}

cudaError_t cudaGetLastError(void)
{
  const cudaError_t code = last_error;
  last_error = cudaSuccess;
  return code;
}

cudaError_t cudaPeekAtLastError(void)
{
  return last_error;
}

const char *cudaGetErrorString(cudaError_t code)
{
  static thread_local char text[80];
  snprintf(text, sizeof text, "error %d of the emulated CUDA%s", (int)code,
           code == cudaErrorIllegalAddress ? ", an illegal memory access" : "");
  return text;
}

const char *cudaGetErrorName(cudaError_t code)
{
  return cudaGetErrorString(code);
}
