/* A page about the run, and the same as JSON: what -monitor http:PORT gives. */
#include "http.h"
#include "server.h"
#include "renga/private/open.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { LEAST_TOKEN = 8, TOKEN_BYTES = 16 };

/* The lines of share/renga/watch.html. */
static const char *const page_lines[] = {
#include "watchpage.h"
};
enum { LINES = sizeof page_lines / sizeof page_lines[0] };

typedef struct {
  char *option, *host, *token; /* host NULL: of this machine only; token NULL: none is needed */
  bool knows_token;            /* the user has given it */
  const char *port;            /* the end of option */
  AppStatus status;
  AppServer server;
} Http;

/* The lines of the page, one after the other; NULL: no memory. */
static char *JoinPage(size_t *length)
{
  size_t used = 0;
  *length = 0;
  for (int i = 0; i < LINES; i++) *length += strlen(page_lines[i]);
  char *text = malloc(*length + 1);
  for (int i = 0; i < LINES && text; i++) {
    const size_t letters = strlen(page_lines[i]);
    memcpy(text + used, page_lines[i], letters + 1);
    used += letters;
  }
  return text;
}

/* In the server's thread. */
static bool AnswerPath(void *user, const char *path, AppAnswer *answer)
{
  Http *http = user;
  if (!strcmp(path, "/")) {
    answer->type = "text/html; charset=utf-8";
    answer->bytes = JoinPage(&answer->length);
  } else if (!strcmp(path, "/state.json")) {
    answer->type = "application/json";
    answer->bytes = AppStatusFormat(http->status, &answer->length);
  } else if (!strcmp(path, "/plan.svg")) {
    answer->type = "image/svg+xml";
    answer->bytes = AppStatusCopyPlan(http->status, &answer->length);
  }
  return answer->bytes != NULL;
}

