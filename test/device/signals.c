/* TEST ranks: 1 */
/* Signals that the program handles on the stack of its threads, thousands in a second, do no harm
   to what kernels compute, nor to the heap. */
#include "../check.h"
#include "calls.h"
#include "renga/private/kernel.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include <signal.h>
#include <sys/time.h>

enum { SIGNALS = 300, MOST_RUNS = 20000, MICROSECONDS = 200 };

static const Case cases[] = {
    {"Linear", "", "f256,64 f64,512 f512", "1", 0},
    {"LinearGradInput", "", "f256,512 f64,512", "1", 0},
    {"LinearGradWeight", "", "f256,64 f256,512", "1", 0},
    {"MatMul", "", "f8,64,64 f8,64,64", "1", 0},
    {"Conv", "pads=1,1,1,1", "f2,16,16,16 f16,16,3,3 f16", "1", 0},
    {"ConvGradWeight", "pads=1,1,1,1", "f2,16,16,16 f2,16,16,16", "f16,16,3,3", 0},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static const RengaKernelContext context = {.samples = 1, .training = true};
static volatile sig_atomic_t handled;

static void Handle(int signal)
{
  (void)signal;
  handled++;
}

/* 0: no more. */
static void SetTimer(int microseconds)
{
  const struct itimerval timer = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

/* Again and again, until enough signals were handled. */
static RengaErrorCode RunUnderSignals(RengaKernel kernel, const Call *call, void *workspace,
                                      void *out)
{
  const void *const in[] = {call->input[0], call->input[1], call->input[2]};
  const size_t bytes = RengaTensorSpecBytes(&call->out[0]);
  handled = 0;
  SetTimer(MICROSECONDS);
  for (int run = 0; run < MOST_RUNS && handled < SIGNALS; run++) {
    memset(out, 0xff, bytes);
    RengaCall(RengaKernelRun(kernel, NULL, &context, in, &out, workspace));
    Expect(memcmp(out, call->output[0], bytes) == 0);
  }
  SetTimer(0);
  Expect(handled >= SIGNALS);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCase(RengaDevice device, int number)
{
  Call call;
  RengaOpCall op;
  RengaKernel kernel = NULL;
  void *workspace = NULL, *out = NULL;
  RengaCall(MakeCall(&cases[number], number, NULL, &call, &op));
  RengaCall(RengaKernelCreate(device, &op, &kernel));
  Expect(!RengaKernelIsFallback(kernel));
  RengaCall(RengaDeviceMalloc(device, RengaKernelGetWorkspace(kernel), &workspace));
  RengaCall(RengaDeviceMalloc(device, RengaTensorSpecBytes(&call.out[0]), &out));
  RengaCall(Allocate(&call.out[0], &call.output[0]));
  const void *const in[] = {call.input[0], call.input[1], call.input[2]};
  RengaCall(RengaKernelRun(kernel, NULL, &context, in, &out, workspace));
  memcpy(call.output[0], out, RengaTensorSpecBytes(&call.out[0]));
  RengaCall(RunUnderSignals(kernel, &call, workspace, out));
  RengaCall(RengaDeviceFree(device, &out));
  RengaCall(RengaDeviceFree(device, &workspace));
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(FreeCall(&call));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckThreads(RengaComm comm, int threads)
{
  RengaDevice device = NULL;
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_CPU));
  RengaCall(RengaDeviceSetThreads(device, threads));
  RengaCall(RengaDeviceSetUp(device));
  for (int number = 0; number < N_CASES; number++) RengaCall(CheckCase(device, number));
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm = NULL;
  struct sigaction action = {.sa_handler = Handle, .sa_flags = SA_RESTART}, before;
  sigset_t now;
  sigaction(SIGALRM, &action, &before);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckThreads(comm, 1));
  RengaCall(CheckThreads(comm, 3));
  RengaCall(RengaCommDestroy(&comm));
  pthread_sigmask(SIG_BLOCK, NULL, &now); /* as it was */
  Expect(sigismember(&now, SIGALRM) == 0 && sigismember(&now, SIGTERM) == 0);
  sigaction(SIGALRM, &before, NULL);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
