/* TEST ranks: 8 timeout: 900 */
/* Networks in lanes of heads and columns, of tokens or rows of images, or of both kinds, have the
   bits of one rank on every layout: stages, replicas, their shares, ranks that share out the lanes,
   six schedules, any cuts, several stages per rank, recomputation, uneven lanes, short batches, 16
   bits, dropout.
   Losses, a validation and parameters are compared, norms but for their last bits; forecast memory
   is measured memory.

     layouts [EVERY [FOLDER]]   each EVERYth layout of each network; 1: all

   Where EVERY is not given few layouts are tried, besides what fixed.c and refused.c have: layout n
   if EVERY divides n + RENGA_TEST_SLOT, a number in the environment. FOLDER has more networks:
   NAME.onnx, its data NAME.h5, options, if any, in NAME.opts, and in NAME.losses, if it is there,
   20 losses that one rank is to have within 1e-4: by SGD without shuffling. RENGA_TEST_VERBOSE set:
   processor time of each. */
#include "cases.h"
#include "networks.h"
#include "plans.h"
#include <dirent.h>

enum { OF_COLUMNS = 1, OF_TOKENS = 2, OF_BOTH = 4, MOST_LANES = 4 };
enum { EVERY = 61, EVERY_SLOW = 211, FIXED_SLOW = 6 };
#define ODD_WORDS "sequence=9,vocabulary=61"
#define PAIR "layers=1,hidden=20,heads=5," WORDS ",target=7"

typedef struct {
  const char *graph, *options;
  int kinds;  /* of lanes */
  bool apart; /* lanes have other random numbers, or roughly the losses of the whole network */
} Network;

static const Network networks[] = {
    {"gpt:layers=2,hidden=20,heads=5," WORDS, COMMON, OF_COLUMNS, false},
    {"gpt:layers=2,hidden=28,heads=7," WORDS ",dropout=0.1,tied=0", COMMON, OF_COLUMNS, true},
    {"gpt:layers=2,hidden=20,heads=5," WORDS, COMMON " -precision bf16", OF_COLUMNS, true},
    {"gpt:layers=2,hidden=20,heads=5," WORDS, COMMON " -precision fp16", OF_COLUMNS, true},
    {"bert:layers=2,hidden=12,heads=4,intermediate=17," WORDS ",next_sentence=1", COMMON,
     OF_COLUMNS, true},
    {"t5:layers=1,hidden=12,heads=5,head_width=4,intermediate=17," WORDS ",gated=1,buckets=8",
     COMMON, OF_COLUMNS, true},
    {"transformer:" PAIR ",intermediate=31,smoothing=0.1", COMMON, OF_COLUMNS, true},
    {"llama:layers=2,hidden=24,heads=6,groups=3,intermediate=37," WORDS, COMMON, OF_COLUMNS, false},
    {"llama:layers=1,hidden=24,heads=6,groups=3,intermediate=17," WORDS, COMMON " -precision bf16",
     OF_COLUMNS, true},
    {"llama:layers=1,hidden=28,heads=7,groups=1,intermediate=19," WORDS ",tied=1", COMMON,
     OF_COLUMNS, false},
    {"mlp:sizes=9-17-15-13-5", COMMON " -optimizer_type sgd", OF_COLUMNS, false},
    {"ncf:users=41,items=29,factors=5,layers=14-11-7-5", COMMON, OF_COLUMNS, false},
    {"resnet:depth=18,width=0.125,image=16,classes=7", COMMON " -microbatch_size 3", OF_COLUMNS,
     true},
    {"bert:layers=1,hidden=12,heads=3,intermediate=17," ODD_WORDS ",next_sentence=1,dropout=0",
     COMMON, OF_TOKENS, false},
    {"t5:layers=1,hidden=12,heads=3,head_width=4,intermediate=17," ODD_WORDS ",gated=1,buckets=8",
     COMMON, OF_TOKENS, true},
    {"llama:layers=2,hidden=24,heads=6,groups=3,intermediate=37," ODD_WORDS, COMMON, OF_TOKENS,
     false},
    {"gpt:layers=2,hidden=20,heads=5," ODD_WORDS, COMMON, OF_TOKENS, false},
    {"gpt:layers=2,hidden=20,heads=5," ODD_WORDS ",dropout=0.1,tied=0", COMMON, OF_TOKENS, true},
    {"gpt:layers=2,hidden=20,heads=5," ODD_WORDS, COMMON " -precision bf16", OF_TOKENS, true},
    {"lanes-unet.onnx", COMMON, OF_TOKENS, false},
    {"lanes-nearest.onnx", COMMON, OF_TOKENS, false},
    {"lanes-linear.onnx", COMMON, OF_TOKENS, false},
    {"lanes-rows.onnx", COMMON, OF_TOKENS, false},
    {"resnet:depth=18,width=0.0625,image=33,classes=7", COMMON " -microbatch_size 4", OF_TOKENS,
     false},
    {"resnet:depth=18,width=0.0625,image=33,classes=7",
     COMMON " -microbatch_size 4 -precision bf16", OF_TOKENS, true},
    {"gpt:layers=2,hidden=20,heads=5," WORDS, COMMON, OF_BOTH, false},
    {"llama:layers=1,hidden=24,heads=6,groups=3,intermediate=17," ODD_WORDS,
     COMMON " -precision bf16", OF_BOTH, true},
    {"t5:layers=1,hidden=12,heads=5,head_width=4,intermediate=17," WORDS ",gated=1,buckets=8",
     COMMON, OF_BOTH, true},
};

