/* A plan from its text file: words and numbers in a fixed order; whatever else the file holds is an
   error that names its line. */
#include "planimpl.h"
#include "renga/private/number.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  RengaPlan plan;
  const char *file;
  char *rest; /* what is not read yet */
  char *held; /* a line that was looked at and not taken */
  int version, line;
  unsigned long long digest;
  int n_nodes, lanes[RENGA_LANE_KINDS];
  RengaPlanStage *stage;
  const char **name;                      /* [n_stages] of first nodes, in the text */
  int n_stages, n_places, n_ranks, *rank; /* no ranks: in order */
  int n_kept, *kept_by;                   /* names that stages keep, and which stages do */
  const char **kept;
  int64_t batch, microbatch, leaf;
} PlanReader;

/* The next line that is not a comment, without its end and what is blank before it; NULL at the end
   of the text. */
static char *NextLine(PlanReader *reader)
{
  char *held = reader->held;
  reader->held = NULL;
  if (held) return held;
  while (*reader->rest) {
    char *line = reader->rest, *end = strchr(line, '\n');
    reader->rest = end ? end + 1 : line + strlen(line);
    if (end) *end = 0;
    reader->line++;
    while (RengaIsSpace(*line)) line++;
    if (*line && *line != '#') return line;
  }
  return NULL;
}

/* These take something off the front of *text, or say false. */
static bool TakePlanWord(char **text, const char *word)
{
  char *c = *text + strspn(*text, " \t");
  const size_t length = strlen(word);
  if (strncmp(c, word, length) || !strchr(" \t\r", c[length])) return false;
  *text = c + length;
  return true;
}

static bool TakeWhole(char **text, int64_t least, int64_t most, int64_t *number)
{
  char *end;
  errno = 0;
  const long long got = strtoll(*text, &end, 10);
  if (end == *text || errno || got < least || got > most) return false;
  *text = end;
  *number = got;
  return true;
}

static bool TakeInt(char **text, int least, int *number)
{
  int64_t got = 0;
  if (!TakeWhole(text, least, INT_MAX, &got)) return false;
  *number = (int)got;
  return true;
}

static bool TakeReal(char **text, double *number)
{
  char *end;
  const double got = RengaReadReal(*text, &end);
  if (end == *text || !isfinite(got) || got < 0) return false;
  *text = end;
  *number = got;
  return true;
}

static bool TakeEnd(char *text)
{
  return !text[strspn(text, " \t\r")];
}

/* Whether the next line begins with the word: lines that a file may leave out. */
static bool NextIs(PlanReader *reader, const char *word)
{
  char *at = reader->held = NextLine(reader);
  return at && TakePlanWord(&at, word);
}

#define CheckFormat(condition, reader, what)                                                       \
  RengaCheck(condition, (reader)->plan->hdr.comm, RENGA_ERR_FILE_FORMAT, "%s, line %d: %s",        \
             (reader)->file, (reader)->line, what)

