/* TEST ranks: 1 timeout: 300 */
/* One allocation fails in a call of the library, each in its turn: the call ends with an error that
   was printed, or does its work all the same, and no block of memory and no object of HDF5 is left
   behind. For networks, plans, profiles, schedules and data sets of every kind; each.c does so for
   what several ranks do together.

   RENGA_FAULT_TRIES=n: so many allocations of each call (100), every k-th from a place that follows
   from RENGA_FAULT_SEED; 0: every allocation. RENGA_FAULT_PART=name: the calls of that name. */
#include "../check.h"
#include "renga.h"
#include "renga/private/fault.h"
#include <hdf5.h>
#include <sys/stat.h>

enum { DEVICES = 4, BATCH = 8, MICROBATCH = 1, PATH = 1024 };
static const char network[] = "gpt:layers=2,hidden=8,heads=2,sequence=6,vocabulary=17";
static const char text_file[] = "faults-calls.txt", other_text[] = "faults-calls-other.txt";
static const char set_file[] = "faults-calls.h5", table_file[] = "faults-calls.csv";
static const char plan_file[] = "faults-calls.plan", costs_file[] = "faults-calls.costs";
static const char words_file[] = "faults-calls-words.h5";
static const char chat_folder[] = "faults-calls-folder", chat_file[] = "faults-calls.jsonl";

/* What calls may use, made once, and what the running call has made. */
typedef struct {
  RengaComm comm;
  RengaGraph graph;
  RengaMachine machine;
  RengaProfile profile;
  RengaPlan plan;
  RengaVocabulary vocabulary;
} Kept;
typedef struct {
  RengaGraph graph, stage;
  RengaMachine machine;
  RengaProfile profile;
  RengaPartition partition;
  RengaPlan plan;
  RengaSchedule schedule;
  RengaMessage *messages;
  RengaOptimizer optimizer;
  RengaData data;
  RengaVocabulary vocabulary;
  RengaViewer viewer;
} Made;
typedef RengaErrorCode (*CallFunction)(const Kept *kept, Made *made, const char *what);

