/* A step that `renga plan -simulate_save FILE` wrote (doc/formats.md), message by message in
   SimGrid: what simgrid.sh compares with Renga's own simulation. Each rank, each device of a sum
   and each sum are actors; messages begin when they are sent.
   usage: referee FILE MODEL: prints the step's seconds */
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 3, NAME = 64, MOST_BUCKETS = 16, MOST_STAGES = 64 };

typedef struct {
  char word[16];
  long number; /* of a message; a stage */
  double value;
} Action;

typedef struct {
  int device, count;
  Action *action;
} Rank;

typedef struct {
  int replicas, group, buckets;
  double within, bytes;
  int *device;                  /* [replicas * group] */
  sg_sem_t come[MOST_BUCKETS];  /* parts of a bucket that are there */
  sg_sem_t *go, done, *awaited; /* [replicas * group]; of devices; [devices of the machine] */
} Sum;

static int nodes, devices, cards, below, n_levels, n_ranks;
static double card_bandwidth, uplink_bandwidth;
static struct {
  int devices;
  double latency, bandwidth;
} level[LEVELS];
static Sum sum[MOST_STAGES];
static Rank *rank;

static void Fail(const char *what)
{
  fprintf(stderr, "referee: %s\n", what);
  exit(1);
}

static void ReadRank(FILE *file)
{
  char line[256], word[16], more[16];
  long number;
  double value;
  rank = realloc(rank, (size_t)(n_ranks + 1) * sizeof *rank);
  Rank *own = &rank[n_ranks++];
  *own = (Rank){0};
  if (fscanf(file, "%d\n", &own->device) != 1) Fail("a rank without a device");
  for (long at = ftell(file); fgets(line, sizeof line, file); at = ftell(file)) {
    if (!strncmp(line, "rank", 4) || !strncmp(line, "end", 3)) {
      fseek(file, at, SEEK_SET);
      return;
    }
    Action action = {{0}, 0, 0};
    if (sscanf(line, "work %lf", &value) == 1)
      action = (Action){"work", 0, value};
    else if (sscanf(line, "%15s %ld %15s %lf", word, &number, more, &value) == 4)
      action = (Action){"send", number, value};
    else if (sscanf(line, "come %ld %lf", &number, &value) == 2)
      action = (Action){"come", number, value};
    else if (sscanf(line, "%15s %ld", word, &number) == 2)
      memcpy(action.word, word, sizeof word), action.number = number;
    else
      Fail(line);
    own->action = realloc(own->action, (size_t)(own->count + 1) * sizeof action);
    own->action[own->count++] = action;
  }
}

static void ReadSum(FILE *file)
{
  int stage, replicas, group, buckets;
  double within, bytes;
  if (fscanf(file, "%d replicas %d group %d buckets %d within %lf bytes %lf", &stage, &replicas,
             &group, &buckets, &within, &bytes) != 6 ||
      stage >= MOST_STAGES || buckets > MOST_BUCKETS)
    Fail("a sum");
  Sum *own = &sum[stage];
  *own = (Sum){.replicas = replicas, .group = group, .buckets = buckets, .within = within};
  own->bytes = bytes;
  own->device = calloc((size_t)(replicas * group), sizeof *own->device);
  for (int d = 0; d < replicas * group; d++)
    if (fscanf(file, "%d", &own->device[d]) != 1) Fail("devices of a sum");
}

static void ReadStep(const char *name)
{
  char word[16];
  int version;
  FILE *file = fopen(name, "r");
  if (!file ||
      fscanf(file, "renga-step %d nodes %d devices %d cards %d bandwidth %lf switch %d uplink %lf",
             &version, &nodes, &devices, &cards, &card_bandwidth, &below, &uplink_bandwidth) != 7)
    Fail("not a step");
  while (fscanf(file, "%15s", word) == 1 && strcmp(word, "end")) {
    if (!strcmp(word, "rank")) ReadRank(file);
    if (!strcmp(word, "sum")) ReadSum(file);
    if (!strcmp(word, "level")) {
      if (n_levels == LEVELS ||
          fscanf(file, "%d latency %lf bandwidth %lf", &level[n_levels].devices,
                 &level[n_levels].latency, &level[n_levels].bandwidth) != 3)
        Fail("a level");
      n_levels++;
    }
  }
  fclose(file);
}

