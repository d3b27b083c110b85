/* TEST ranks: 1 2 */
/* The library inside a program that has MPI, a command line and errors of its own. */
#include "../check.h"
#include "rengacomm.h"
#include <stdlib.h>

enum { MOST = 16 };
static int n_words;
static char *words[MOST + 1];
static char **argv;

/* The command line of the host from now on. */
#define Say(...)                                                                                   \
  do {                                                                                             \
    static const char *const said_[] = {"host", __VA_ARGS__};                                      \
    n_words = (int)(sizeof said_ / sizeof *said_);                                                 \
    for (int i_ = 0; i_ < n_words; i_++) words[i_] = (char *)(uintptr_t)said_[i_];                 \
    words[n_words] = NULL;                                                                         \
    argv = words;                                                                                  \
  } while (0)

static bool SaysStill(int count, const char *const expected[])
{
  if (n_words != count || argv[count] != NULL) return false;
  for (int i = 0; i < count; i++)
    if (strcmp(argv[i], expected[i]) != 0) return false;
  return true;
}

static bool MessageHas(const char *text)
{
  return strstr(RengaErrorGetMessage(), text) != NULL;
}

/* A start that fails leaves everything as it was, and another may follow. */
static RengaErrorCode TestFailedStart(void)
{
  static const char *const said[] = {"host", "-seed", "5", "-cuont", "3", "--mesh", "fine.msh"};
  int64_t seed;
  bool given;
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  RengaCall(RengaOptionsSetValue("seed", "7"));
  Say("-seed", "5", "-cuont", "3", "--mesh", "fine.msh");
  for (int i = 0; i < 2; i++) {
    Expect(RengaInitialize(&n_words, &argv, NULL) == RENGA_ERR_OPTION);
    Expect(MessageHas("unknown option -cuont") && MessageHas("unknown option -mesh"));
    Expect(SaysStill(7, said));
  }
  RengaErrorSetHandler(NULL, NULL);
  RengaCall(RengaInitialize(NULL, NULL, NULL));
  RengaCall(RengaOptionsGetInt64("seed", &seed, &given));
  Expect(given && seed == 7);
  RengaCall(RengaFinalize());
  /* One that ends after a start that failed. */
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  Expect(RengaInitialize(&n_words, &argv, NULL) == RENGA_ERR_OPTION);
  RengaErrorSetHandler(NULL, NULL);
  RengaCall(RengaFinalize());
  ExpectError(RengaFinalize(), RENGA_ERR_ORDER, "RengaFinalize comes after RengaInitialize");
  return RENGA_SUCCESS;
}

