/* TEST ranks: 1 2 */
/* A plan's file keeps all of an uneven plan to the last bit; a damaged one is refused or is a plan
   that holds together. */
#include "network.h"
#include "renga/private/plan.h"

enum { N_MUTATIONS = 3000, MOST_TEXT = 1 << 14 };
static const char file_name[] = "plan-file.txt", broken_name[] = "plan-file-broken.txt";

static RengaPlan MakePlan(RengaComm comm, RengaGraph graph)
{
  const int one = TestFind(graph, "Linear", 1), two = TestFind(graph, "Linear", 2);
  const int ranks[] = {4, 5, 6, 2, 0, 1};
  RengaStageShape again = RengaStageShapePlain(1);
  again.saved = RENGA_SAVED_RECOMPUTE;
  const RengaPlanStage stages[] = {
      {.first = 0,
       .last = one,
       .shape = RengaStageShapePlain(3),
       .forward_seconds = 0.1,
       .backward_seconds = 1e-300},
      {.first = one, .last = two, .shape = again, .memory = INT64_MAX},
      {.first = two,
       .last = RengaGraphGetNodeCount(graph),
       .shape = RengaStageShapePlain(2),
       .memory = 28,
       .parts = {1, 2, 3, 4, 5, 6, 7}},
  };
  const char *const kept[] = {
      RengaGraphGetValue(graph, RengaGraphGetNode(graph, two - 1)->out[0])->name,
      RengaGraphGetValue(graph, RengaGraphGetNode(graph, one)->out[0])->name};
  const RengaPlanPrediction prediction = {1.0 / 3, 0.1, 0.2, 0.3, 0.25, 0.125};
  RengaPlan plan;
  RengaCallAbort(RengaPlanCreate(comm, &plan));
  RengaCallAbort(RengaPlanSetStages(plan, graph, 3, stages));
  const char *const missing[] = {kept[0], NULL};
  TestError(RengaPlanSetKept(plan, 1, -1, kept), RENGA_ERR_ARGUMENT, "stage 1 keeps -1 values");
  TestError(RengaPlanSetKept(plan, 1, 2, NULL), RENGA_ERR_ARGUMENT, "names");
  TestError(RengaPlanSetKept(plan, 1, 2, missing), RENGA_ERR_ARGUMENT, "and 1 is NULL");
  RengaCallAbort(RengaPlanSetKept(plan, 1, 2, kept));
  RengaCallAbort(RengaPlanSetRanks(plan, ranks));
  RengaCallAbort(RengaPlanSetBatch(plan, 20, 4));
  RengaCallAbort(RengaPlanSetLeaf(plan, 2));
  RengaCallAbort(RengaPlanSetSchedule(plan, "1f1b"));
  RengaCallAbort(RengaPlanSetEager(plan, 1.0 / 3));
  RengaCallAbort(RengaPlanSetOrigin(plan, "a machine, with\nits nodes", "measured", 1 << 30));
  RengaCallAbort(RengaPlanSetPrediction(plan, &prediction));
  RengaCallAbort(RengaPlanAddReason(plan, "limit", "two\nlines: of text"));
  RengaCallAbort(RengaPlanAddReason(plan, "runner-up", "none"));
  return plan;
}

static void CheckStage(RengaPlan plan, RengaPlan read, int s)
{
  const RengaPlanStage *a = RengaPlanGetStage(plan, s), *b = RengaPlanGetStage(read, s);
  TestTrue(a->first == b->first && a->last == b->last);
  TestTrue(RengaStageShapeEqual(&a->shape, &b->shape) && a->memory == b->memory);
  TestTrue(a->forward_seconds == b->forward_seconds);
  TestTrue(a->backward_seconds == b->backward_seconds);
  TestTrue(!memcmp(&a->parts, &b->parts, sizeof a->parts) && a->parameters == b->parameters);
  for (int r = 0; r < a->shape.replicas; r++)
    TestTrue(RengaPlanGetRank(plan, s, r) == RengaPlanGetRank(read, s, r));
}

static void CheckKept(RengaPlan plan, RengaPlan read)
{
  const char *const *a, *const *b;
  int count, number;
  for (int s = 0; s < 3; s++) {
    RengaCallAbort(RengaPlanGetKept(plan, s, &number, &a));
    RengaCallAbort(RengaPlanGetKept(read, s, &count, &b));
    TestTrue(count == number && count == (s == 1 ? 2 : 0));
    for (int k = 0; k < count; k++) TestTrue(!strcmp(a[k], b[k]));
  }
}