static void WriteLink(FILE *file, const char *kind, int number, double bandwidth, double latency,
                      bool shared)
{
  fprintf(file,
          "<link id=\"%s%d\" bandwidth=\"%.17gBps\" latency=\"%.17gs\" sharing_policy=\"%s\"/>\n",
          kind, number, bandwidth, latency, shared ? "SHARED" : "FATPIPE");
}

/* Nobody shares what a level says alone. */
static void WriteRoute(FILE *file, int from, int to)
{
  int l = 0;
  while (l < n_levels - 1 && from / level[l].devices != to / level[l].devices) l++;
  fprintf(file, "<route src=\"d%d\" dst=\"d%d\" symmetrical=\"NO\"><link_ctn id=\"level%d\"/>",
          from, to, l);
  const int node = from / devices, other = to / devices;
  if (l > 0 && cards > 0) {
    fprintf(file, "<link_ctn id=\"out%d\"/>", node * cards + from % devices % cards);
    fprintf(file, "<link_ctn id=\"in%d\"/>", other * cards + to % devices % cards);
    if (uplink_bandwidth > 0 && node / below != other / below)
      fprintf(file, "<link_ctn id=\"up%d\"/><link_ctn id=\"down%d\"/>", node / below,
              other / below);
  }
  fprintf(file, "</route>\n");
}

static void WritePlatform(const char *name)
{
  FILE *file = fopen(name, "w");
  if (!file) Fail(name);
  fprintf(file,
          "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\"><zone id=\"all\" routing=\"Full\">\n");
  for (int d = 0; d < nodes * devices; d++) fprintf(file, "<host id=\"d%d\" speed=\"1Gf\"/>\n", d);
  for (int l = 0; l < n_levels; l++)
    WriteLink(file, "level", l, l > 0 && cards > 0 ? 1e18 : level[l].bandwidth, level[l].latency,
              false);
  for (int c = 0; c < nodes * cards; c++) {
    WriteLink(file, "out", c, card_bandwidth, 0, true);
    WriteLink(file, "in", c, card_bandwidth, 0, true);
  }
  for (int s = 0; uplink_bandwidth > 0 && s <= (nodes - 1) / below; s++) {
    WriteLink(file, "up", s, uplink_bandwidth, 0, true);
    WriteLink(file, "down", s, uplink_bandwidth, 0, true);
  }
  for (int from = 0; from < nodes * devices; from++)
    for (int to = 0; to < nodes * devices; to++)
      if (from != to) WriteRoute(file, from, to);
  fprintf(file, "</zone></platform>\n");
  fclose(file);
}

static sg_mailbox_t Box(const char *kind, long a, long b, long c)
{
  char name[NAME];
  snprintf(name, sizeof name, "%s.%ld.%ld.%ld", kind, a, b, c);
  return sg_mailbox_by_name(name);
}

static void Send(sg_mailbox_t box, double bytes)
{
  static int nothing;
  sg_comm_detach(sg_mailbox_put_init(box, &nothing, (long)bytes), NULL);
}

/* Receives stand from the beginning, so that messages begin when they are sent. */
static void RunRank(int argc, char *argv[])
{
  const Rank *own = &rank[atoi(argv[argc - 1])];
  sg_comm_t *comm = calloc((size_t)own->count, sizeof *comm);
  void *got;
  for (int i = 0; i < own->count; i++)
    if (!strcmp(own->action[i].word, "receive"))
      comm[i] = sg_mailbox_get_async(Box("message", own->action[i].number, 0, 0), &got);
  for (int i = 0; i < own->count; i++) {
    const Action *action = &own->action[i];
    if (!strcmp(action->word, "work")) sg_actor_sleep_for(action->value);
    if (!strcmp(action->word, "send")) Send(Box("message", action->number, 0, 0), action->value);
    if (!strcmp(action->word, "receive")) sg_comm_wait(comm[i]);
    if (!strcmp(action->word, "come")) sg_sem_release(sum[action->number].come[(int)action->value]);
    for (int b = 0; !strcmp(action->word, "await") && b < sum[action->number].buckets; b++)
      sg_sem_acquire(sum[action->number].awaited[own->device]);
  }
  free(comm);
}