/* Words that are the host's stay, also where they look like options. */
static RengaErrorCode TestUnknown(void)
{
  static const char *const rest[] = {"host", "--mesh", "fine.msh", "word", "-cuont=3", "-x"};
  RengaUnknownOptions unknown;
  int64_t seed;
  RengaCall(RengaOptionsSetUnknown(RENGA_UNKNOWN_IS_LEFT));
  RengaCall(RengaOptionsGetUnknown(&unknown));
  Expect(unknown == RENGA_UNKNOWN_IS_LEFT);
  Say("--mesh", "fine.msh", "-seed", "5", "word", "-cuont=3", "-error_trace", "-x");
  RengaCall(RengaInitialize(&n_words, &argv, NULL));
  Expect(SaysStill(6, rest));
  RengaCall(RengaOptionsGetInt64("seed", &seed, NULL));
  Expect(seed == 5);
  ExpectError(RengaOptionsSetUnknown(RENGA_UNKNOWN_IS_ERROR), RENGA_ERR_ORDER,
              "comes before RengaInitialize");
  RengaCall(RengaFinalize());
  RengaCall(RengaOptionsGetUnknown(&unknown));
  Expect(unknown == RENGA_UNKNOWN_IS_ERROR);
  /* A value that is wrong is no word of the host's. */
  RengaCall(RengaOptionsSetUnknown(RENGA_UNKNOWN_IS_LEFT));
  Say("-seed", "many");
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  Expect(RengaInitialize(&n_words, &argv, NULL) == RENGA_ERR_OPTION);
  RengaErrorSetHandler(NULL, NULL);
  Expect(MessageHas("not a whole number"));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

/* -help and -version are asked, not done. */
static RengaErrorCode TestHelp(void)
{
  bool answered;
  Say("-version");
  RengaCall(RengaInitialize(&n_words, &argv, "a host"));
  RengaCall(RengaAnswerHelp(&answered));
  Expect(answered);
  RengaCall(RengaFinalize());
  Say("-h");
  RengaCall(RengaInitialize(&n_words, &argv, "a host"));
  RengaCall(RengaFinalize());
  for (int round = 0; round < 3; round++) {
    RengaCall(RengaInitialize(NULL, NULL, NULL));
    RengaCall(RengaAnswerHelp(&answered));
    Expect(!answered);
    RengaCall(RengaFinalize());
  }
  return RENGA_SUCCESS;
}

/* What was not freed is said once; the library ends and starts all the same. */
static RengaErrorCode TestLeak(void)
{
  char *lost;
  RengaCall(RengaInitialize(NULL, NULL, NULL));
  RengaCall(RengaMalloc(7, &lost));
  ExpectError(RengaFinalize(), RENGA_ERR_MEMORY, "");
  Expect(MessageHas("7 bytes from TestLeak()") || MessageHas("another rank"));
  RengaCall(RengaInitialize(NULL, NULL, NULL));
  RengaCall(RengaFinalize());
  RengaFree(&lost);
  return RENGA_SUCCESS;
}

/* Memory that is not Renga's is left, and said. */
static RengaErrorCode TestForeign(void)
{
  _Alignas(64) static char mine[192];
  char *pointer = mine + 64;
  ExpectError((RengaFree(&pointer), RENGA_SUCCESS), RENGA_SUCCESS, "was not given by RengaMalloc");
  Expect(pointer == mine + 64);
  ExpectError(RengaRealloc(100, &pointer), RENGA_ERR_ARGUMENT, "was not given by RengaMalloc");
  Expect(pointer == mine + 64);
  return RENGA_SUCCESS;
}

typedef struct {
  int errors, warnings, deepest;
  char functions[256], message[256];
} Heard;

static void Hear(const RengaErrorReport *report, void *user)
{
  Heard *heard = user;
  if (report->code == RENGA_SUCCESS)
    heard->warnings++;
  else if (report->depth == 0)
    heard->errors++;
  if (report->code == RENGA_SUCCESS) return;
  heard->deepest = report->depth;
  strcat(strcat(heard->functions, report->function), " ");
  snprintf(heard->message, sizeof heard->message, "%s", report->message);
}

static RengaErrorCode Inner(void)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SHAPE, "%d is not %s", 3, "four");
}

static RengaErrorCode Outer(void)
{
  RengaCall(Inner());
  return RENGA_SUCCESS;
}

static RengaErrorCode TestHandler(void)
{
  Heard heard = {0};
  RengaErrorHandler handler;
  void *user;
  RengaErrorSetHandler(Hear, &heard);
  RengaErrorGetHandler(&handler, &user);
  const RengaErrorCode code = Outer();
  RengaWarning(MPI_COMM_SELF, "careful");
  RengaErrorSetHandler(NULL, NULL);
  Expect(handler == Hear && user == &heard);
  RengaErrorGetHandler(&handler, NULL);
  Expect(handler == RengaErrorPrint);
  Expect(code == RENGA_ERR_SHAPE && heard.errors == 1 && heard.warnings == 1);
  Expect(heard.deepest == 1 && !strcmp(heard.functions, "Inner Outer "));
  Expect(!strcmp(heard.message, "3 is not four"));
  Expect(!strcmp(RengaErrorGetMessage(), "3 is not four"));
  FILE *file;
  const int saved = BeginErrors(&file);
  const RengaErrorCode again = Outer();
  Expect(!strchr(strchr(EndErrors(file, saved), '\n') + 1, '\n')); /* one line, no trace */
  Expect(again == RENGA_ERR_SHAPE);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestVersion(void)
{
  int major, minor, patch;
  const char *text;
  char made[64];
  RengaGetVersion(&major, &minor, &patch, &text);
  RengaGetVersion(NULL, NULL, NULL, NULL);
  snprintf(made, sizeof made, "%d.%d.%d", major, minor, patch);
  Expect(!strcmp(made, text) && !strcmp(text, RENGA_VERSION));
  Expect(RENGA_VERSION_GE(0, 0, 9) && !RENGA_VERSION_GE(1000, 0, 0));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTests(void)
{
  RengaCall(TestVersion());
  RengaCall(TestHandler());
  RengaCall(TestForeign());
  RengaCall(TestFailedStart());
  RengaCall(TestUnknown());
  RengaCall(TestHelp());
  RengaCall(TestLeak());
  return RENGA_SUCCESS;
}

int main(void)
{
  int ended;
  RengaComm comm;
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  if (RengaCommCreate(MPI_COMM_WORLD, &comm) != RENGA_ERR_ORDER) return 1;
  RengaErrorSetHandler(NULL, NULL);
  MPI_Init(NULL, NULL);
  RengaCallAbort(RunTests());
  MPI_Finalized(&ended);
  if (ended) return 1;
  MPI_Finalize();
  return 0;
}