static void CheckEqual(RengaPlan plan, RengaPlan read)
{
  RengaPlanPrediction a, b;
  const char *schedule, *topic, *sentence, *machine, *costs;
  double eager;
  int64_t memory;
  TestTrue(RengaPlanGetStageCount(read) == 3 && RengaPlanGetRankCount(read) == 6);
  for (int s = 0; s < 3; s++) CheckStage(plan, read, s);
  CheckKept(plan, read);
  TestTrue(RengaPlanGetLeaf(read) == 2);
  RengaCallAbort(RengaPlanGetPrediction(plan, &a));
  RengaCallAbort(RengaPlanGetPrediction(read, &b));
  TestTrue(!memcmp(&a, &b, sizeof a));
  RengaCallAbort(RengaPlanGetSchedule(read, &schedule));
  TestTrue(!strcmp(schedule, "1f1b"));
  RengaCallAbort(RengaPlanGetEager(read, &eager));
  TestTrue(eager == 1.0 / 3);
  int lanes = 0;
  RengaCallAbort(RengaPlanGetLanes(read, &lanes));
  TestTrue(lanes == 1);
  RengaCallAbort(RengaPlanGetTokenLanes(read, &lanes));
  TestTrue(lanes == 1);
  RengaCallAbort(RengaPlanGetOrigin(read, &machine, &costs, &memory));
  TestTrue(!strcmp(machine, "a machine, with its nodes") && !strcmp(costs, "measured"));
  TestTrue(memory == 1 << 30);
  RengaCallAbort(RengaPlanGetReason(read, 0, &topic, &sentence));
  TestTrue(!strcmp(topic, "limit") && !strcmp(sentence, "two lines: of text"));
  RengaCallAbort(RengaPlanGetReason(read, 1, &topic, &sentence));
  TestTrue(!strcmp(topic, "runner-up") && !strcmp(sentence, "none"));
  RengaCallAbort(RengaPlanGetReason(read, 2, &topic, &sentence));
  TestTrue(!topic && !sentence);
}

static void CheckRoundTrip(RengaComm comm, RengaGraph graph, RengaPlan plan)
{
  RengaPlan read;
  char first[MOST_TEXT], second[MOST_TEXT];
  RengaCallAbort(RengaPlanSave(plan, file_name));
  RengaCallAbort(RengaPlanCreate(comm, &read));
  for (int twice = 0; twice < 2; twice++) {
    RengaCallAbort(RengaPlanLoad(read, graph, file_name));
    CheckEqual(plan, read);
  }
  RengaCallAbort(RengaCommBarrier(comm, "the first text"));
  TestReadFile(file_name, sizeof first, first);
  RengaCallAbort(RengaCommBarrier(comm, "the second text"));
  RengaCallAbort(RengaPlanSave(read, file_name));
  TestReadFile(file_name, sizeof second, second);
  TestTrue(!strcmp(first, second) && strstr(first, "  ranks 4-6\n"));
  RengaCallAbort(RengaPlanDestroy(&read));
}

static uint32_t state = 12345;

static int Draw(int below)
{
  state = state * 1664525u + 1013904223u;
  return (int)((state >> 8) % (uint32_t)below);
}

/* A byte changed, a stretch left out or doubled, or a number made huge. */
static void Mutate(char text[MOST_TEXT])
{
  static const char *const numbers[] = {"-1", "99999999999999999999", "0-16777215", "nan", "1e400",
                                        "0",  "2147483647",           "-",          ":",   "\n"};
  char old[MOST_TEXT];
  const int length = (int)strlen(text), at = Draw(length),
            most = length - at < 40 ? length - at : 40;
  memcpy(old, text, (size_t)length + 1);
  switch (Draw(4)) {
  case 0:
    text[at] = (char)(1 + Draw(255));
    break;
  case 1:
    snprintf(text + at, (size_t)(MOST_TEXT - at), "%s", old + at + Draw(most + 1));
    break;
  case 2:
    snprintf(text + at, (size_t)(MOST_TEXT - at), "%.*s%s", most, old + at, old + at);
    break;
  default: {
    const int digits = (int)strspn(old + at, "0123456789");
    snprintf(text + at, (size_t)(MOST_TEXT - at), "%s%s", numbers[Draw(10)], old + at + digits);
  }
  }
}

static RengaErrorCode LoadQuietly(RengaPlan plan, RengaGraph graph)
{
  FILE *errors;
  const int saved = BeginErrors(&errors);
  const RengaErrorCode code = RengaPlanLoad(plan, graph, broken_name);
  EndErrors(errors, saved);
  return code;
}

