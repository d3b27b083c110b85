/* The plan as a small text file: what training needs to repeat a layout. Lines beginning with # are
   for people. */
#include "planimpl.h"
#include "rengacomm.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_VERSION = 1 };

static void WriteText(RengaPlan plan, FILE *file)
{
  fprintf(file, "renga-plan %d\n", FILE_VERSION);
  fprintf(file, "graph 0x%016llx nodes %d\n", (unsigned long long)plan->digest, plan->n_nodes);
  fprintf(file, "batch %lld microbatch %lld\n", (long long)plan->batch,
          (long long)plan->microbatch);
  fprintf(file, "stages %d replicas %d\n", plan->count, plan->stage[0].replicas);
  for (int s = 0; s < plan->count; s++) {
    const RengaPlanStage *stage = &plan->stage[s];
    fprintf(file, "# first node %s; %lld parameters\n", plan->first_name[s],
            (long long)stage->parameters);
    fprintf(file, "stage %d nodes %d %d memory %lld ranks", s, stage->first, stage->last,
            (long long)stage->memory);
    for (int r = plan->offset[s]; r < plan->offset[s + 1]; r++) fprintf(file, " %d", plan->rank[r]);
    fprintf(file, "\n");
  }
  fprintf(file, "end\n");
}

/* Under a temporary name first: a full disk never leaves half a plan under the right name. */
static RengaErrorCode Save(RengaPlan plan, const char *file_name)
{
  char temporary[4096];
  int length = snprintf(temporary, sizeof temporary, "%s.part", file_name);
  RengaCheck(length < (int)sizeof temporary, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "the name of the plan's file is too long: %s", file_name);
  FILE *file = fopen(temporary, "w");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "cannot write the plan to %s: %s",
             temporary, strerror(errno));
  WriteText(plan, file);
  bool whole = !ferror(file);
  whole = !fclose(file) && whole;
  if (!whole || rename(temporary, file_name)) {
    int cause = errno;
    unlink(temporary);
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "cannot write the plan to %s: %s", file_name,
               strerror(cause));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSave - write a plan to a text file

   Collective

   Input:
   . plan - the plan, with its stages
   . file - its name; rank 0 writes

   Notes: holds the digest of the network, so that it is not used for another.
@*/
RengaErrorCode RengaPlanSave(RengaPlan plan, const char *file)
{
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheckPointer(plan);
  RengaCheckPointer(file);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  if (RengaCommGetRank(plan->hdr.owner) == 0) code = Save(plan, file);
  RengaCall(RengaErrorAgree(plan->hdr.comm, code));
  return RENGA_SUCCESS;
}

/* The whole file, ended by a zero; *text is RengaFree'd by the caller. */
static RengaErrorCode ReadText(const char *file_name, int64_t *size, char **text)
{
  FILE *file = fopen(file_name, "r");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "cannot read the plan %s: %s", file_name,
             strerror(errno));
  size_t capacity = 1 << 16, used = 0, got = 0;
  RengaErrorCode code = RengaMalloc(capacity, text);
  while (!code && (got = fread(*text + used, 1, capacity - used - 1, file)) > 0) {
    used += got;
    if (used + 1 == capacity) code = RengaRealloc(capacity *= 2, text);
  }
  fclose(file);
  RengaCall(code);
  (*text)[used] = 0;
  *size = (int64_t)used + 1;
  return RENGA_SUCCESS;
}

/* All ranks get the text that rank 0 reads. */
static RengaErrorCode ShareText(RengaPlan plan, const char *file, char **text)
{
  int64_t size = 0;
  RengaComm comm = plan->hdr.owner;
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaCommGetRank(comm) == 0) code = ReadText(file, &size, text);
  RengaCall(RengaErrorAgree(plan->hdr.comm, code));
  RengaCall(RengaCommBroadcast(comm, &size, sizeof size, 0, "size of the plan's file"));
  if (RengaCommGetRank(comm) != 0) RengaCall(RengaMalloc(size, text));
  RengaCall(RengaCommBroadcast(comm, *text, (size_t)size, 0, "the plan's file"));
  return RENGA_SUCCESS;
}

typedef struct {
  RengaPlan plan;
  const char *file;
  char *rest; /* what is not read yet */
  int line;
} Reader;

/* The next line that is not a comment, without its end; NULL at the end of the text. */
static char *NextLine(Reader *reader)
{
  while (*reader->rest) {
    char *line = reader->rest, *end = strchr(line, '\n');
    reader->rest = end ? end + 1 : line + strlen(line);
    if (end) *end = 0;
    reader->line++;
    if (line[0] != '#' && line[0]) return line;
  }
  return NULL;
}

#define CheckFormat(condition, reader, what)                                                       \
  RengaCheck(condition, (reader)->plan->hdr.comm, RENGA_ERR_FILE_FORMAT, "%s, line %d: %s",        \
             (reader)->file, (reader)->line, what)

