/* TEST ranks: 4 timeout: 300 */
/* Lists of entries: one with an entry less, or with one in a wrong place, is not proved. Kernels
   run beside exchanges. A collective of a kind that Renga does not know is one row of the table: it
   goes through whole steps, and through one that fails on a rank, beside all others, and changes no
   bit. */
#include "../../src/pipeline/entry/entry.h"
#include "run.h"

enum { BATCH = 10, STEPS = 2, MOST_KINDS = 2 * ENTRY_COUNT };
static const int64_t samples[] = {BATCH, BATCH};
static const char network[] = "gpt:layers=3,hidden=12,heads=2,sequence=4,vocabulary=11";

static RengaErrorCode Build(RengaGraph graph)
{
  RengaCall(RengaGraphLoad(graph, network));
  RengaCall(RengaGraphSetLanes(graph, 2));
  return RENGA_SUCCESS;
}

static const Run runs[] = {{.tensor = 2, .replicas = 2, .level = RENGA_SHARD_PARAMETERS},
                           {.replicas = 4, .level = RENGA_SHARD_GRADIENTS},
                           {.tensor = 2, .replicas = 2}};

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source;
} Parts;

static RengaErrorCode Make(RengaComm comm, const Run *like, Parts *parts)
{
  Run run = *like;
  *parts = (Parts){0};
  run.graph = network;
  run.build = Build;
  run.classes = 11;
  run.device = "cpu";
  run.schedule = "1f1b";
  run.stages = 1;
  run.batch = BATCH;
  run.microbatch = 2;
  run.steps = STEPS;
  run.samples = samples;
  run.shard = 1;
  run.buckets = 6;
  RengaCall(RunBuild(comm, &run, &parts->graph));
  RengaCall(RunPlan(comm, &run, parts->graph, &parts->plan));
  RengaCall(RunPipeline(comm, &run, parts->graph, parts->plan, &parts->pipeline));
  parts->source = (Source){.graph = parts->graph, .classes = run.classes};
  return RENGA_SUCCESS;
}

