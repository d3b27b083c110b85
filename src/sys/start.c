/* Start and end of the services of src/sys. */
#include "renga/private/fault.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include "renga/private/packages.h"
#include "renga/private/start.h"
#include "sys.h"
#include "watch.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static struct {
  MPI_Comm world;   /* what the user gave, or MPI_COMM_NULL for MPI_COMM_WORLD */
  MPI_Comm comm;    /* MPI_COMM_NULL: not started, or a start that failed */
  MPI_Comm meeting; /* where ranks that fail meet; nothing else waits there */
  bool we_started_mpi, world_is_set;
  int exit_code;
  const char *help;
} start = {MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL, false, false, 0, NULL};

static const RengaOptionRow rows[] = {
    {"help", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "what the program does, and its options; it ends then"},
    {"version", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "print the version; the program ends then"},
    {"timeout", RENGA_OPTION_REAL, "300", RENGA_OPTION_NO_OFFSET, NULL, 0, 1e9,
     "seconds without any progress after which the run ends; 0: never"},
    {"options_file", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "read options from this file; may be given several times"},
    {"options_view", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "print the options that were given, as an options file"},
    {"log_view", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "print events and memory over all ranks at the end"},
    {"log_trace", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "write a timeline of all ranks to this file (Chrome trace, JSON)"},
    {"error_trace", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "print which functions passed an error on"},
    {"allow_external", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "read files outside of the folder of the file that names them"},
};

RengaErrorCode RengaSysRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("General", sizeof rows / sizeof rows[0], rows));
  return RENGA_SUCCESS;
}

MPI_Comm RengaSysComm(void)
{
  return start.comm;
}

MPI_Comm RengaSysWorld(void)
{
  return start.world_is_set ? start.world : MPI_COMM_WORLD;
}

bool RengaSysMeet(double seconds)
{
  const struct timespec pause = {0, 1000000};
  const double begin = MPI_Wtime();
  int relation = MPI_UNEQUAL, done = 0;
  MPI_Request request;
  if (start.meeting == MPI_COMM_NULL) return false;
  MPI_Comm_compare(start.meeting, MPI_COMM_WORLD, &relation);
  if (relation == MPI_UNEQUAL || MPI_Ibarrier(start.meeting, &request) != MPI_SUCCESS) return false;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done &&
         MPI_Wtime() - begin < seconds)
    nanosleep(&pause, NULL);
  return done;
}

