/* A program that test/sys/program.sh runs in many ways, most of them wrong. */
#include "rengasys.h"
#include <string.h>

static const RengaOptionRow rows[] = {
    {"alpha", RENGA_OPTION_REAL, "0.5", RENGA_OPTION_NO_OFFSET, NULL, 0, 1, "a fraction"},
    {"count", RENGA_OPTION_INT, "3", RENGA_OPTION_NO_OFFSET, NULL, -5, 10, "a count"},
    {"kind", RENGA_OPTION_STRING, "sgd", RENGA_OPTION_NO_OFFSET, "sgd|adam", 0, 0, "a kind"},
    {"flag", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0, "a flag"},
};

static RengaErrorCode FailOn(int rank)
{
  int mine;
  RengaCallMPI(MPI_Comm_rank(MPI_COMM_WORLD, &mine));
  RengaCheck(mine != rank, MPI_COMM_SELF, RENGA_ERR_NUMERIC, "rank %d was told to fail", rank);
  return RENGA_SUCCESS;
}

static RengaErrorCode Print(int argc, char **argv)
{
  double alpha;
  int64_t count;
  bool flag, given;
  const char *kind;
  RengaCall(RengaOptionsGetReal("alpha", &alpha, &given));
  RengaCall(RengaOptionsGetInt64("count", &count, &given));
  RengaCall(RengaOptionsGetString("kind", &kind, &given));
  RengaCall(RengaOptionsGetBool("flag", &flag, &given));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "alpha %g count %d kind %s flag %d", alpha, (int)count,
                        kind, flag));
  for (int i = 1; i < argc; i++) RengaCall(RengaPrintf(MPI_COMM_WORLD, " %s", argv[i]));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "\n"));
  return RENGA_SUCCESS;
}

static void CountBar(void *user, const char *track, const char *name, double begin, double end)
{
  *(int *)user +=
      strcmp(track, "compute") == 0 && strcmp(name, "forward \"1\"") == 0 && begin <= end;
}

/* A listener is told of bars whether or not they are kept, until there is none. */
static RengaErrorCode Listen(void)
{
  const double begin = MPI_Wtime();
  int heard = 0, twice = 0;
  const bool on = RengaLogTraceIsOn();
  RengaCall(RengaLogTraceSetListener(CountBar, &heard));
  RengaCall(RengaLogTraceSetListener(CountBar, &twice));
  const bool wanted = RengaLogTraceIsOn();
  RengaLogTrace("compute", "forward \"1\"", begin, MPI_Wtime());
  RengaCall(RengaLogTraceSetListener(NULL, &heard));
  if (!on) RengaLogTrace("compute", "forward \"1\"", begin, MPI_Wtime());
  RengaCall(RengaLogTraceSetListener(NULL, &twice));
  if (!on) RengaLogTrace("compute", "forward \"1\"", 1, 2);
  RengaCheck(wanted && heard == 1 && twice == 2 - on && RengaLogTraceIsOn() == on, MPI_COMM_SELF,
             RENGA_ERR_INTERNAL, "a listener was told of %d bars", heard);
  return RENGA_SUCCESS;
}

static RengaErrorCode Work(int argc, char **argv)
{
  RengaLogEvent event;
  char *leak;
  RengaCall(RengaLogEventRegister("Work", &event));
  RengaLogEventBegin(event);
  RengaLogEventBegin(event);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaLogEventEnd(event, 1e9, 2, 4096);
  RengaLogMemory("parameters", 1 << 20, 1 << 20);
  RengaCall(Listen());
  RengaCall(Print(argc, argv));
  if (argc > 1 && strcmp(argv[1], "leak") == 0) RengaCall(RengaMalloc(7, &leak));
  if (argc > 1 && strcmp(argv[1], "fail") == 0)
    RengaCall(RengaErrorAgree(MPI_COMM_WORLD, FailOn(1)));
  if (argc > 1 && strcmp(argv[1], "alone") == 0) {
    RengaCall(FailOn(1));
    RengaCall(RengaErrorAgree(MPI_COMM_WORLD, RENGA_SUCCESS));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(int argc, char **argv)
{
  bool answered;
  RengaCall(RengaOptionsRegister("Test", sizeof rows / sizeof rows[0], rows));
  RengaCall(RengaInitialize(&argc, &argv, "A program of the tests."));
  RengaCall(RengaAnswerHelp(&answered));
  if (!answered) RengaCall(Work(argc, argv));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(Run(argc, argv));
  return 0;
}