static RengaErrorCode ParseStage(Reader *reader, int s, RengaPlanStage *stage, int ranks[])
{
  int number = -1, used = 0;
  long long memory = 0;
  char *line = NextLine(reader);
  CheckFormat(line &&
                  sscanf(line, "stage %d nodes %d %d memory %lld ranks%n", &number, &stage->first,
                         &stage->last, &memory, &used) == 4 &&
                  used && number == s,
              reader,
              "not the line of the next stage: stage S nodes FIRST LAST memory BYTES ranks R …");
  stage->memory = memory;
  line += used;
  for (int r = 0; r < stage->replicas; r++) {
    char *end = line;
    ranks[r] = (int)strtol(line, &end, 10);
    CheckFormat(end > line, reader, "fewer ranks than replicas");
    line = end;
  }
  CheckFormat(!line[strspn(line, " \t\r")], reader, "more ranks than replicas");
  return RENGA_SUCCESS;
}

typedef struct {
  unsigned long long digest;
  long long batch, microbatch;
  int n_nodes, stages, replicas;
} Head;

static RengaErrorCode ParseHead(Reader *reader, Head *head)
{
  int version = 0;
  char *line = NextLine(reader);
  CheckFormat(line && sscanf(line, "renga-plan %d", &version) == 1, reader,
              "not a plan: the first line must be \"renga-plan 1\"");
  CheckFormat(version == FILE_VERSION, reader,
              "a plan of another version: this program reads version 1");
  line = NextLine(reader);
  CheckFormat(line && sscanf(line, "graph %llx nodes %d", &head->digest, &head->n_nodes) == 2,
              reader, "expected: graph DIGEST nodes COUNT");
  line = NextLine(reader);
  CheckFormat(line &&
                  sscanf(line, "batch %lld microbatch %lld", &head->batch, &head->microbatch) == 2,
              reader, "expected: batch SAMPLES microbatch SAMPLES");
  line = NextLine(reader);
  CheckFormat(line && sscanf(line, "stages %d replicas %d", &head->stages, &head->replicas) == 2 &&
                  head->stages >= 1 && head->stages <= head->n_nodes && head->replicas >= 1 &&
                  head->replicas <= 1 << 20,
              reader,
              "expected: stages COUNT replicas COUNT, both at least 1, no more stages than nodes");
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNetwork(Reader *reader, RengaGraph graph, const Head *head)
{
  unsigned long long digest = RengaGraphGetDigest(graph);
  RengaCheck(
      head->digest == digest, reader->plan->hdr.comm, RENGA_ERR_PLAN,
      "%s was made for another network: its digest is 0x%016llx (%d nodes), this network's is "
      "0x%016llx (%d nodes)",
      reader->file, head->digest, head->n_nodes, digest, RengaGraphGetNodeCount(graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseBody(Reader *reader, RengaGraph graph, const Head *head,
                                RengaPlanStage stages[], int ranks[])
{
  for (int s = 0; s < head->stages; s++) {
    stages[s].replicas = head->replicas;
    RengaCall(ParseStage(reader, s, &stages[s], ranks + s * head->replicas));
  }
  const char *end = NextLine(reader);
  CheckFormat(end && !strncmp(end, "end", 3), reader, "expected: end (is the file cut off?)");
  RengaCall(RengaPlanSetStages(reader->plan, graph, head->stages, stages));
  RengaCall(RengaPlanSetRanks(reader->plan, ranks));
  RengaCall(RengaPlanSetBatch(reader->plan, head->batch, head->microbatch));
  return RENGA_SUCCESS;
}

/*@
   RengaPlanLoad - read a plan from a text file

   Collective

   Input:
   . plan - the plan, filled
   . graph - the network it was made for, set up
   . file - its name; rank 0 reads

   Notes: an error names file and line, or the two digests where the plan is another network's.
@*/
RengaErrorCode RengaPlanLoad(RengaPlan plan, RengaGraph graph, const char *file)
{
  char *text = NULL;
  RengaPlanStage *stages = NULL;
  int *ranks = NULL;
  Head head = {0};
  RengaCheckPointer(plan);
  RengaCheckPointer(graph);
  RengaCheckPointer(file);
  RengaCall(ShareText(plan, file, &text));
  Reader reader = {plan, file, text, 0};
  RengaErrorCode code = ParseHead(&reader, &head);
  if (!code) code = CheckNetwork(&reader, graph, &head);
  if (!code) code = RengaMalloc(head.stages, &stages);
  if (!code) code = RengaMalloc((int64_t)head.stages * head.replicas, &ranks);
  if (!code) code = ParseBody(&reader, graph, &head, stages, ranks);
  RengaFree(&ranks);
  RengaFree(&stages);
  RengaFree(&text);
  RengaCall(code);
  return RENGA_SUCCESS;
}