static RengaErrorCode ParseVersion(PlanReader *reader)
{
  char *line = NextLine(reader);
  CheckFormat(line && TakePlanWord(&line, "renga-plan") && TakeInt(&line, 0, &reader->version) &&
                  TakeEnd(line),
              reader, "not a plan: the first line must be \"renga-plan 5\"");
  RengaCheck(
      reader->version >= RENGA_PLAN_FILE_OLDEST && reader->version <= RENGA_PLAN_FILE_VERSION,
      reader->plan->hdr.comm, RENGA_ERR_FILE_FORMAT,
      "%s, line %d: a plan of another version, %d: this program reads versions %d to %d; make the "
      "plan anew",
      reader->file, reader->line, reader->version, RENGA_PLAN_FILE_OLDEST, RENGA_PLAN_FILE_VERSION);
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseNetwork(PlanReader *reader, RengaGraph graph)
{
  reader->lanes[RENGA_LANES_OF_HEADS] = 1;
  reader->lanes[RENGA_LANES_OF_TOKENS] = reader->version >= RENGA_PLAN_FILE_CONTEXT;
  if (graph && !NextIs(reader, "graph")) {
    reader->digest = RengaGraphGetDigest(graph);
    reader->n_nodes = RengaGraphGetNodeCount(graph);
    RengaPlanGetLanes_Private(graph, reader->lanes);
    return RENGA_SUCCESS;
  }
  char *line = NextLine(reader), *end;
  bool good = line && TakePlanWord(&line, "graph");
  if (good) {
    reader->digest = strtoull(line, &end, 16);
    good = end > line;
    line = end;
  }
  good = good && TakePlanWord(&line, "nodes") && TakeInt(&line, 1, &reader->n_nodes);
  for (int k = 0; k < RENGA_LANE_KINDS && good; k++)
    good =
        !TakePlanWord(&line, RengaPlanLaneWords_Private[k]) || TakeInt(&line, 1, &reader->lanes[k]);
  CheckFormat(good && TakeEnd(line), reader,
              "expected: graph DIGEST nodes COUNT, unless the network is given (-graph); after it "
              "nothing, or lanes COUNT, token_lanes COUNT, or both");
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseBatch(PlanReader *reader)
{
  char *line = NextLine(reader);
  CheckFormat(line && TakePlanWord(&line, "batch") &&
                  TakeWhole(&line, 1, INT64_MAX, &reader->batch) &&
                  TakePlanWord(&line, "microbatch") &&
                  TakeWhole(&line, 1, reader->batch, &reader->microbatch),
              reader, "expected: batch SAMPLES microbatch SAMPLES, at least 1 and no more than it");
  reader->leaf = 1;
  const bool leaf = TakePlanWord(&line, "leaf");
  CheckFormat((!leaf || TakeWhole(&line, 1, INT64_MAX, &reader->leaf)) && TakeEnd(line), reader,
              "expected after the micro-batch: nothing, or leaf MICROBATCHES, at least 1");
  return RENGA_SUCCESS;
}

/* A word that nobody knows beforehand: cut off where it ends; NULL: there is none. */
static char *TakeAnyWord(char **text)
{
  char *word = *text + strspn(*text, " \t"), *end = word + strcspn(word, " \t\r");
  if (end == word || !*end) return NULL;
  *end = 0;
  *text = end + 1;
  return word;
}

static RengaErrorCode ParseSchedule(PlanReader *reader)
{
  char *line = NextLine(reader), *type = NULL;
  double eager = 0;
  if (line && TakePlanWord(&line, "schedule")) type = TakeAnyWord(&line);
  CheckFormat(type && TakePlanWord(&line, "eager") && TakeReal(&line, &eager) && TakeEnd(line),
              reader, "expected: schedule TYPE eager COUNT; TYPE may be open");
  RengaCall(RengaPlanSetSchedule(reader->plan, strcmp(type, "open") ? type : NULL));
  RengaCall(RengaPlanSetEager(reader->plan, eager));
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseOrigin(PlanReader *reader)
{
  char *line = NextLine(reader), *costs = NULL;
  int64_t memory = 0;
  if (line && TakePlanWord(&line, "costs")) costs = TakeAnyWord(&line);
  CheckFormat(costs && TakePlanWord(&line, "memory") && TakeWhole(&line, 0, INT64_MAX, &memory) &&
                  TakePlanWord(&line, "machine"),
              reader, "expected: costs TYPE memory BYTES machine NAME");
  line += strspn(line, " \t");
  RengaCall(RengaPlanSetOrigin(reader->plan, strcmp(line, "unknown") ? line : NULL,
                               strcmp(costs, "unknown") ? costs : NULL, memory));
  return RENGA_SUCCESS;
}

static RengaErrorCode ParsePrediction(PlanReader *reader)
{
  char *line = NextLine(reader);
  RengaPlanPrediction p = {0};
  CheckFormat(line && TakePlanWord(&line, "predicted") && TakeReal(&line, &p.step) &&
                  TakeReal(&line, &p.pipeline) && TakeReal(&line, &p.reduce) &&
                  TakeReal(&line, &p.update) && TakePlanWord(&line, "bound") &&
                  TakeReal(&line, &p.bound) && TakePlanWord(&line, "bubble") &&
                  TakeReal(&line, &p.bubble) && TakeEnd(line),
              reader, "expected: predicted STEP PIPELINE REDUCE UPDATE bound SECONDS bubble SHARE");
  RengaCall(RengaPlanSetPrediction(reader->plan, &p));
  return RENGA_SUCCESS;
}

static bool ParseMemory(char *line, RengaPlanStage *stage)
{
  RengaPlanMemory *p = &stage->parts;
  int64_t *const parts[RENGA_PLAN_PARTS] = {&p->parameters, &p->gradients, &p->optimizer, &p->saved,
                                            &p->temporary,  &p->messages,  &p->inputs};
  if (!line || !TakePlanWord(&line, "memory") || !TakeWhole(&line, 0, INT64_MAX, &stage->memory) ||
      !TakePlanWord(&line, "parts"))
    return false;
  for (int i = 0; i < RENGA_PLAN_PARTS; i++)
    if (!TakeWhole(&line, 0, INT64_MAX, parts[i])) return false;
  return TakeEnd(line);
}

/* "3" or "3-7" into rank[]; false where that is not what stands there or does not fit. */
static bool TakeRanks(char **line, int room, int rank[], int *taken)
{
  int first = 0, last = 0;
  if (!TakeInt(line, 0, &first)) return false;
  last = first;
  if (**line == '-') {
    (*line)++;
    if (!RengaIsDigit(**line) || !TakeInt(line, first, &last)) return false;
  }
  if (last - first >= room) return false;
  for (int r = first; r <= last; r++) rank[(*taken)++] = r;
  return true;
}

static RengaErrorCode ParseRanks(PlanReader *reader, int places)
{
  char *line = NextLine(reader);
  CheckFormat(line && TakePlanWord(&line, "ranks"), reader, "expected: ranks R … of this stage");
  RengaCall(RengaRealloc(reader->n_ranks + places, &reader->rank));
  for (int taken = 0; taken < places;)
    CheckFormat(TakeRanks(&line, places - taken, reader->rank + reader->n_ranks, &taken), reader,
                "not as many ranks (R or R-R) as the shape of the stage has");
  CheckFormat(TakeEnd(line), reader, "more ranks than the shape of the stage has");
  reader->n_ranks += places;
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseFirst(PlanReader *reader, int s)
{
  char *line = NextLine(reader);
  CheckFormat(line && TakePlanWord(&line, "first"), reader, "expected: first NODE");
  reader->name[s] = line + strspn(line, " \t");
  return RENGA_SUCCESS;
}

/* One line for each value that the stage keeps. */
static RengaErrorCode ParseKept(PlanReader *reader, int s)
{
  char *line = NextLine(reader);
  CheckFormat(line && TakePlanWord(&line, "keeps"), reader, "expected: keeps VALUE");
  line += strspn(line, " \t");
  line[strcspn(line, "\r")] = 0;
  const int n = reader->n_kept;
  if ((n & (n - 1)) == 0) {
    RengaCall(RengaRealloc(2 * n + 1, &reader->kept));
    RengaCall(RengaRealloc(2 * n + 1, &reader->kept_by));
  }
  reader->kept[n] = line;
  reader->kept_by[reader->n_kept++] = s;
  return RENGA_SUCCESS;
}

static RengaErrorCode StoreKept(PlanReader *reader)
{
  for (int first = 0, last; first < reader->n_kept; first = last) {
    for (last = first; last < reader->n_kept && reader->kept_by[last] == reader->kept_by[first];)
      last++;
    RengaCall(
        RengaPlanSetKept(reader->plan, reader->kept_by[first], last - first, reader->kept + first));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseSize(PlanReader *reader, RengaPlanStage *stage)
{
  char *line = NextLine(reader);
  CheckFormat(line && TakePlanWord(&line, "size") &&
                  TakeWhole(&line, 0, INT64_MAX, &stage->parameters) &&
                  TakeReal(&line, &stage->forward_flops) && TakeReal(&line, &stage->receives) &&
                  TakeReal(&line, &stage->sends) && TakeEnd(line),
              reader, "expected: size PARAMETERS FLOPS BYTES BYTES");
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseSeconds(PlanReader *reader, RengaPlanStage *stage)
{
  char *line = NextLine(reader);
  CheckFormat(line && TakePlanWord(&line, "seconds") && TakeReal(&line, &stage->forward_seconds) &&
                  TakeReal(&line, &stage->backward_seconds) && TakeEnd(line),
              reader, "expected: seconds FORWARD BACKWARD");
  return RENGA_SUCCESS;
}

/* A word that may end the line, copied. */
static bool TakeValue(char **text, size_t size, char word[])
{
  const char *from = *text + strspn(*text, " \t");
  const size_t length = strcspn(from, " \t\r");
  if (!length || length >= size) return false;
  memcpy(word, from, length);
  word[length] = 0;
  *text += (size_t)(from - *text) + length;
  return true;
}

/* Names and values of fields in their order; only replicas must be there. Before version 5 the
   ranks that share out lanes of tokens, of which the file says nothing, were called tensor's. */
static bool TakeShape(const PlanReader *reader, char **line, RengaStageShape *shape)
{
  const bool older = reader->version < RENGA_PLAN_FILE_CONTEXT;
  char word[32];
  *shape = RengaStageShapePlain(0);
  for (int f = 0; f < RENGA_PLAN_SHAPE_FIELDS; f++) {
    const char *name = RengaPlanShapeFieldName_Private(f);
    if (!TakePlanWord(line, older && !strcmp(name, "context") ? "sequence" : name)) continue;
    if (!TakeValue(line, sizeof word, word) || !RengaPlanSetShapeField_Private(shape, f, word))
      return false;
  }
  if (older && reader->lanes[RENGA_LANES_OF_HEADS] == 1 && shape->sequence == 1) {
    shape->sequence = shape->tensor;
    shape->tensor = 1;
  }
  return shape->replicas > 0;
}

/* Of version 3. */
static bool TakeOldShape(char **line, RengaStageShape *shape)
{
  int64_t recompute = 0;
  *shape = RengaStageShapePlain(0);
  if (!TakePlanWord(line, "replicas") || !TakeInt(line, 1, &shape->replicas) ||
      (TakePlanWord(line, "recompute") && !TakeWhole(line, 0, 1, &recompute)))
    return false;
  if (recompute) shape->saved = RENGA_SAVED_RECOMPUTE;
  return true;
}

/* Only the first line must be there: the others are what a planner writes of it. */
static RengaErrorCode ParseStage(PlanReader *reader, int s, RengaPlanStage *stage)
{
  int number = -1;
  char *line = NextLine(reader);
  const bool old = reader->version < RENGA_PLAN_FILE_SHAPES;
  const bool good =
      line && TakePlanWord(&line, "stage") && TakeInt(&line, 0, &number) && number == s &&
      TakePlanWord(&line, "nodes") && TakeInt(&line, 0, &stage->first) &&
      TakeInt(&line, 0, &stage->last) &&
      (old ? TakeOldShape(&line, &stage->shape) : TakeShape(reader, &line, &stage->shape)) &&
      RengaPlanCountRanks_Private(&stage->shape) <= RENGA_PLAN_RANKS_MOST - reader->n_places &&
      TakeEnd(line);
  CheckFormat(good, reader,
              old ? "not the line of the next stage: stage S nodes FIRST LAST replicas R "
                    "recompute 0|1"
                  : "not the line of the next stage: stage S nodes FIRST LAST replicas R tensor T "
                    "context C shard WHAT saved HOW precision P chunks N, of which all after "
                    "replicas may be left out");
  const int places = (int)RengaPlanCountRanks_Private(&stage->shape);
  reader->n_places += places;
  reader->name[s] = "";
  if (NextIs(reader, "first")) RengaCall(ParseFirst(reader, s));
  if (NextIs(reader, "size")) RengaCall(ParseSize(reader, stage));
  if (NextIs(reader, "seconds")) RengaCall(ParseSeconds(reader, stage));
  if (NextIs(reader, "memory"))
    CheckFormat(ParseMemory(NextLine(reader), stage), reader,
                "expected: memory BYTES parts, then 7 numbers");
  if (NextIs(reader, "ranks")) RengaCall(ParseRanks(reader, places));
  while (NextIs(reader, "keeps")) RengaCall(ParseKept(reader, s));
  return RENGA_SUCCESS;
}

/* Of a network that is not at hand. */
static RengaErrorCode StoreStages(PlanReader *reader)
{
  RengaCall(
      RengaPlanCheckStages_Private(reader->plan, reader->n_nodes, reader->n_stages, reader->stage));
  RengaCall(RengaPlanStore_Private(reader->plan, reader->digest, reader->n_nodes, reader->n_stages,
                                   reader->stage));
  memcpy(reader->plan->lanes, reader->lanes, sizeof reader->lanes);
  for (int s = 0; s < reader->n_stages; s++)
    RengaCall(RengaStringCopy(reader->name[s], &reader->plan->first_name[s]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseStages(PlanReader *reader, RengaGraph graph)
{
  char *line = NextLine(reader);
  CheckFormat(line && TakePlanWord(&line, "stages") && TakeInt(&line, 1, &reader->n_stages) &&
                  reader->n_stages <= reader->n_nodes &&
                  (size_t)reader->n_stages <= strlen(reader->rest) && TakeEnd(line),
              reader, "expected: stages COUNT, at least 1, and no more than nodes");
  RengaCall(RengaMalloc(reader->n_stages, &reader->stage));
  RengaCall(RengaMalloc(reader->n_stages, &reader->name));
  for (int s = 0; s < reader->n_stages; s++) RengaCall(ParseStage(reader, s, &reader->stage[s]));
  RengaCall(graph ? RengaPlanSetStages(reader->plan, graph, reader->n_stages, reader->stage)
                  : StoreStages(reader));
  RengaCall(StoreKept(reader));
  if (graph) RengaCall(RengaPlanCheckKept_Private(reader->plan, graph));
  CheckFormat(!reader->n_ranks || reader->n_ranks == reader->n_places, reader,
              "some stages have a line of ranks before this, and others have none");
  if (reader->n_ranks) RengaCall(RengaPlanSetRanks(reader->plan, reader->rank));
  RengaCall(RengaPlanSetBatch(reader->plan, reader->batch, reader->microbatch));
  RengaCall(RengaPlanSetLeaf(reader->plan, reader->leaf));
  RengaCall(RengaPlanCheckLeaves_Private(reader->plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseReasons(PlanReader *reader)
{
  char *line = NextLine(reader), *colon;
  for (; line && TakePlanWord(&line, "reason"); line = NextLine(reader)) {
    line += strspn(line, " \t");
    colon = strstr(line, ": ");
    CheckFormat(colon, reader, "expected: reason TOPIC: SENTENCE");
    *colon = 0;
    RengaCall(RengaPlanAddReason(reader->plan, line, colon + 2));
  }
  CheckFormat(line && TakePlanWord(&line, "end") && TakeEnd(line), reader,
              "expected: end (is the file cut off?)");
  CheckFormat(!NextLine(reader), reader, "something after the end");
  return RENGA_SUCCESS;
}

static RengaErrorCode Parse(PlanReader *reader, RengaGraph graph)
{
  RengaCall(ParseVersion(reader));
  RengaCall(ParseNetwork(reader, graph));
  if (graph)
    RengaCall(RengaPlanCheckNetwork_Private(graph, reader->file, reader->digest, reader->n_nodes,
                                            reader->lanes));
  RengaCall(ParseBatch(reader));
  if (NextIs(reader, "schedule")) RengaCall(ParseSchedule(reader));
  if (NextIs(reader, "costs")) RengaCall(ParseOrigin(reader));
  if (NextIs(reader, "predicted")) RengaCall(ParsePrediction(reader));
  RengaCall(ParseStages(reader, graph));
  RengaCall(ParseReasons(reader));
  return RENGA_SUCCESS;
}

/* What was read becomes the plan's; what the plan held goes with the other. */
static void ExchangeText(RengaPlan plan, RengaPlan read)
{
  const struct _p_RengaPlan old = *plan;
  *plan = *read;
  *read = old;
  read->hdr = plan->hdr;
  plan->hdr = old.hdr;
  plan->hdr.state = read->hdr.state;
  plan->available = old.available;
  plan->memory_limit = old.memory_limit;
}

/*@
   RengaPlanLoad - read a plan from a text file

   Collective

   Input:
   . plan - the plan; what it held before is replaced, and kept where the file is refused
   . graph - the network it was made for, set up; NULL: not at hand, the plan is only looked at
   . file - its name; rank 0 reads

   Errors: RENGA_ERR_ORDER where the graph is not set up; RENGA_ERR_FILE_OPEN where the file
   cannot be read; RENGA_ERR_FILE_FORMAT with the line that is wrong; RENGA_ERR_PLAN for a plan
   of another network. All ranks have the error.

   Notes: an error names file and line, or the two digests where the plan is another network's.
   RengaPlanCheck() says whether there are enough ranks.

   See also: RengaPlanSave(), RengaPlanCheck()
@*/
RengaErrorCode RengaPlanLoad(RengaPlan plan, RengaGraph graph, const char *file)
{
  char *text = NULL;
  RengaCheckPointers(plan, file);
  RengaCall(RengaPlanShareText_Private(plan, file, &text));
  PlanReader reader = {.file = file, .rest = text};
  RengaErrorCode code = RengaPlanCreate(plan->hdr.owner, &reader.plan);
  if (!code) code = Parse(&reader, graph);
  if (!code) ExchangeText(plan, reader.plan);
  RengaPlanDestroy(&reader.plan);
  RengaFree(&reader.rank);
  RengaFree(&reader.stage);
  RengaFree(&reader.name);
  RengaFree(&reader.kept);
  RengaFree(&reader.kept_by);
  RengaFree(&text);
  RengaCall(code);
  return RENGA_SUCCESS;
}