typedef struct {
  Cases cases;
  int number; /* of the layout */
} Walk;

/* The last number of an option counts, so that layouts add to what a network says. */
static RengaErrorCode AddLayout(Walk *walk, const char *common, int context, const Case *row,
                                int replicas, RengaShard shard)
{
  char options[MOST_TEXT];
  Case added = *row;
  if ((++walk->number + walk->cases.slot) % walk->cases.every) return RENGA_SUCCESS;
  Expect(snprintf(options, sizeof options,
                  "%s -layout_tensor %d -layout_context %d -layout_pipeline %d "
                  "-layout_data %d -layout_zero %s",
                  common, row->shared / context, context, row->stages, replicas,
                  RengaShardName(shard)) < (int)sizeof options);
  added.number = walk->number;
  added.options = options;
  RengaCall(AddReference(&walk->cases, common, &added.reference));
  RengaCall(AddCase(&walk->cases, &added));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddLayoutsOf(Walk *walk, const char *common, int tensor, int context)
{
  const int shared = tensor * context;
  for (int stages = 1; stages <= 3; stages++)
    for (int replicas = 1; replicas <= 2; replicas++) {
      const Case row = {.ranks = shared * stages * replicas, .stages = stages, .shared = shared};
      for (int shard = 0; shard <= (replicas > 1 ? RENGA_SHARD_PARAMETERS : 0); shard++)
        if (row.ranks <= 8)
          RengaCall(AddLayout(walk, common, context, &row, replicas, (RengaShard)shard));
    }
  return RENGA_SUCCESS;
}

/* Lanes of heads and of tokens. */
static RengaErrorCode AddLayouts(Walk *walk, const char *common, int heads, int tokens)
{
  for (int context = 1; context <= tokens; context++)
    for (int tensor = 1; tensor <= heads; tensor++)
      RengaCall(AddLayoutsOf(walk, common, tensor, context));
  return RENGA_SUCCESS;
}

/* Whose losses are near each other, where one of them is tried. */
static RengaErrorCode AddWhole(Walk *walk, const char *whole, const char *common, bool apart,
                               const char *losses)
{
  Cases *cases = &walk->cases;
  int one, other;
  RengaCall(AddReference(cases, common, &other));
  if (losses) RengaCall(AddNearness(cases, other, other, losses));
  if (apart) return RENGA_SUCCESS;
  RengaCall(AddReference(cases, whole, &one));
  RengaCall(AddNearness(cases, one, other, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddNetwork(Walk *walk, const Network *network, const char *losses)
{
  char whole[MOST_TEXT], common[MOST_TEXT];
  for (int kind = OF_COLUMNS; kind <= OF_BOTH; kind *= 2)
    for (int lanes = 2; lanes <= (kind == OF_BOTH ? 3 : MOST_LANES) && network->kinds & kind;
         lanes++) {
      const int before = walk->cases.count;
      const int heads = kind == OF_TOKENS ? 1 : lanes, tokens = kind == OF_COLUMNS ? 1 : lanes;
      Expect(snprintf(whole, sizeof whole, "-graph %s %s -graph_lanes 1", network->graph,
                      network->options) < (int)sizeof whole);
      Expect(snprintf(common, sizeof common, "-graph %s %s -graph_lanes %d -graph_token_lanes %d",
                      network->graph, network->options, heads, tokens) < (int)sizeof common);
      RengaCall(AddLayouts(walk, common, heads, tokens));
      if (walk->cases.count > before)
        RengaCall(AddWhole(walk, whole, common, network->apart, losses));
    }
  return RENGA_SUCCESS;
}

/* The first line of a file; empty where there is none. */
static void ReadLine(const char *file, size_t size, char text[])
{
  FILE *stream = fopen(file, "r");
  text[0] = '\0';
  if (!stream) return;
  if (fgets(text, (int)size, stream)) text[strcspn(text, "\n")] = '\0';
  fclose(stream);
}

static int EndsAsNetwork(const struct dirent *entry)
{
  const char *end = strstr(entry->d_name, ".onnx");
  return end && !end[5];
}

/* Those of a folder of one's own, with their data. */
static RengaErrorCode AddFolder(Walk *walk, const char *folder)
{
  struct dirent **entries = NULL;
  const int count = scandir(folder, &entries, EndsAsNetwork, alphasort);
  Expect(count > 0);
  for (int e = 0; e < count; e++) {
    char stem[512], graph[520], name[520], extra[512], options[1536];
    Expect(snprintf(stem, sizeof stem, "%s/%.*s", folder, (int)strlen(entries[e]->d_name) - 5,
                    entries[e]->d_name) < (int)sizeof stem);
    Expect(snprintf(graph, sizeof graph, "%s.onnx", stem) < (int)sizeof graph);
    Expect(snprintf(name, sizeof name, "%s.opts", stem) < (int)sizeof name);
    ReadLine(name, sizeof extra, extra);
    Expect(snprintf(name, sizeof name, "%s.losses", stem) < (int)sizeof name);
    Expect(
        snprintf(
            options, sizeof options,
            "-data %s.h5 -data_validation 0 -data_shuffle 0 -batch_size 8 -microbatch_size 2 "
            "-steps 20 -seed 1 -device_threads 1 -optimizer_type sgd -optimizer_learning_rate 0.1 "
            "%s",
            stem, extra) < (int)sizeof options);
    const Network network = {graph, options, OF_COLUMNS, true};
    RengaCall(AddNetwork(walk, &network, access(name, R_OK) ? NULL : name));
    free(entries[e]);
  }
  free(entries);
  return RENGA_SUCCESS;
}

/* The exports of torch that the repository has. */
static RengaErrorCode AddExports(Walk *walk)
{
  static const char *const names[] = {"bert_export",        "gpt_export",  "lstm_export",
                                      "mlp_export",         "ncf_export",  "t5_export",
                                      "translation_export", "resnet_trace"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char file[1024];
    Expect(snprintf(file, sizeof file, "%s/%s.onnx", NetworksFolder(), names[i]) <
           (int)sizeof file);
    const Network network = {file, COMMON, OF_COLUMNS, strcmp(names[i], "resnet_trace") == 0};
    RengaCall(AddNetwork(walk, &network, NULL));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddAll(Walk *walk, const char *folder)
{
  for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++)
    RengaCall(AddNetwork(walk, &networks[n], NULL));
  RengaCall(AddExports(walk));
  RengaCall(AddFixedCases(&walk->cases));
  RengaCall(AddRefusedCases(&walk->cases));
  if (folder) RengaCall(AddFolder(walk, folder));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(const char *every, const char *folder)
{
  const char *slot = getenv("RENGA_TEST_SLOT"), *sanitizers = getenv("SANITIZERS");
  const bool slow = sanitizers && *sanitizers;
  Walk walk = {.cases = {.every = slow ? EVERY_SLOW : EVERY,
                         .slot = slot ? (int)(strtoll(slot, NULL, 10) % 1000003) : 0,
                         .fixed_every = slow ? FIXED_SLOW : 1}};
  int rank;
  RengaComm alone;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (every) walk.cases.every = atoi(every);
  Expect(walk.cases.every > 0 && walk.cases.slot >= 0);
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &alone));
  if (rank == 0) RengaCall(WriteNetworks());
  if (rank == 0) RengaCall(WritePlans(alone));
  RengaCall(RengaCommDestroy(&alone));
  RengaCall(AwaitAll());
  RengaCall(AddAll(&walk, folder));
  RengaCall(RunReferences(&walk.cases));
  RengaCall(RunCases(&walk.cases));
  if (rank == 0) {
    printf("%d layouts of %d, with %d references: %d runs, %d refused, %d differences\n",
           walk.cases.count, walk.number, walk.cases.references, walk.cases.runs,
           walk.cases.refused, walk.cases.differences);
    RemoveNetworks();
    RemovePlans();
  }
  Expect(walk.cases.differences == 0 && walk.cases.runs > 0);
  Expect(walk.cases.runs + walk.cases.refused == walk.cases.count);
  FreeCases(&walk.cases);
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunTest(argc > 1 ? argv[1] : NULL, argc > 2 ? argv[2] : NULL));
  RengaCallAbort(RengaFinalize());
  return 0;
}