static RengaErrorCode Free(Parts *parts)
{
  RengaCall(RengaPipelineDestroy(&parts->pipeline));
  RengaCall(RengaPlanDestroy(&parts->plan));
  RengaCall(RengaGraphDestroy(&parts->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Step(Parts *parts)
{
  const RengaBatch batch = {BATCH, RunRead, &parts->source};
  double loss;
  parts->source.step = RengaPipelineGetStepNumber(parts->pipeline);
  RengaCall(RengaPipelineStep(parts->pipeline, &batch, &loss));
  return RENGA_SUCCESS;
}

static bool IsRefused(const Chunk *chunk, const Program *program, ProgramPart part)
{
  FILE *file;
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = RengaPartProve_Private(chunk, program, part);
  EndErrors(file, saved);
  return code == RENGA_ERR_INTERNAL;
}

static void Swap(Entry *a, Entry *b)
{
  const Entry entry = *a;
  *a = *b;
  *b = entry;
}

/* Without the entry. */
static bool IsMissed(const Chunk *chunk, const Program *program, ProgramPart part, int e)
{
  Sequence *sequence = (Sequence *)&program->part[part];
  for (int at = e; at + 1 < sequence->n_entries; at++)
    Swap(&sequence->entry[at], &sequence->entry[at + 1]);
  sequence->n_entries--;
  const bool refused = IsRefused(chunk, program, part);
  sequence->n_entries++;
  for (int at = sequence->n_entries - 1; at > e; at--)
    Swap(&sequence->entry[at], &sequence->entry[at - 1]);
  return refused;
}

/* What ends does so behind the next kernels; what starts does so before those in front of it. */
static bool IsMisplaced(const Chunk *chunk, const Program *program, ProgramPart part, int e)
{
  const Sequence *sequence = &program->part[part];
  const int step = sequence->entry[e].ends ? 1 : -1;
  int other = e + step;
  while (other >= 0 && other < sequence->n_entries && sequence->entry[other].kind != ENTRY_KERNELS)
    other += step;
  if (other < 0 || other >= sequence->n_entries) return false;
  Swap(&sequence->entry[e], &sequence->entry[other]);
  const bool refused = IsRefused(chunk, program, part);
  Swap(&sequence->entry[e], &sequence->entry[other]);
  return refused;
}

/* found: by kind, and whether it ends: faults of each that the proof has found. */
static RengaErrorCode PlantFaults(const Chunk *chunk, const Program *program, ProgramPart part,
                                  int missed[], int misplaced[])
{
  const Sequence *sequence = &program->part[part];
  Expect(RengaPartProve_Private(chunk, program, part) == RENGA_SUCCESS);
  for (int e = 0; e < sequence->n_entries; e++) {
    const Entry *entry = &sequence->entry[e];
    const int kind = 2 * (int)entry->kind + entry->ends;
    if (entry->kind == ENTRY_KERNELS) continue;
    missed[kind] += IsMissed(chunk, program, part, e);
    misplaced[kind] += IsMisplaced(chunk, program, part, e);
  }
  Expect(RengaPartProve_Private(chunk, program, part) == RENGA_SUCCESS);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckProof(RengaComm comm)
{
  enum { STARTS, ENDS };
  int missed[MOST_KINDS] = {0}, misplaced[MOST_KINDS] = {0};
  Parts parts;
  RengaCall(Make(comm, &runs[0], &parts));
  RengaCall(Step(&parts));
  const Chunk *chunk = &parts.pipeline->rank->chunk[0];
  for (int p = 0; p < chunk->programs->count; p++)
    for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++)
      if (chunk->programs->row[p]->kind == PROGRAM_TRAINING)
        RengaCall(PlantFaults(chunk, chunk->programs->row[p], part, missed, misplaced));
  for (int end = STARTS; end <= ENDS; end++) {
    Expect(missed[2 * ENTRY_SUM + end] > 0 && misplaced[2 * ENTRY_SUM + end] > 0);
    Expect(missed[2 * ENTRY_EXCHANGE + end] > 0);
  }
  Expect(misplaced[2 * ENTRY_EXCHANGE + ENDS] > 0);
  Expect(missed[2 * ENTRY_GATHER + ENDS] > 0 && misplaced[2 * ENTRY_GATHER + ENDS] > 0);
  Expect(misplaced[2 * ENTRY_GATHER + STARTS] > 0);
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* Exchanges of a backward that are under way while kernels run: the products that give gradients of
   parameters. */
static RengaErrorCode CheckBeside(RengaComm comm)
{
  Parts parts;
  bool under_way = false;
  int beside = 0;
  RengaCall(Make(comm, &runs[2], &parts));
  const Program *program = parts.pipeline->rank->chunk[0].programs->row[0];
  Expect(program->kind == PROGRAM_TRAINING && program->listed);
  const Sequence *sequence = &program->part[PART_BACKWARD];
  for (int e = 0; e < sequence->n_entries; e++) {
    if (sequence->entry[e].kind == ENTRY_EXCHANGE) under_way = !sequence->entry[e].ends;
    beside += under_way && sequence->entry[e].kind == ENTRY_KERNELS;
  }
  Expect(beside >= 2 * 3 - 1); /* two exchanges of each layer, and it may lack what comes first */
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* A collective of a test: all replicas say how often they have come here, beside their kernels. */
static struct {
  int64_t rounds, most, bad;
  RengaRequest request;
} toy;

static RengaErrorCode ListToy(const Chunk *chunk, const Program *program, ProgramPart part,
                              EntryList *list)
{
  const Entry starts = {.kind = ENTRY_OUTSIDE, .first = 0, .bucket = -1};
  const Entry ends = {
      .kind = ENTRY_OUTSIDE, .ends = true, .first = program->part[part].count, .bucket = -1};
  if (program->kind != PROGRAM_TRAINING || part == PART_CONSTANT || chunk->replicas == 1)
    return RENGA_SUCCESS;
  RengaCall(RengaEntryAdd_Private(list, starts));
  RengaCall(RengaEntryAdd_Private(list, ends));
  return RENGA_SUCCESS;
}

static RengaErrorCode StartToy(const EntryTask *task, Entry *entry)
{
  (void)entry;
  RengaCall(RengaPipelineSettle_Private(task->chunk->pipeline, task->pass, true));
  if (task->pass->refused) return RENGA_SUCCESS;
  toy.most = ++toy.rounds;
  RengaCall(RengaCommStartLargest(task->chunk->group, 1, &toy.most, &toy.request));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndToy(const EntryTask *task, Entry *entry)
{
  (void)entry;
  RengaCall(RengaCommWait(task->chunk->group, &toy.request, "the toy of a test"));
  toy.bad += toy.most != toy.rounds;
  return RENGA_SUCCESS;
}

static const EntryRule toy_rule = {
    .name = "toy", .list = ListToy, .start = StartToy, .end = EndToy};

static RengaErrorCode ReadBadly(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  if (first > 0) return RENGA_ERR_NUMERIC; /* not that of the first micro-batch */
  return RunRead(user, field, first, count, buffer);
}

/* Steps, of which one fails on the last rank and is made again. */
static RengaErrorCode RunWithFault(RengaComm comm, const Run *run, uint64_t *digest)
{
  Parts parts;
  FILE *file;
  double loss;
  RengaCall(Make(comm, run, &parts));
  RengaCall(Step(&parts));
  const bool here = RengaCommGetRank(comm) == RengaCommGetSize(comm) - 1;
  const RengaBatch batch = {BATCH, here ? ReadBadly : RunRead, &parts.source};
  const int saved = BeginErrors(&file);
  Expect(RengaPipelineStep(parts.pipeline, &batch, &loss) == RENGA_ERR_NUMERIC);
  EndErrors(file, saved);
  RengaCall(Step(&parts));
  RengaCall(RengaPipelineGetDigest(parts.pipeline, digest));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* Replicas have unequal numbers of micro-batches: those that have none left take part all the
   same. */
static RengaErrorCode CheckToy(RengaComm comm)
{
  uint64_t without, with;
  RengaCall(RunWithFault(comm, &runs[1], &without));
  RengaEntrySetOutside_Private(&toy_rule);
  RengaCall(RunWithFault(comm, &runs[1], &with));
  RengaEntrySetOutside_Private(NULL);
  Expect(with == without && toy.rounds > 0 && toy.bad == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckProof(comm));
  RengaCall(CheckBeside(comm));
  RengaCall(CheckToy(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