/* Whatever is read is a plan, which the runtime may not be able to execute. */
static void CheckQuietly(RengaPlan plan, RengaGraph graph)
{
  FILE *errors;
  const int saved = BeginErrors(&errors);
  const RengaErrorCode code = RengaPlanCheck(plan, graph, 0);
  EndErrors(errors, saved);
  TestTrue(code == RENGA_SUCCESS || code == RENGA_ERR_SUPPORT);
}

static void CheckMutations(RengaGraph graph, RengaPlan plan)
{
  char text[MOST_TEXT], mutated[MOST_TEXT];
  int refused = 0;
  TestReadFile(file_name, sizeof text, text);
  for (int m = 0; m < N_MUTATIONS; m++) {
    memcpy(mutated, text, sizeof text);
    for (int times = 1 + Draw(3); times > 0; times--) Mutate(mutated);
    FILE *file = fopen(broken_name, "w");
    TestTrue(file && fputs(mutated, file) >= 0);
    fclose(file);
    const RengaErrorCode code = LoadQuietly(plan, graph);
    TestTrue(code == RENGA_SUCCESS || code == RENGA_ERR_FILE_FORMAT || code == RENGA_ERR_PLAN);
    refused += code != RENGA_SUCCESS;
    CheckQuietly(plan, graph);
  }
  TestTrue(refused > N_MUTATIONS / 2 && refused < N_MUTATIONS);
}

/* What is refused is refused with the line and what should stand there. */
static void CheckMessages(RengaGraph graph, RengaPlan plan)
{
  static const struct {
    const char *from, *to, *message;
    RengaErrorCode code;
  } rows[] = {
      {"ranks 4-6", "ranks 4-7", "not as many ranks", RENGA_ERR_FILE_FORMAT},
      {"ranks 4-6", "ranks 4-6 9", "more ranks than the shape", RENGA_ERR_FILE_FORMAT},
      {"ranks 4-6", "ranks 4 5 1", "uses rank 1 twice", RENGA_ERR_PLAN},
      {"saved recompute", "saved twice", "not the line of the next stage", RENGA_ERR_FILE_FORMAT},
      {"saved recompute", "saved keep", "but it does not recompute", RENGA_ERR_PLAN},
      {"keeps ", "keeps no", "but the network has no such value", RENGA_ERR_PLAN},
      {"keeps ", "keep ", "", RENGA_ERR_FILE_FORMAT},
      {"schedule 1f1b", "schedule", "expected: schedule TYPE", RENGA_ERR_FILE_FORMAT},
      {" eager 0.", " eager -0.", "expected: schedule TYPE", RENGA_ERR_FILE_FORMAT},
      {"costs measured", "costs", "expected: costs TYPE memory BYTES", RENGA_ERR_FILE_FORMAT},
      {"bound 0.25", "bound -1", "expected: predicted", RENGA_ERR_FILE_FORMAT},
      {"microbatch 4", "microbatch 21", "expected: batch", RENGA_ERR_FILE_FORMAT},
      {"leaf 2", "leaf 0", "expected after the micro-batch", RENGA_ERR_FILE_FORMAT},
      {"leaf 2", "leaf 3", "make only 2 leaves of 3", RENGA_ERR_PLAN},
      {"leaf 2", "leaves", "expected after the micro-batch", RENGA_ERR_FILE_FORMAT},
      {"parts 1 2", "parts 1", "expected: memory", RENGA_ERR_FILE_FORMAT},
      {"end\n", "", "is the file cut off?", RENGA_ERR_FILE_FORMAT},
      {"end\n", "end\nmore\n", "something after the end", RENGA_ERR_FILE_FORMAT},
      {"stages 3", "stages 900", "no more than nodes", RENGA_ERR_FILE_FORMAT},
  };
  char text[MOST_TEXT];
  TestReadFile(file_name, sizeof text, text);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *at = strstr(text, rows[i].from);
    TestTrue(at);
    FILE *file = fopen(broken_name, "w");
    fprintf(file, "%.*s%s%s", (int)(at - text), text, rows[i].to, at + strlen(rows[i].from));
    fclose(file);
    TestError(RengaPlanLoad(plan, graph, broken_name), rows[i].code, rows[i].message);
  }
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaGraph graph = TestNetwork(comm);
  RengaPlan plan = MakePlan(comm, graph);
  CheckRoundTrip(comm, graph, plan);
  if (RengaCommGetSize(comm) == 1) {
    CheckMutations(graph, plan);
    CheckMessages(graph, plan);
    unlink(broken_name);
  }
  RengaCallAbort(RengaCommBarrier(comm, "the end"));
  unlink(file_name);
  RengaCallAbort(RengaPlanDestroy(&plan));
  RengaCallAbort(RengaGraphDestroy(&graph));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
