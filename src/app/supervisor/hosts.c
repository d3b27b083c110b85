/* The hosts of a run: those of a file, those of the Slurm job, or this machine. */
#include "supervisor.h"
#include "renga/private/open.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST_WAIT = 3600 };

static RengaErrorCode AddHost(SupervisorHosts *hosts, const char *name, int ranks)
{
  SupervisorHost *grown = realloc(hosts->host, ((size_t)hosts->count + 1) * sizeof *grown);
  RengaCheck(grown, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for %d hosts", hosts->count + 1);
  hosts->host = grown;
  grown[hosts->count] = (SupervisorHost){.ranks = ranks};
  snprintf(grown[hosts->count++].name, SUPERVISOR_NAME, "%s", name);
  return RENGA_SUCCESS;
}

/* "node1:4", "node1 slots=4" or "node1"; # begins a comment. */
static RengaErrorCode AddLine(SupervisorHosts *hosts, const char *file, int number, char *line)
{
  char name[SUPERVISOR_NAME] = "", rest[SUPERVISOR_NAME] = "", *end;
  line[strcspn(line, "#\n")] = '\0';
  if (sscanf(line, " %255s %255s", name, rest) < 1) return RENGA_SUCCESS;
  char *colon = strrchr(name, ':'), *ranks = strchr(rest, '=');
  const char *count = colon ? colon + 1 : ranks ? ranks + 1 : "1";
  if (colon) *colon = '\0';
  const long n = strtol(count, &end, 10);
  const bool known = !*rest || (!colon && strncmp(rest, "slots=", 6) == 0);
  RengaCheck(*name && *name != '-' && *end == '\0' && end != count && n > 0 && n <= 65536 && known,
             MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-hosts %s: line %d: \"%s\" is no host: write NAME:RANKS, as in node1:4, a line each",
             file, number, line);
  const int there = SupervisorHostNamed(hosts, name);
  if (there >= 0) hosts->host[there].ranks += (int)n;
  if (there < 0) RengaCall(AddHost(hosts, name, (int)n));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadHostsFile(SupervisorHosts *hosts, const char *name)
{
  FILE *file = RengaFileOpen_Private(name, "r");
  char line[SUPERVISOR_TEXT];
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "-hosts %s: %s", name,
             RengaFileReason_Private(errno));
  for (int n = 1; !code && fgets(line, sizeof line, file); n++)
    code = AddLine(hosts, name, n, line);
  fclose(file);
  RengaCall(code);
  RengaCheck(hosts->count, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-hosts %s: the file names no host: write NAME:RANKS, as in node1:4, a line each",
             name);
  return RENGA_SUCCESS;
}

/* Those of the Slurm job, with so many tasks as it has on each. */
static RengaErrorCode ReadHostsOfJob(SupervisorHosts *hosts, int64_t ranks)
{
  const char *nodes = getenv("SLURM_JOB_NODELIST"),
             *word[] = {"scontrol", "show", "hostnames", nodes, NULL};
  const char *tasks = getenv("SLURM_NTASKS_PER_NODE");
  char text[16 * SUPERVISOR_TEXT], *next = NULL;
  if (!nodes) return RENGA_SUCCESS;
  SupervisorRead(word, 30, sizeof text, text);
  for (char *name = strtok_r(text, "\n", &next); name; name = strtok_r(NULL, "\n", &next))
    RengaCall(AddHost(hosts, name, 0));
  const long given = tasks ? strtol(tasks, NULL, 10) : 0;
  const long all = ranks > 0 ? (long)ranks : hosts->count;
  for (int h = 0; h < hosts->count; h++)
    hosts->host[h].ranks =
        (int)(given > 0 ? given : (all + hosts->count - 1) / (hosts->count ? hosts->count : 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadRemote(const SupervisorOptions *options, bool srun,
                                 SupervisorRemote *remote)
{
  static const char by_ssh[] = "ssh -o BatchMode=yes -o ConnectTimeout=5";
  static const char by_srun[] = "srun --quiet --overlap --nodes=1 --ntasks=1 --nodelist";
  char *text = strdup(options->remote ? options->remote : srun ? by_srun : by_ssh);
  RengaCheck(text, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for -remote");
  remote->text = text;
  RengaCheck(SupervisorSplit(text, SUPERVISOR_WORDS, remote->remote) && remote->remote[0],
             MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-remote: write the command that runs another one on a host, as \"%s\"", by_ssh);
  remote->shell = strncmp(remote->remote[0], "srun", 4) == 0;
  return RENGA_SUCCESS;
}

RengaErrorCode SupervisorHostsRead(const SupervisorOptions *options, bool srun,
                                   SupervisorHosts *hosts)
{
  int64_t room = 0;
  *hosts = (SupervisorHosts){.count = 0};
  RengaCall(ReadRemote(options, srun, &hosts->remote));
  if (options->hosts)
    RengaCall(ReadHostsFile(hosts, options->hosts));
  else if (srun)
    RengaCall(ReadHostsOfJob(hosts, options->ranks));
  hosts->listed = hosts->count > 0;
  if (!hosts->listed) RengaCall(AddHost(hosts, "", (int)options->ranks));
  for (int h = 0; h < hosts->count; h++) room += hosts->host[h].ranks;
  RengaCheck(room > 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "renga run: how many ranks? -n N says it, or a file of -hosts");
  RengaCheck(options->ranks <= room, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-n %lld: the hosts take %lld ranks: give more hosts, or more ranks to each",
             (long long)options->ranks, (long long)room);
  RengaCheck(options->least <= (options->ranks ? options->ranks : room), MPI_COMM_SELF,
             RENGA_ERR_OPTION, "-least %lld: there are %lld ranks at the most",
             (long long)options->least, (long long)(options->ranks ? options->ranks : room));
  return RENGA_SUCCESS;
}

static void SayHost(const char *event, const SupervisorHost *host, const char *what)
{
  char name[2 * SUPERVISOR_NAME], fields[3 * SUPERVISOR_NAME];
  SupervisorQuote(host->name, sizeof name, name);
  snprintf(fields, sizeof fields, "\"host\":%s", name);
  SupervisorSay(event, fields, "%s %s", host->name, what);
}

void SupervisorHostLose(SupervisorHosts *hosts, int h, const SupervisorOptions *options)
{
  SupervisorHost *host = &hosts->host[h];
  double wait = options->back > 0 ? options->back : 1;
  if (host->lost) return;
  for (int i = 0; i < host->losses && wait < LONGEST_WAIT; i++) wait *= 2;
  host->lost = true;
  host->losses++;
  host->ask_at = SupervisorSeconds() + wait;
  SayHost("lost", host, "is left out until it answers again");
}

void SupervisorHostTakeBack(SupervisorHosts *hosts, int h)
{
  hosts->host[h].lost = false;
  hosts->host[h].strikes = 0;
  SayHost("back", &hosts->host[h], "answers again and takes part");
}

bool SupervisorHostIsUsable(const SupervisorHost *host)
{
  return !host->lost && !host->warned;
}

int SupervisorHostsDeal(SupervisorHosts *hosts, const SupervisorOptions *options)
{
  int64_t left = options->ranks > 0 ? options->ranks : INT32_MAX;
  int dealt = 0;
  for (int h = 0; h < hosts->count; h++) {
    SupervisorHost *host = &hosts->host[h];
    const int64_t room = SupervisorHostIsUsable(host) ? host->ranks : 0;
    host->used = (int)(room < left ? room : left);
    left -= host->used;
    dealt += host->used;
  }
  return dealt;
}

int SupervisorHostOfRank(const SupervisorHosts *hosts, int rank)
{
  for (int h = 0; h < hosts->count; h++) {
    if (rank >= 0 && rank < hosts->host[h].used) return h;
    rank -= hosts->host[h].used;
  }
  return -1;
}

/* "node1" also stands for node1.cluster.org. */
int SupervisorHostNamed(const SupervisorHosts *hosts, const char *name)
{
  for (int h = 0; h < hosts->count; h++)
    if (strcmp(hosts->host[h].name, name) == 0) return h;
  const size_t length = strcspn(name, ".");
  for (int h = 0; h < hosts->count; h++)
    if (strcspn(hosts->host[h].name, ".") == length && length > 0 &&
        strspn(name, "0123456789.") < strlen(name) &&
        strncmp(hosts->host[h].name, name, length) == 0)
      return h;
  return -1;
}

/* Whoever was warned of and is no longer is asked, as one that was lost. */
static void SetWarned(SupervisorHost *host, bool goes)
{
  if (goes && !host->warned) SayHost("warning", host, "goes away soon, says the file of -warning");
  if (!goes && host->warned) host->lost = true;
  if (!goes && host->warned) host->ask_at = SupervisorSeconds();
  host->warned = goes;
}

bool SupervisorHostsWarn(SupervisorHosts *hosts, const char *name, bool *all)
{
  char line[SUPERVISOR_TEXT], word[SUPERVISOR_NAME];
  bool some = false, named = false;
  FILE *file = name ? RengaFileOpen_Private(name, "r") : NULL;
  bool *goes = calloc((size_t)hosts->count, sizeof *goes);
  while (file && goes && fgets(line, sizeof line, file)) {
    line[strcspn(line, "#\n")] = '\0';
    if (sscanf(line, " %255s", word) != 1) continue;
    const int h = SupervisorHostNamed(hosts, word);
    named = true;
    if (h >= 0) goes[h] = true;
  }
  *all = file && !named;
  if (file) fclose(file);
  for (int h = 0; h < hosts->count && goes; h++) {
    SupervisorHost *host = &hosts->host[h];
    if (goes[h] && !host->warned && host->used > 0) some = true;
    SetWarned(host, goes[h]);
  }
  free(goes);
  return some || *all;
}