/* "8080", "host:8080", "[::1]:8080". */
static RengaErrorCode SplitAddress(Http *http, const char *where)
{
  const char *colon = strrchr(where, ':'), *first = where;
  char *end;
  http->port = colon ? colon + 1 : where;
  const long port = strtol(http->port, &end, 10);
  RengaCheck(*http->port >= '0' && *http->port <= '9' && !*end && port <= 65535, MPI_COMM_SELF,
             RENGA_ERR_OPTION,
             "%s: \"%s\" is no port: write http:PORT or http:HOST:PORT, PORT from 0 to 65535",
             http->option, http->port);
  if (!colon) return RENGA_SUCCESS;
  size_t letters = (size_t)(colon - where);
  RengaCheck(letters > 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "%s: which host? write http:PORT for this machine only, or http:HOST:PORT",
             http->option);
  if (letters > 2 && *first == '[' && colon[-1] == ']') first++, letters -= 2;
  RengaCall(RengaStringCopy(first, &http->host));
  http->host[letters] = '\0';
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeToken(Http *http)
{
  unsigned char bytes[TOKEN_BYTES];
  RengaCheck(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes, MPI_COMM_SELF,
             RENGA_ERR_LIBRARY, "%s: no random numbers for a token: %s", http->option,
             RengaFileReason_Private(errno));
  RengaCall(RengaMalloc(2 * TOKEN_BYTES + 1, &http->token));
  for (int i = 0; i < TOKEN_BYTES; i++) snprintf(http->token + 2 * i, 3, "%02x", bytes[i]);
  return RENGA_SUCCESS;
}

/* A given one; otherwise one is made where other machines can reach the page. */
static RengaErrorCode FindToken(Http *http)
{
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  RengaCall(AppTokenFind(&http->token));
  http->knows_token = http->token != NULL;
  RengaCheck(!http->token ||
                 (strlen(http->token) >= LEAST_TOKEN && !http->token[strspn(http->token, letters)]),
             MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-monitor_token: a token has at least %d letters, digits, dots or dashes",
             LEAST_TOKEN);
  if (!http->token && http->host && !AppHostIsThisMachine(http->host, strlen(http->host)))
    RengaCall(MakeToken(http));
  return RENGA_SUCCESS;
}

/* Where people find it: the host by a name that leads there. A token that the user has given is not
   printed: outputs are kept, and read by others. */
static RengaErrorCode SayAddress(const Http *http)
{
  char own[256] = "127.0.0.1";
  const char *host = http->host ? http->host : own;
  if (http->host && (!strcmp(host, "0.0.0.0") || !strcmp(host, "::"))) {
    if (gethostname(own, sizeof own - 1) == 0) host = own;
  }
  const bool colons = strchr(host, ':') != NULL, made = http->token && !http->knows_token;
  RengaCall(RengaPrintf(MPI_COMM_SELF, "the run can be watched at http://%s%s%s:%d/%s%s%s\n",
                        colons ? "[" : "", host, colons ? "]" : "", AppServerGetPort(http->server),
                        made ? "?token=" : "", made ? http->token : "",
                        http->knows_token ? " with the token that was given" : ""));
  fflush(stdout);
  return RENGA_SUCCESS;
}

static RengaErrorCode StartHttp(Http *http, const char *where)
{
  const char *network;
  RengaCall(SplitAddress(http, http->option + strlen(http->option) - strlen(where)));
  RengaCall(FindToken(http));
  RengaCall(RengaOptionsGetString("graph", &network, NULL));
  RengaCall(AppStatusCreate(network ? network : "", &http->status));
  const AppServerSettings settings = {.option = http->option,
                                      .host = http->host,
                                      .port = http->port,
                                      .token = http->token,
                                      .answer = AnswerPath,
                                      .user = http};
  RengaCall(AppServerStart(&settings, &http->server));
  RengaCall(SayAddress(http));
  return RENGA_SUCCESS;
}

/* The server first: its thread reads the rest. */
static void FreeHttp(Http **http)
{
  if ((*http)->server) AppServerStop(&(*http)->server);
  AppStatusDestroy(&(*http)->status);
  RengaFree(&(*http)->option);
  RengaFree(&(*http)->host);
  RengaFree(&(*http)->token);
  RengaFree(http);
}

/* Before any work: whoever looks sees that the run is being set up. */
static RengaErrorCode OpenHttp(const char *where, void **sink)
{
  char option[512];
  Http *http;
  snprintf(option, sizeof option, "-monitor http:%s", where);
  RengaCheck(strlen(where) + sizeof "-monitor http:" <= sizeof option, MPI_COMM_SELF,
             RENGA_ERR_OPTION, "-monitor http: an address of %zu letters", strlen(where));
  RengaCall(RengaMalloc(1, &http));
  RengaErrorCode code = RengaStringCopy(option, &http->option);
  if (!code) code = StartHttp(http, where);
  if (code) FreeHttp(&http);
  RengaCall(code);
  *sink = http;
  return RENGA_SUCCESS;
}

/* What is to be done at the beginning is collective: AppHttpBegin(). */
static RengaErrorCode BeginHttp(void *sink, const AppRun *run)
{
  (void)sink;
  (void)run;
  return RENGA_SUCCESS;
}

static void ShowStep(void *sink, const RengaTrainerRow *row)
{
  AppStatusStep(((Http *)sink)->status, row);
}

static void ShowValidation(void *sink, const AppValidation *validation)
{
  AppStatusValidation(((Http *)sink)->status, validation);
}

void AppHttpTake(void *sink, const AppReport *report)
{
  AppStatusReport(((Http *)sink)->status, report);
}

void AppHttpSetPhase(void *sink, const char *phase)
{
  AppStatusSetPhase(((Http *)sink)->status, phase);
}

static RengaErrorCode CloseHttp(void **sink, bool goes_on)
{
  Http *http = *sink;
  (void)goes_on;
  FreeHttp(&http);
  *sink = NULL;
  return RENGA_SUCCESS;
}

const AppMonitorKind AppHttpKind = {"http",   "PORT",         OpenHttp, BeginHttp,
                                    ShowStep, ShowValidation, CloseHttp};

/* The picture of the plan, by way of a file of rank 0's. */
static RengaErrorCode ReadPicture(const char *name, char **text)
{
  FILE *file = RengaFileOpen_Private(name, "r");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", name,
             RengaFileReason_Private(errno));
  fseek(file, 0, SEEK_END);
  const long bytes = ftell(file);
  rewind(file);
  RengaErrorCode code = RengaMalloc(bytes + 1, text);
  if (!code && fread(*text, 1, (size_t)bytes, file) != (size_t)bytes) RengaFree(text);
  fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode WritePicture(RengaComm comm, RengaPlan plan, const char *name)
{
  char specification[600];
  RengaViewer viewer;
  snprintf(specification, sizeof specification, "draw:%s", name);
  RengaCall(RengaViewerCreate(comm, specification, &viewer));
  RengaErrorCode code = RengaPlanView(plan, viewer);
  const RengaErrorCode closed = RengaViewerDestroy(&viewer);
  RengaCall(code ? code : closed);
  return RENGA_SUCCESS;
}

/* Collective; text: on rank 0, NULL where there is no place for the file, which a warning says. */
static RengaErrorCode DrawPlan(RengaComm comm, RengaPlan plan, char **text)
{
  char folder[256] = "", name[300];
  const char *place = getenv("TMPDIR");
  const bool draws = RengaCommGetRank(comm) == 0;
  int64_t made = 1;
  snprintf(folder, sizeof folder, "%s/renga-XXXXXX", place && *place ? place : "/tmp");
  if (draws && !mkdtemp(folder)) {
    RengaWarning(MPI_COMM_SELF, "the page has no picture of the plan: %s: %s", folder,
                 RengaFileReason_Private(errno));
    made = 0;
  }
  RengaCall(RengaCommBroadcast(comm, &made, sizeof made, 0, "the page's picture of the plan"));
  if (!made) return RENGA_SUCCESS;
  snprintf(name, sizeof name, "%s/plan.svg", folder);
  RengaErrorCode code = WritePicture(comm, plan, name);
  if (draws && !code) code = ReadPicture(name, text);
  if (draws) unlink(name), rmdir(folder);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of learners that train apart each group of ranks has the plan's places for itself. */
static RengaErrorCode FillRankFacts(const AppRun *run, AppRankFacts *mine)
{
  char node[MPI_MAX_PROCESSOR_NAME] = "";
  int length, rank;
  const MPI_Comm group = AppPrinter(run->pipeline);
  RengaCallMPI(MPI_Comm_rank(group, &rank));
  RengaCallMPI(MPI_Get_processor_name(node, &length));
  snprintf(mine->node, sizeof mine->node, "%.60s", node);
  RengaCall(AppDescribeRank(run->plan, rank, sizeof mine->place, mine->place));
  RengaCall(RengaPipelineGetMemory(run->pipeline, &mine->memory));
  return RENGA_SUCCESS;
}

/* Ranks meet in the gather, so each of them can go there, or none does. */
static RengaErrorCode GatherRankFacts(RengaComm comm, MPI_Comm ranks, const AppRun *run,
                                      AppRankFacts **all)
{
  AppRankFacts mine = {.node = ""};
  RengaErrorCode code = FillRankFacts(run, &mine);
  if (!code) code = RengaMalloc(RengaCommGetSize(comm), all);
  RengaCall(RengaErrorAgree(ranks, code));
  RengaCall(RengaCommGather(comm, &mine, sizeof mine, *all, 0, "what the page shows of all ranks"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppHttpBegin(RengaComm comm, void *sink, const AppRun *run)
{
  AppRankFacts *facts = NULL;
  char *plan = NULL;
  Http *http = sink;
  const MPI_Comm ranks = AppPrinter(comm);
  RengaErrorCode code = RengaErrorAgree(ranks, GatherRankFacts(comm, ranks, run, &facts));
  if (!code) code = RengaErrorAgree(ranks, DrawPlan(comm, run->plan, &plan));
  if (!code && http) code = AppStatusBegin(http->status, run, RengaCommGetSize(comm), facts, plan);
  if (code || !http) {
    RengaFree(&facts);
    RengaFree(&plan);
  }
  RengaCall(RengaErrorAgree(ranks, code));
  return RENGA_SUCCESS;
}