static RengaErrorCode FreeMade(Made *made)
{
  if (made->viewer) RengaCall(RengaViewerDestroy(&made->viewer));
  if (made->vocabulary) RengaCall(RengaVocabularyDestroy(&made->vocabulary));
  if (made->data) RengaCall(RengaDataDestroy(&made->data));
  if (made->optimizer) RengaCall(RengaOptimizerDestroy(&made->optimizer));
  if (made->schedule) RengaCall(RengaScheduleDestroy(&made->schedule));
  RengaFree(&made->messages);
  if (made->plan) RengaCall(RengaPlanDestroy(&made->plan));
  if (made->partition) RengaCall(RengaPartitionDestroy(&made->partition));
  if (made->profile) RengaCall(RengaProfileDestroy(&made->profile));
  if (made->machine) RengaCall(RengaMachineDestroy(&made->machine));
  if (made->stage) RengaCall(RengaGraphDestroy(&made->stage));
  if (made->graph) RengaCall(RengaGraphDestroy(&made->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenViewer(const Kept *kept, Made *made)
{
  RengaCall(RengaViewerCreate(kept->comm, "ascii:/dev/null", &made->viewer));
  return RENGA_SUCCESS;
}

/* ---- networks ---- */
static RengaErrorCode CallBuild(const Kept *kept, Made *made, const char *what)
{
  const RengaValue *outputs;
  int count;
  RengaCall(RengaGraphCreate(kept->comm, &made->graph));
  RengaCall(RengaGraphLoad(made->graph, what));
  RengaCall(RengaGraphSetUp(made->graph));
  RengaCall(
      RengaGraphGetSubgraph(made->graph, 0, RengaGraphGetNodeCount(made->graph) / 2, &made->stage));
  RengaCall(RengaGraphGetOutputs(made->stage, &count, &outputs));
  RengaCall(OpenViewer(kept, made));
  RengaCall(RengaGraphView(made->graph, made->viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallImport(const Kept *kept, Made *made, const char *what)
{
  char path[PATH];
  const char *top = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/test/reference/networks/%s.onnx", top ? top : ".", what);
  RengaCall(RengaGraphCreate(kept->comm, &made->graph));
  RengaCall(RengaGraphLoad(made->graph, path));
  RengaCall(RengaGraphSetUp(made->graph));
  return RENGA_SUCCESS;
}

/* ---- plans ---- */
static RengaErrorCode CallSolve(const Kept *kept, Made *made, const char *what)
{
  RengaCall(RengaProfileCreate(kept->comm, &made->profile));
  RengaCall(RengaProfileSetMachine(made->profile, kept->machine));
  RengaCall(RengaProfileSetType(made->profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaPartitionCreate(kept->comm, &made->partition));
  RengaCall(RengaPartitionSetGraph(made->partition, kept->graph));
  RengaCall(RengaPartitionSetMachine(made->partition, kept->machine));
  RengaCall(RengaPartitionSetProfile(made->partition, made->profile));
  RengaCall(RengaPartitionSetType(made->partition, what));
  RengaCall(RengaPartitionSetRanks(made->partition, DEVICES));
  RengaCall(RengaPartitionSetBatch(made->partition, BATCH, MICROBATCH));
  if (strcmp(what, RENGA_PARTITION_MANUAL) == 0)
    RengaCall(RengaPartitionManualSetCuts(made->partition, "20,24"));
  RengaCall(RengaPartitionSolve(made->partition, &made->plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallPlan(const Kept *kept, Made *made, const char *what)
{
  (void)what;
  RengaCall(RengaPlanSave(kept->plan, plan_file));
  RengaCall(RengaPlanCreate(kept->comm, &made->plan));
  RengaCall(RengaPlanLoad(made->plan, kept->graph, plan_file));
  RengaCall(RengaPlanCheck(made->plan, kept->graph, DEVICES));
  RengaCall(OpenViewer(kept, made));
  RengaCall(RengaPlanView(made->plan, made->viewer));
  RengaCall(RengaPlanExplain(made->plan, made->viewer));
  RengaCall(RengaPlanCompare(kept->plan, made->plan, made->viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallCosts(const Kept *kept, Made *made, const char *what)
{
  const int64_t samples[] = {MICROBATCH, 2 * MICROBATCH};
  RengaCall(RengaMachineCreate(kept->comm, &made->machine));
  RengaCall(RengaMachineLoad(made->machine, what));
  RengaCall(RengaProfileSave(kept->profile, costs_file, 2, samples));
  RengaCall(RengaProfileCreate(kept->comm, &made->profile));
  RengaCall(RengaProfileSetGraph(made->profile, kept->graph));
  RengaCall(RengaProfileSetType(made->profile, RENGA_PROFILE_FILE));
  RengaCall(RengaProfileSetFromOptions(made->profile));
  RengaCall(OpenViewer(kept, made));
  RengaCall(RengaProfileView(made->profile, made->viewer));
  RengaCall(RengaMachineView(made->machine, made->viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallSchedule(const Kept *kept, Made *made, const char *what)
{
  int count;
  RengaCall(RengaPlanGetMessages(kept->plan, kept->graph, &count, &made->messages));
  RengaCall(RengaScheduleCreate(kept->comm, &made->schedule));
  RengaCall(RengaScheduleSetType(made->schedule, what));
  RengaCall(RengaScheduleSetPlan(made->schedule, kept->plan,
                                 RengaPlanMicrobatches(kept->plan, BATCH), count, made->messages,
                                 false));
  RengaCall(RengaScheduleSetUp(made->schedule));
  RengaCall(OpenViewer(kept, made));
  RengaCall(RengaScheduleView(made->schedule, made->viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallOptimizer(const Kept *kept, Made *made, const char *what)
{
  RengaCall(RengaOptimizerCreate(kept->comm, &made->optimizer));
  RengaCall(RengaOptimizerSetType(made->optimizer, what));
  RengaCall(RengaOptimizerSetGroups(made->optimizer, "*.bias:weight_decay=0;*:frozen=false"));
  RengaCall(RengaOptimizerSetSchedule(made->optimizer, "cosine", 3, 0.1));
  RengaCall(RengaOptimizerSetTotalSteps(made->optimizer, 10));
  RengaCall(RengaOptimizerSetUp(made->optimizer));
  RengaCall(OpenViewer(kept, made));
  RengaCall(RengaOptimizerView(made->optimizer, made->viewer));
  return RENGA_SUCCESS;
}

/* ---- data ---- */
static RengaErrorCode OpenSet(const Kept *kept, Made *made, int64_t places)
{
  const char *const names[] = {"tokens"};
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 1, .dim = {places}};
  int64_t tokens[64];
  RengaCall(RengaDataCreate(kept->comm, &made->data));
  RengaCall(RengaDataSetFile(made->data, set_file));
  RengaCall(RengaDataSetFields(made->data, 1, names, &spec, NULL));
  RengaCall(RengaDataSetUp(made->data));
  RengaCall(RengaDataRead(made->data, RENGA_DATA_TRAINING, 0, 0, 2, 3, tokens));
  RengaCall(OpenViewer(kept, made));
  RengaCall(RengaDataView(made->data, made->viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallText(const Kept *kept, Made *made, const char *what)
{
  (void)what;
  RengaCall(RengaDataWriteText(kept->comm, text_file, set_file, 8, 0.1));
  RengaCall(OpenSet(kept, made, 8));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallTokens(const Kept *kept, Made *made, const char *what)
{
  (void)what;
  RengaCall(RengaDataWriteTokens(kept->comm, kept->vocabulary, text_file, set_file, 8, 0.1));
  RengaCall(OpenSet(kept, made, 8));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallPairs(const Kept *kept, Made *made, const char *what)
{
  const int64_t lengths[] = {12, 12};
  int64_t pairs[3];
  (void)made;
  (void)what;
  RengaCall(RengaDataWritePairs(kept->comm, kept->vocabulary, text_file, other_text, set_file,
                                lengths, 0.2, pairs));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallDocuments(const Kept *kept, Made *made, const char *what)
{
  const RengaDataRows rows = {.sequence = 8, .packed = true, .end = "e", .validation_share = 0.2};
  int64_t counts[RENGA_DATA_ROW_COUNTS];
  (void)made;
  (void)what;
  RengaCall(
      RengaDataWriteDocuments(kept->comm, kept->vocabulary, text_file, set_file, &rows, counts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallChat(const Kept *kept, Made *made, const char *what)
{
  const RengaDataRows rows = {.sequence = 8};
  int64_t counts[RENGA_DATA_ROW_COUNTS];
  (void)made;
  (void)what;
  RengaCall(RengaDataWriteChat(kept->comm, chat_folder, chat_file, set_file, &rows, counts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallVocabulary(const Kept *kept, Made *made, const char *what)
{
  const char *const files[] = {text_file};
  char path[PATH];
  const char *top = getenv("top_srcdir");
  (void)kept;
  if (what) {
    snprintf(path, sizeof path, "%s/test/data/%s", top ? top : ".", what);
    RengaCall(RengaVocabularyRead(path, &made->vocabulary));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaVocabularyTrain(1, files, RENGA_TOKEN_PAIR + 8, &made->vocabulary));
  RengaCall(RengaVocabularyWrite(made->vocabulary, words_file));
  RengaCall(RengaVocabularyDestroy(&made->vocabulary));
  RengaCall(RengaVocabularyRead(words_file, &made->vocabulary));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallCsv(const Kept *kept, Made *made, const char *what)
{
  int64_t numbers[3];
  (void)made;
  RengaCall(RengaDataWriteCsv(kept->comm, table_file, set_file, what, what ? NULL : "y",
                              what ? "z" : "class,z", 0.2, numbers));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallRatings(const Kept *kept, Made *made, const char *what)
{
  int64_t numbers[3];
  (void)made;
  (void)what;
  RengaCall(RengaDataWriteRatings(kept->comm, other_text, set_file, 2, 3, numbers));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallLog(const Kept *kept, Made *made, const char *what)
{
  FILE *file = fopen("/dev/null", "w");
  MPI_Comm mpi;
  (void)made;
  (void)what;
  RengaErrorCode code = RengaObjectGetComm(kept->comm, &mpi);
  if (!code) code = RengaLogView(mpi, file);
  fclose(file);
  if (!code) code = RengaLogTraceWrite(mpi, "/dev/null");
  RengaCall(code);
  return RENGA_SUCCESS;
}

static const struct {
  const char *name;
  CallFunction call;
  const char *what;
} calls[] = {
    {"bert", CallBuild, "bert:layers=1,hidden=8,heads=2,sequence=6,vocabulary=17"},
    {"gpt", CallBuild, network},
    {"mlp", CallBuild, "mlp:sizes=4-8-3"},
    {"ncf", CallBuild, "ncf:users=5,items=7"},
    {"resnet", CallBuild, "resnet:depth=18,image=32,classes=3"},
    {"t5", CallBuild, "t5:layers=1,hidden=8,heads=2,sequence=6,vocabulary=17"},
    {"transformer", CallBuild, "transformer:layers=1,hidden=8,heads=2,sequence=6,vocabulary=17"},
    {"gpt_export", CallImport, "gpt_export"},
    {"lstm_export", CallImport, "lstm_export"},
    {"lstm_trace", CallImport, "lstm_trace"},
    {"mlp_export", CallImport, "mlp_export"},
    {"ncf_trace", CallImport, "ncf_trace"},
    {"resnet_trace", CallImport, "resnet_trace"},
    {"t5_trace", CallImport, "t5_trace"},
    {"translation_export", CallImport, "translation_export"},
    {"manual", CallSolve, RENGA_PARTITION_MANUAL},
    {"even", CallSolve, RENGA_PARTITION_EVEN},
    {"tree", CallSolve, RENGA_PARTITION_TREE},
    {"rannc", CallSolve, RENGA_PARTITION_RANNC},
    {"auto", CallSolve, RENGA_PARTITION_AUTO},
    {"exact", CallSolve, RENGA_PARTITION_EXACT},
    {"plan", CallPlan, NULL},
    {"costs", CallCosts, "v100"},
    {"gpipe", CallSchedule, RENGA_SCHEDULE_GPIPE},
    {"1f1b", CallSchedule, RENGA_SCHEDULE_1F1B},
    {"zb-h1", CallSchedule, RENGA_SCHEDULE_ZB_H1},
    {"interleaved", CallSchedule, RENGA_SCHEDULE_INTERLEAVED},
    {"schedule-auto", CallSchedule, RENGA_SCHEDULE_AUTO},
    {"adamw", CallOptimizer, RENGA_OPTIMIZER_ADAMW},
    {"text", CallText, NULL},
    {"tokens", CallTokens, NULL},
    {"pairs", CallPairs, NULL},
    {"documents", CallDocuments, NULL},
    {"chat", CallChat, NULL},
    {"vocabulary", CallVocabulary, NULL},
    {"tokenizer", CallVocabulary, "tokenizer.json"},
    {"classes", CallCsv, "class"},
    {"targets", CallCsv, NULL},
    {"ratings", CallRatings, NULL},
    {"log", CallLog, NULL},
};
enum { CALLS = sizeof calls / sizeof calls[0] };

static int64_t Setting(const char *name, int64_t otherwise)
{
  const char *text = getenv(name);
  return text ? atoll(text) : otherwise;
}

/* Allocation n of the call fails; 0: none. What is wrong with how it ended is printed. */
static RengaErrorCode TryCall(const Kept *kept, int c, int64_t n, bool *good)
{
  Made made = {0};
  char left[2000] = "";
  const char *wrong = NULL;
  FILE *file;
  const unsigned mark = RengaMemoryGetMark();
  const ssize_t open_before = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
  const int saved = BeginErrors(&file);
  RengaFaultSet(RENGA_FAULT_ALLOCATION, n);
  const RengaErrorCode code = calls[c].call(kept, &made, calls[c].what);
  const int64_t count = RengaFaultGetCount(RENGA_FAULT_ALLOCATION);
  RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
  const RengaErrorCode undone = FreeMade(&made);
  const char *errors = EndErrors(file, saved);
  if (undone)
    wrong = "what was made of it cannot be destroyed";
  else if (n == 0 && code)
    wrong = "an error where nothing failed";
  else if (code && count < n)
    wrong = "an error before anything failed";
  else if (code && !strstr(errors, "error"))
    wrong = "nothing was printed";
  else if (H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) != open_before)
    wrong = "objects of HDF5 are left open";
  else if (n > 0 && RengaMemoryListSince(mark, sizeof left, left) > 0)
    wrong = "memory is left";
  *good = wrong == NULL;
  if (wrong)
    printf("%s: allocation %lld: %s (code %d)%s\n%s", calls[c].name, (long long)n, wrong, (int)code,
           left, errors);
  return RENGA_SUCCESS;
}

/* The first time undisturbed: tables that live as long as the library are made then. */
static RengaErrorCode TryEach(const Kept *kept, int c, int64_t *failed)
{
  const int64_t tries = Setting("RENGA_FAULT_TRIES", UnlessSlow(100, 5));
  bool good;
  RengaCall(TryCall(kept, c, 0, &good));
  Expect(good);
  Made made = {0};
  RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
  RengaErrorCode code = calls[c].call(kept, &made, calls[c].what);
  const int64_t count = RengaFaultGetCount(RENGA_FAULT_ALLOCATION);
  RengaCall(FreeMade(&made));
  RengaCall(code);
  const int64_t stride = tries > 0 && count > tries ? (count + tries - 1) / tries : 1;
  const double begin = MPI_Wtime();
  for (int64_t n = Setting("RENGA_FAULT_SEED", 1) % stride + 1; n <= count; n += stride) {
    RengaCall(TryCall(kept, c, n, &good));
    *failed += !good;
  }
  printf("%s: %lld allocations, every %lld. fails, %.1f s\n", calls[c].name, (long long)count,
         (long long)stride, MPI_Wtime() - begin);
  return RENGA_SUCCESS;
}

/* A conversation, and a folder with the tests' tokenizer and a template. */
static RengaErrorCode WriteChat(void)
{
  static char bytes[65536];
  char path[PATH];
  const char *top = getenv("top_srcdir");
  mkdir(chat_folder, 0777);
  snprintf(path, sizeof path, "%s/test/data/tokenizer.json", top ? top : ".");
  FILE *from = fopen(path, "r");
  snprintf(path, sizeof path, "%s/tokenizer.json", chat_folder);
  FILE *to = fopen(path, "w");
  snprintf(path, sizeof path, "%s/tokenizer_config.json", chat_folder);
  FILE *config = fopen(path, "w"), *chat = fopen(chat_file, "w");
  Expect(from && to && config && chat);
  fwrite(bytes, 1, fread(bytes, 1, sizeof bytes, from), to);
  fputs("{\"chat_template\": \"{% for message in messages %}{{'<|im_start|>' + message['role'] + "
        "'\\\\n' + message['content'] + '<|im_end|>' + '\\\\n'}}{% endfor %}\", "
        "\"eos_token\": \"<|end|>\"}",
        config);
  fputs("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
        "{\"role\": \"assistant\", \"content\": \"the end\"}]}\n",
        chat);
  Expect(fclose(from) == 0 && fclose(to) == 0 && fclose(config) == 0 && fclose(chat) == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteInputs(void)
{
  FILE *text = fopen(text_file, "w"), *other = fopen(other_text, "w");
  FILE *table = fopen(table_file, "w");
  Expect(text && other && table);
  fprintf(table, "a,b,class,y,z\n");
  for (int i = 0; i < 40; i++) {
    fprintf(text, "line %d of the text, which is the source.\n", i);
    fprintf(other, "%d\t%d\t%d\n", i % 7, i % 11, i % 3 + 1);
    fprintf(table, "%d,%g,%s,%d,%d\n", i, 0.5 * i * i, i % 2 ? "odd" : "even", 3 * i, i);
  }
  fclose(text);
  fclose(other);
  fclose(table);
  RengaCall(WriteChat());
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeKept(Kept *kept)
{
  const char *const files[] = {text_file};
  Made made = {0};
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &kept->comm));
  RengaCall(RengaGraphCreate(kept->comm, &kept->graph));
  RengaCall(RengaGraphLoad(kept->graph, network));
  RengaCall(RengaGraphSetUp(kept->graph));
  RengaCall(RengaMachineCreate(kept->comm, &kept->machine));
  RengaCall(RengaMachineLoad(kept->machine, "v100"));
  RengaCall(RengaProfileCreate(kept->comm, &kept->profile));
  RengaCall(RengaProfileSetGraph(kept->profile, kept->graph));
  RengaCall(RengaProfileSetMachine(kept->profile, kept->machine));
  RengaCall(RengaProfileSetType(kept->profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(CallSolve(kept, &made, RENGA_PARTITION_MANUAL));
  kept->plan = made.plan;
  made.plan = NULL;
  RengaCall(FreeMade(&made));
  RengaCall(RengaVocabularyTrain(1, files, RENGA_TOKEN_PAIR + 8, &kept->vocabulary));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeKept(Kept *kept)
{
  RengaCall(RengaVocabularyDestroy(&kept->vocabulary));
  RengaCall(RengaPlanDestroy(&kept->plan));
  RengaCall(RengaProfileDestroy(&kept->profile));
  RengaCall(RengaMachineDestroy(&kept->machine));
  RengaCall(RengaGraphDestroy(&kept->graph));
  RengaCall(RengaCommDestroy(&kept->comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  Kept kept = {0};
  const char *only = getenv("RENGA_FAULT_PART");
  int64_t failed = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  RengaCall(WriteInputs());
  RengaCall(RengaOptionsSetValue("profile_file", costs_file));
  RengaCall(MakeKept(&kept));
  for (int c = 0; c < CALLS; c++)
    if (!only || strcmp(only, calls[c].name) == 0) RengaCall(TryEach(&kept, c, &failed));
  RengaCall(FreeKept(&kept));
  Expect(system("rm -rf faults-calls*") == 0);
  Expect(failed == 0);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