/*@
   RengaSetWorld - the processes that Renga runs on

   Input:
   . comm - not copied; used by RengaInitialize, which is collective on it

   Errors: RENGA_ERR_ORDER after RengaInitialize.

   Notes: before RengaInitialize and after MPI_Init; without this call, MPI_COMM_WORLD.

   See also: RengaInitialize()
@*/
RengaErrorCode RengaSetWorld(MPI_Comm comm)
{
  RengaCheck(start.comm == MPI_COMM_NULL, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaSetWorld comes before RengaInitialize");
  start.world = comm;
  start.world_is_set = true;
  return RENGA_SUCCESS;
}

/* Even the start is bounded, before there are options: the words of the command line are enough. */
static void FindLimit(int argc, char **argv)
{
  for (int i = 1; i + 1 < argc; i++) {
    char *end = NULL;
    const RengaOptionName *other = RengaOptionNextName(argv[i] + (argv[i][0] == '-'), NULL);
    if (strcmp(argv[i], "-timeout") && !(other && strcmp(other->option, "timeout") == 0)) continue;
    const double limit = RengaReadReal(argv[i + 1], &end);
    if (end != argv[i + 1] && *end == 0 && limit >= 0) RengaWatchSetDefaultLimit(limit);
  }
}

static RengaErrorCode TakeLimit(void)
{
  double limit;
  RengaCall(RengaOptionsGetReal("timeout", &limit, NULL));
  RengaWatchSetDefaultLimit(limit);
  RengaCall(RengaWatchSetLimit_Private(start.comm, limit));
  return RENGA_SUCCESS;
}

/* Renga calls MPI from one thread, which may be the only one that MPI was promised. */
static RengaErrorCode CheckThreads(void)
{
  int level, is_main;
  RengaCallMPI(MPI_Query_thread(&level));
  RengaCallMPI(MPI_Is_thread_main(&is_main));
  RengaCheck(is_main || level >= MPI_THREAD_SERIALIZED, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaInitialize is called by another thread than MPI_Init, and MPI allows calls of "
             "that one only: start MPI with MPI_Init_thread and MPI_THREAD_SERIALIZED or more");
  RengaCheck(!start.we_started_mpi || level >= MPI_THREAD_FUNNELED, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT,
             "this MPI allows one thread only (level %d), and devices compute with several: build "
             "MPI with MPI_THREAD_FUNNELED or more",
             level);
  return RENGA_SUCCESS;
}

static RengaErrorCode Duplicate(MPI_Comm world, MPI_Comm *duplicate)
{
  MPI_Request request;
  RengaCallMPI(MPI_Comm_idup(world, duplicate, &request));
  RengaCall(RengaWaitRequest_Private(MPI_COMM_NULL, &request, "all ranks to start"));
  RengaCallMPI(MPI_Comm_set_errhandler(*duplicate, MPI_ERRORS_RETURN));
  return RENGA_SUCCESS;
}

/* Where MPICH's mpiexec has started this process, not a script around it, it is killed when the
   part of mpiexec that runs the ranks of this node is gone. That one may end without having killed
   all of them; a rank that is stopped would stay for ever then, and mpiexec, which waits until
   nobody holds its pipes. */
static void DieWithLauncher(void)
{
  char path[64], name[32] = "";
  snprintf(path, sizeof path, "/proc/%ld/comm", (long)getppid());
  FILE *file = RengaFileOpen_Private(path, "r");
  if (!file) return;
  if (!fgets(name, sizeof name, file)) name[0] = '\0';
  fclose(file);
  if (strcmp(name, "hydra_pmi_proxy\n") == 0)
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
}

/* What CUDA reads once, with a CUDA-aware MPI at the start of that: how many streams of a GPU do
   not wait for each other, and when kernels are loaded. One that is loaded when it is launched
   first may wait for all that runs, also for a message that comes only after it (CUDA C++
   Programming Guide, Lazy Loading): kernels of several ranks are all loaded at once, which takes
   seconds and memory that one rank spares. Threads of MPI may read the environment: it is written
   before there are any, if the launcher says how many ranks there are. */
static void AskCuda(bool several)
{
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  if (several) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

static RengaErrorCode AskCudaAgain(void)
{
  int size = 0;
  RengaCallMPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  AskCuda(size > 1);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSysStartMPI(int *argc, char ***argv)
{
  int started = 0, ended = 0, level;
  RengaCheck(start.comm == MPI_COMM_NULL, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaInitialize is called twice");
  if (argc && argv) FindLimit(*argc, *argv);
  RengaCallMPI(MPI_Initialized(&started));
  RengaCallMPI(MPI_Finalized(&ended));
  RengaCheck(!ended, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaInitialize comes after the end of MPI, which a process can start once only: "
             "call MPI_Init before the first RengaInitialize, so that RengaFinalize lets MPI live, "
             "and MPI_Finalize at the end");
  AskCuda(RengaLaunchHasSeveral_Private());
  if (!started) {
    DieWithLauncher();
    RengaGuardAllow(true);
    RengaGuardBegin_Private("MPI_Init");
    RengaCallMPI(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level));
    RengaGuardEnd_Private();
    start.we_started_mpi = true;
  }
  RengaCall(CheckThreads());
  RengaCall(AskCudaAgain());
  RengaCall(RengaLaunchCheckAlone_Private());
  if (start.meeting != MPI_COMM_NULL) MPI_Comm_free(&start.meeting);
  RengaCall(Duplicate(RengaSysWorld(), &start.meeting));
  RengaCall(Duplicate(RengaSysWorld(), &start.comm));
  RengaCall(RengaWatchCreate_Private(start.comm));
  RengaWatchSetWorld(start.comm);
  RengaCall(RengaLaunchCheckVersions_Private(start.comm));
  RengaCall(RengaGuardMeet(start.comm));
  RengaCall(RengaOptionsBegin());
  return RENGA_SUCCESS;
}

/*@
   RengaSetExitCode - what the process ends with where MPI does not let it return

   Input:
   . code - the number that main will return; 0 at first

   Notes: before RengaFinalize, in a program that lets RengaInitialize start MPI: where MPI_Finalize
   hangs, RengaFinalize ends the process with this code after three seconds. All output is written
   and all ranks agree by then that all is well.

   See also: RengaGetExitCode(), RengaFinalize()
@*/
void RengaSetExitCode(int code)
{
  start.exit_code = code;
}

/*@
   RengaGetExitCode - what RengaSetExitCode said
@*/
int RengaGetExitCode(void)
{
  return start.exit_code;
}

/* Ranks that close connections while others have closed theirs wait for them in vain in MPICH's
   MPI_Finalize: a moment in which all is still makes that rare. */
static RengaErrorCode CalmDown(void)
{
  static const struct timespec moment = {0, 100000000};
  char node[MPI_MAX_PROCESSOR_NAME];
  int length;
  RengaCallMPI(MPI_Get_processor_name(node, &length));
  int64_t most = (int64_t)RengaHash(node, (size_t)length, 0), inverse = ~most;
  RengaCall(RengaReduceInt64_Private(start.comm, MPI_MAX, &most, "all ranks to end"));
  RengaCall(RengaReduceInt64_Private(start.comm, MPI_MAX, &inverse, "all ranks to end"));
  if (most != ~inverse) nanosleep(&moment, NULL);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSysAgree(RengaErrorCode mine)
{
  RengaCall(RengaErrorAgree(start.comm, mine));
  return RENGA_SUCCESS;
}

static void LeaveComm(void)
{
  if (start.comm == MPI_COMM_NULL) return;
  RengaGuardForget();
  RengaWatchRelease_Private(start.comm);
  RengaWatchSetWorld(MPI_COMM_NULL);
  RengaWatchSetDefaultLimit(300);
  MPI_Comm_free(&start.comm);
}

void RengaSysUndo(void)
{
  RengaLogFinish();
  RengaOptionsEnd(false);
  LeaveComm();
}

static void EndMPI(void)
{
  if (start.we_started_mpi && start.comm != MPI_COMM_NULL) CalmDown();
  LeaveComm();
  if (start.meeting != MPI_COMM_NULL) MPI_Comm_free(&start.meeting);
  if (start.we_started_mpi) RengaFinalizeMPI(start.exit_code);
  start.world = MPI_COMM_NULL;
  start.world_is_set = start.we_started_mpi = false;
  start.help = NULL;
}

/*@
   RengaAnswerHelp - print what -help or -version asked for

   Not collective (the same on all ranks)

   Output:
   . answered - whether one of them was given: the program then ends, by RengaFinalize

   Errors: RENGA_ERR_FILE_WRITE where standard output does not take it; RENGA_ERR_LIBRARY from
   MPI.

   Notes: for programs whose command line is Renga's; Renga itself never ends a program. Rank 0
   prints the help of RengaInitialize and all options. RengaOptionsHelp prints a selection.

   See also: RengaOptionsHelp(), RengaInitialize()
@*/
RengaErrorCode RengaAnswerHelp(bool *answered)
{
  bool wants_help, wants_version;
  int rank;
  RengaCall(RengaOptionsGetBool("help", &wants_help, NULL));
  RengaCall(RengaOptionsGetBool("version", &wants_version, NULL));
  RengaCallMPI(MPI_Comm_rank(start.comm, &rank));
  *answered = wants_help || wants_version;
  if (wants_version) {
    RengaCall(RengaPrintf(start.comm, "renga %s\n", RENGA_VERSION));
  } else if (wants_help && rank == 0) {
    const char *help = start.help ? start.help : "";
    const size_t length = strlen(help);
    printf("%s%s", help, length > 0 && help[length - 1] != '\n' ? "\n" : "");
    RengaCall(RengaOptionsHelp(stdout, NULL, NULL));
  }
  return RENGA_SUCCESS;
}

/* Written at the end; that it cannot be is found now. */
static RengaErrorCode ProbeTrace(const char *trace)
{
  const bool there = access(trace, F_OK) == 0;
  const int file = RengaFileDescriptor_Private(trace, O_WRONLY | O_CREAT, 0666);
  RengaCheck(file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-log_trace %s: %s", trace,
             RengaFileReason_Private(errno));
  close(file);
  if (!there) unlink(trace);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSysReadOptions(int *argc, char ***argv, const char help[])
{
  char *problems = NULL;
  bool view, logs, shows_trace;
  const char *trace;
  int rank, ranks;
  RengaErrorCode code = RENGA_SUCCESS;
  start.help = help;
  RengaCallMPI(MPI_Comm_rank(start.comm, &rank));
  RengaCallMPI(MPI_Comm_size(start.comm, &ranks));
  RengaCall(RengaErrorAgree(start.comm, RengaFaultReadEnvironment(rank, ranks)));
  RengaCall(RengaOptionsParse(start.comm, argc, argv, &problems));
  RengaCall(RengaOptionsGetBool("error_trace", &shows_trace, NULL));
  RengaErrorShowTrace(shows_trace);
  if (problems)
    code =
        RengaErrorRaise(start.comm, RENGA_ERR_OPTION, __func__, __FILE__, __LINE__, "%s", problems);
  RengaFree(&problems);
  RengaCall(RengaErrorAgree(start.comm, code));
  RengaCall(TakeLimit());
  RengaCall(RengaLaunchCheckNodes_Private(start.comm));
  RengaCall(RengaOptionsGetBool("options_view", &view, NULL));
  if (view && rank == 0) RengaCall(RengaOptionsView(stdout));
  RengaCall(RengaOptionsGetString("log_trace", &trace, NULL));
  if (trace && rank == 0) code = ProbeTrace(trace);
  RengaCall(RengaErrorAgree(start.comm, code));
  RengaCall(RengaOptionsGetBool("log_view", &logs, NULL));
  RengaCall(RengaLogStart(start.comm, logs, trace != NULL));
  RengaOptionsEnd(true);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSysReport(void)
{
  bool view;
  const char *trace;
  if (start.comm == MPI_COMM_NULL && start.meeting != MPI_COMM_NULL) return RENGA_SUCCESS;
  RengaCheck(start.comm != MPI_COMM_NULL, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaFinalize comes after RengaInitialize");
  RengaCall(RengaOptionsGetBool("log_view", &view, NULL));
  RengaFaultReport();
  if (view) RengaCall(RengaLogView(start.comm, stdout));
  RengaCall(RengaOptionsGetString("log_trace", &trace, NULL));
  if (trace) RengaCall(RengaLogTraceWrite(start.comm, trace));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSysFinish(void)
{
  RengaLogFinish();
  RengaOptionsFinish();
  RengaSharedTextsFinish();
  RengaGuardForget();
  const RengaErrorCode mine = RengaMemoryFinish();
  const RengaErrorCode all =
      RengaErrorAgree(start.comm != MPI_COMM_NULL ? start.comm : start.meeting, mine);
  if (!all) RengaSignEnd(start.exit_code);
  EndMPI();
  RengaCall(all);
  return RENGA_SUCCESS;
}