static void RunSum(int argc, char *argv[])
{
  const Sum *own = &sum[atoi(argv[argc - 1])];
  for (int b = 0; b < own->buckets; b++) {
    for (int r = 0; r < own->replicas; r++) sg_sem_acquire(own->come[b]);
    sg_actor_sleep_for(own->within);
    for (int d = 0; d < own->replicas * own->group; d++) sg_sem_release(own->go[d]);
    for (int d = 0; d < own->replicas * own->group; d++) sg_sem_acquire(own->done);
    for (int r = 0; r < own->replicas; r++)
      sg_sem_release(own->awaited[own->device[r * own->group]]);
  }
}

/* Of the devices of one place of all replicas those of its place in the other nodes. */
static int FindPeers(const Sum *own, int d, int peer[])
{
  int place = 0, count = 0;
  for (int e = d % own->group; e < d; e += own->group)
    place += own->device[e] / devices == own->device[d] / devices;
  for (int node = 0; node < nodes; node++) {
    int at = 0;
    for (int e = d % own->group; e < own->replicas * own->group; e += own->group) {
      if (own->device[e] / devices != node || node == own->device[d] / devices) continue;
      if (at++ == place) peer[count++] = e;
    }
  }
  return count;
}

static void RunDevice(int argc, char *argv[])
{
  const int stage = atoi(argv[argc - 2]), d = atoi(argv[argc - 1]);
  const Sum *own = &sum[stage];
  int *peer = calloc((size_t)nodes, sizeof *peer);
  sg_comm_t *comm = calloc((size_t)nodes, sizeof *comm);
  void *got;
  const int count = FindPeers(own, d, peer);
  for (int b = 0; b < own->buckets; b++) {
    sg_sem_acquire(own->go[d]);
    for (int p = 0; p < count; p++)
      comm[p] = sg_mailbox_get_async(Box("sum", stage, peer[p], d), &got);
    for (int p = 0; p < count; p++) Send(Box("sum", stage, d, peer[p]), own->bytes / count);
    for (int p = 0; p < count; p++) sg_comm_wait(comm[p]);
    sg_sem_release(own->done);
  }
  free(comm);
  free(peer);
}

static void Start(void (*run)(int, char **), int device, int one, int other)
{
  char host[NAME], texts[2][NAME], name[] = "actor";
  char *argv[] = {name, texts[0], texts[1], NULL};
  snprintf(host, sizeof host, "d%d", device);
  snprintf(texts[0], NAME, "%d", one);
  snprintf(texts[1], NAME, "%d", other);
  sg_actor_create(name, sg_host_by_name(host), run, 3, argv);
}

static void StartSum(int stage)
{
  Sum *own = &sum[stage];
  const int count = own->replicas * own->group;
  own->go = calloc((size_t)count, sizeof *own->go);
  own->awaited = calloc((size_t)(nodes * devices), sizeof *own->awaited);
  own->done = sg_sem_init(0);
  for (int b = 0; b < own->buckets; b++) own->come[b] = sg_sem_init(0);
  for (int d = 0; d < nodes * devices; d++) own->awaited[d] = sg_sem_init(0);
  for (int d = 0; d < count; d++) own->go[d] = sg_sem_init(0);
  Start(RunSum, own->device[0], 0, stage);
  for (int d = 0; d < count; d++) Start(RunDevice, own->device[d], stage, d);
}

int main(int argc, char **argv)
{
  /* No windows of TCP, and the ways are apart. */
  char name[] = "referee", model[NAME], window[] = "--cfg=network/TCP-gamma:0",
       cross[] = "--cfg=network/crosstraffic:no", log[] = "--log=root.thres:warning",
       stack[] = "--cfg=contexts/stack-size:64";
  char *options[] = {name, model, window, cross, stack, log, NULL};
  int count = sizeof options / sizeof *options - 1;
  if (argc != 3) Fail("usage: referee FILE MODEL");
  snprintf(model, sizeof model, "--cfg=network/model:%s", argv[2]);
  ReadStep(argv[1]);
  WritePlatform("platform.xml");
  simgrid_init(&count, options);
  simgrid_load_platform("platform.xml");
  for (int s = 0; s < MOST_STAGES; s++)
    if (sum[s].replicas > 1) StartSum(s);
  for (int r = 0; r < n_ranks; r++) Start(RunRank, rank[r].device, 0, r);
  simgrid_run();
  printf("%.9g\n", simgrid_get_clock());
  return 0;
}
