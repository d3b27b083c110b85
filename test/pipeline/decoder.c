/* TEST ranks: 1 2 */
/* A network token by token, with caches of keys and values: the scores of whole sequences, whatever
   is given at once, on one rank, in stages, on tensor ranks; what has no decoder; the forecast. */
#include "../plan/plantest.h"
#include "run.h"
#include "rengapartition.h"

enum { PLACES = 8, KINDS = 12, TEXTS = 2, HEADS = 4, WIDTH = 4, ROWS = 8, MICROBATCH = 2 };

/* ---- networks by hand ---- */
typedef struct {
  const char *name; /* as -graph says, or of kind */
  enum { BUILT, DISTANCES, WINDOW, CAPPED, OPEN, MEAN } kind;
  const char *refusal; /* NULL: it has a decoder */
} Network;

/* A bias for each head that grows with the distance (ALiBi), or a window of 3 places; OPEN: all
   places see all. */
static RengaErrorCode AddMask(RengaGraph graph, int kind, RengaValue *mask)
{
  float number[HEADS][PLACES][PLACES];
  const RengaTensorSpec heads = {RENGA_FLOAT32, 3, {HEADS, PLACES, PLACES}};
  const RengaTensorSpec places = {RENGA_FLOAT32, 2, {PLACES, PLACES}};
  for (int h = 0; h < HEADS; h++)
    for (int i = 0; i < PLACES; i++)
      for (int j = 0; j < PLACES; j++) {
        const bool hidden = kind != OPEN && (j > i || (kind == WINDOW && i - j > 2));
        const float bias = kind == DISTANCES ? -0.2F * (float)((h + 1) * (i - j)) : 0;
        number[h][i][j] = hidden ? -INFINITY : bias;
      }
  RengaCall(
      RengaGraphAddConstant(graph, "mask", kind == DISTANCES ? &heads : &places, number, mask));
  return RENGA_SUCCESS;
}

/* softmax(3 tanh(0.5 q k^T) + mask) v */
static RengaErrorCode AddCapped(RengaGraph graph, const RengaValue in[4], RengaValue *y)
{
  const int64_t flip[] = {0, 1, 3, 2};
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32};
  RengaValue x, pair[2], half, three;
  RengaCall(RengaGraphAddConstant(graph, NULL, &scalar, &(float){0.5F}, &half));
  RengaCall(RengaGraphAddConstant(graph, NULL, &scalar, &(float){3}, &three));
  RengaCall(RengaGraphAddTranspose(graph, in[1], flip, &x));
  RengaCall(RengaGraphAddMatMul(graph, in[0], x, &pair[0]));
  pair[1] = half;
  RengaCall(RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, pair, 1, NULL, &x));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", x, &pair[0]));
  pair[1] = three;
  RengaCall(RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, pair, 1, NULL, &x));
  RengaCall(RengaGraphAddAdd(graph, x, in[3], &x));
  RengaCall(RengaGraphAddUnary(graph, "Softmax", x, &x));
  RengaCall(RengaGraphAddMatMul(graph, x, in[2], y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddHeads(RengaGraph graph, const char *name, RengaValue x, RengaValue *y)
{
  const int64_t apart[] = {-1, PLACES, HEADS, WIDTH}, order[] = {0, 2, 1, 3};
  RengaCall(RengaGraphAddLinear(graph, name, x, HEADS * WIDTH, true, 0.5, y));
  RengaCall(RengaGraphAddReshape(graph, *y, 4, apart, y));
  RengaCall(RengaGraphAddTranspose(graph, *y, order, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddMeanOfTokens(RengaGraph graph, RengaValue *x)
{
  RengaAttributes attributes = {0};
  RengaValue mean;
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){1}));
  RengaCall(RengaGraphAddNode(graph, "ReduceMean", "mean", &attributes, 1, x, 1, NULL, &mean));
  RengaCall(RengaGraphAddAdd(graph, *x, mean, x));
  RengaCall(RengaAttributesFree(&attributes));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildByHand(RengaGraph graph, int kind)
{
  const int64_t order[] = {0, 2, 1, 3}, joined[] = {-1, PLACES, HEADS * WIDTH};
  const RengaTensorSpec ids = {RENGA_INT64, 2, {-1, PLACES}},
                        rows = {RENGA_FLOAT32, 2, {KINDS, 16}};
  const RengaInit init = {.kind = RENGA_INIT_NORMAL, .b = 1};
  RengaValue tokens, table, x, in[4], y;
  RengaCall(RengaGraphAddInput(graph, "tokens", &ids, &tokens));
  RengaCall(RengaGraphAddParameter(graph, "table", &rows, &init, &table));
  RengaCall(RengaGraphAddEmbedding(graph, table, tokens, &x));
  if (kind == MEAN) RengaCall(AddMeanOfTokens(graph, &x));
  RengaCall(AddHeads(graph, "q", x, &in[0]));
  RengaCall(AddHeads(graph, "k", x, &in[1]));
  RengaCall(AddHeads(graph, "v", x, &in[2]));
  RengaCall(AddMask(graph, kind, &in[3]));
  if (kind == CAPPED)
    RengaCall(AddCapped(graph, in, &y));
  else
    RengaCall(RengaGraphAddNode(graph, "Attention", "attention", NULL, 4, in, 1, NULL, &y));
  RengaCall(RengaGraphAddTranspose(graph, y, order, &y));
  RengaCall(RengaGraphAddReshape(graph, y, 3, joined, &y));
  RengaCall(RengaGraphAddLinear(graph, "logits", y, KINDS, true, 0.5, &y));
  RengaCall(RengaGraphAddOutput(graph, y));
  return RENGA_SUCCESS;
}

/* Whole sequences, set up without loss and lanes. */
static RengaErrorCode MakeWhole(RengaComm comm, const Network *network, int lanes,
                                RengaGraph *graph)
{
  static const char *const outputs[] = {"logits"};
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(network->kind == BUILT ? RengaGraphLoad(*graph, network->name)
                                   : BuildByHand(*graph, network->kind));
  RengaCall(RengaGraphKeepOutputs(*graph, 1, outputs));
  RengaCall(RengaGraphSetLanes(*graph, lanes));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

/* ---- layouts ---- */
typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
} Parts;

static RengaErrorCode Open(RengaComm comm, int64_t batch, int64_t microbatch, int tensor,
                           Parts *parts)
{
  RengaPartition partition = NULL;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, parts->graph));
  RengaCall(RengaPartitionSetBatch(partition, batch, microbatch));
  RengaCall(RengaPartitionSetReplicas(partition, 1));
  RengaCall(RengaPartitionSetTensor(partition, tensor));
  RengaCall(RengaPartitionSetStages(partition, RengaCommGetSize(comm) / tensor));
  RengaCall(RengaPartitionSolve(partition, &parts->plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPipelineCreate(comm, &parts->pipeline));
  RengaCall(RengaPipelineSetPlan(parts->pipeline, parts->graph, parts->plan));
  RengaCall(RengaSettingsSetSeed(SettingsOf(parts->pipeline), 3));
  RengaCall(RengaPipelineSetUp(parts->pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode Close(Parts *parts)
{
  RengaCall(RengaPipelineDestroy(&parts->pipeline));
  RengaCall(RengaPlanDestroy(&parts->plan));
  RengaCall(RengaGraphDestroy(&parts->graph));
  return RENGA_SUCCESS;
}

/* ---- rows ---- */
typedef struct {
  RengaGraph graph;
  int count;
  int64_t token[ROWS], text[ROWS], place[ROWS], source[ROWS];
} Rows;

static int64_t LastOf(int64_t text)
{
  return PLACES - 1 - 3 * text;
}

static int64_t TokenAt(int64_t text, int64_t place)
{
  return (7 * text + 5 * place + place * place) % KINDS;
}

/* The source of a text, whose last places are padding; and the last that is none. */
static int64_t SourceAt(int64_t text, int64_t place)
{
  return place <= LastOf(text) ? 1 + (3 * text + 2 * place * place) % (KINDS - 1) : 0;
}

static RengaErrorCode ReadWhole(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  (void)user;
  (void)field;
  for (int64_t i = 0; i < count * PLACES; i++)
    ((int64_t *)buffer)[i] = TokenAt(first + i / PLACES, i % PLACES);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadRows(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Rows *rows = user;
  const char *name = RunField(rows->graph, field)->name;
  const int64_t *from = strcmp(name, RENGA_DECODER_TEXT) == 0     ? rows->text
                        : strcmp(name, RENGA_DECODER_PLACE) == 0  ? rows->place
                        : strcmp(name, RENGA_DECODER_SOURCE) == 0 ? rows->source
                                                                  : rows->token;
  memcpy(buffer, from + first, (size_t)count * sizeof *from);
  return RENGA_SUCCESS;
}

/* Texts of which each forward has a few tokens: first a begin of both, then token by token. */
static const struct {
  int text, count;
} given[][2] = {{{0, 5}, {1, 2}}, {{1, 1}, {0, 1}}, {{0, 1}, {1, 4}}, {{0, 1}, {1, 1}}};
enum { FORWARDS = sizeof given / sizeof given[0] };

static RengaErrorCode CompareRows(RengaComm comm, const Rows *rows, const float scores[],
                                  float whole[][PLACES][KINDS])
{
  if (RengaCommGetRank(comm) != 0) return RENGA_SUCCESS;
  for (int r = 0; r < rows->count; r++)
    for (int k = 0; k < KINDS && rows->text[r] >= 0; k++) {
      const float want = whole[rows->text[r]][rows->place[r]][k], got = scores[r * KINDS + k];
      RengaCheck(fabsf(got - want) <= 1e-5F * (1 + fabsf(want)), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
                 "text %d, place %d, score %d: %.9g, not %.9g", (int)rows->text[r],
                 (int)rows->place[r], k, (double)got, (double)want);
    }
  return RENGA_SUCCESS;
}

/* What comes of a token depends neither on its row nor on the others, to the last bit. */
static RengaErrorCode KeepScores(const Rows *rows, const float scores[], bool again,
                                 float kept[][PLACES][KINDS])
{
  for (int r = 0; r < rows->count; r++) {
    if (rows->text[r] < 0) continue;
    float *own = kept[rows->text[r]][rows->place[r]];
    Expect(!again || memcmp(own, scores + r * KINDS, KINDS * sizeof *own) == 0);
    memcpy(own, scores + r * KINDS, KINDS * sizeof *own);
  }
  return RENGA_SUCCESS;
}

/* again: in another order */
static RengaErrorCode CheckScores(RengaComm comm, Parts *parts, bool again,
                                  float whole[][PLACES][KINDS])
{
  static float kept[TEXTS][PLACES][KINDS];
  float scores[ROWS * KINDS];
  int64_t next[TEXTS] = {0};
  for (int f = 0; f < FORWARDS; f++) {
    Rows rows = {.graph = parts->graph};
    for (int p = 0; p < 2; p++)
      for (int i = 0; i < given[f][p ^ again].count; i++) {
        const int text = given[f][p ^ again].text, r = rows.count++;
        rows.text[r] = text;
        rows.place[r] = next[text]++;
        rows.token[r] = TokenAt(text, rows.place[r]);
        rows.source[r] = LastOf(text);
      }
    while (rows.count % MICROBATCH) rows.text[rows.count++] = -1;
    const RengaBatch batch = {rows.count, ReadRows, &rows};
    RengaCall(RengaPipelineForward(parts->pipeline, &batch, "logits", scores));
    RengaCall(CompareRows(comm, &rows, scores, whole));
    if (RengaCommGetRank(comm) == 0) RengaCall(KeepScores(&rows, scores, again, kept));
  }
  return RENGA_SUCCESS;
}

/* lanes: of the decoder, of tensor ranks */
static RengaErrorCode CheckNetwork(RengaComm comm, const Network *network, int lanes, int tensor)
{
  static float whole[TEXTS][PLACES][KINDS];
  Parts parts = {0}, decoder = {0};
  const RengaBatch batch = {TEXTS, ReadWhole, NULL};
  const RengaPipelineParameter *list;
  int count, known;
  RengaCall(MakeWhole(comm, network, 1, &parts.graph));
  RengaCall(RengaGraphMakeDecoder(parts.graph, "tokens", TEXTS, &decoder.graph));
  RengaCall(RengaGraphSetLanes(decoder.graph, lanes));
  RengaCall(RengaGraphSetUp(decoder.graph));
  RengaCall(Open(comm, TEXTS, 1, 1, &parts));
  RengaCall(RengaPipelineForward(parts.pipeline, &batch, "logits", &whole[0][0][0]));
  RengaCall(RengaPipelineListParameters(parts.pipeline, &known, &list));
  RengaCall(Open(comm, ROWS, MICROBATCH, tensor, &decoder));
  RengaCall(RengaPipelineListParameters(decoder.pipeline, &count, &list));
  Expect(count == known);                 /* caches are none */
  for (int round = 0; round < 2; round++) /* places are written again */
    RengaCall(CheckScores(comm, &decoder, round > 0, whole));
  RengaCall(Close(&decoder));
  RengaCall(Close(&parts));
  return RENGA_SUCCESS;
}

/* ---- beside an encoder ---- */
static const Network t5 = {
    "t5:layers=2,hidden=16,heads=4,head_width=4,sequence=8,vocabulary=12,padding=1", BUILT, NULL};

typedef struct {
  RengaGraph graph;
  int64_t first;
} Sources;

static RengaErrorCode ReadPairs(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Sources *sources = user;
  const bool source = strcmp(RunField(sources->graph, field)->name, "source") == 0;
  for (int64_t i = 0; i < count * PLACES; i++) {
    const int64_t text = sources->first + first + i / PLACES, place = i % PLACES;
    ((int64_t *)buffer)[i] = source ? SourceAt(text, place) : TokenAt(text, place);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenEncoder(RengaComm comm, RengaGraph decoder, Parts *encoder)
{
  RengaCall(RengaGraphCreate(comm, &encoder->graph));
  RengaCall(RengaGraphLoad(encoder->graph, t5.name));
  RengaCall(RengaGraphKeepMemory(encoder->graph, decoder));
  RengaCall(RengaGraphSetUp(encoder->graph));
  RengaCall(Open(comm, 1, 1, 1, encoder));
  return RENGA_SUCCESS;
}

/* The encoder by itself, what it makes in the decoder's caches, and the decoder. */
static RengaErrorCode CheckEncoder(RengaComm comm, int tensor)
{
  static float whole[TEXTS][PLACES][KINDS], memory[2 * 2 * HEADS * PLACES * WIDTH];
  Parts parts = {0}, decoder = {0}, encoder = {0};
  RengaCall(MakeWhole(comm, &t5, 1, &parts.graph));
  RengaCall(RengaGraphMakeDecoder(parts.graph, "target", TEXTS, &decoder.graph));
  RengaCall(RengaGraphSetLanes(decoder.graph, tensor));
  RengaCall(RengaGraphSetUp(decoder.graph));
  RengaCall(OpenEncoder(comm, decoder.graph, &encoder));
  RengaCall(Open(comm, TEXTS, 1, 1, &parts));
  RengaCall(Open(comm, ROWS, MICROBATCH, tensor, &decoder));
  Sources sources = {.graph = parts.graph};
  const RengaBatch all = {TEXTS, ReadPairs, &sources};
  RengaCall(RengaPipelineForward(parts.pipeline, &all, "logits", &whole[0][0][0]));
  sources.graph = encoder.graph;
  for (sources.first = 0; sources.first < TEXTS; sources.first++) {
    const RengaBatch one = {1, ReadPairs, &sources};
    RengaCall(RengaPipelineForward(encoder.pipeline, &one, RENGA_DECODER_MEMORY, memory));
    RengaCall(RengaPipelineSetMemory(decoder.pipeline, sources.first, 0, memory));
  }
  for (int round = 0; round < 2; round++) RengaCall(CheckScores(comm, &decoder, round > 0, whole));
  if (RengaCommGetSize(comm) == 1) { /* rank 0 alone says why */
    TestError(RengaPipelineSetMemory(decoder.pipeline, TEXTS, 0, memory), RENGA_ERR_ARGUMENT,
              "text 2 from rank 0, of 2 texts with an encoder");
    TestError(RengaPipelineSetMemory(parts.pipeline, 0, 0, memory), RENGA_ERR_ARGUMENT,
              "of 0 texts with an encoder");
  }
  RengaCall(Close(&encoder));
  RengaCall(Close(&decoder));
  RengaCall(Close(&parts));
  return RENGA_SUCCESS;
}

/* ---- memory: what more texts take ---- */
static RengaErrorCode Forecast(RengaComm comm, const Network *network, int64_t texts, int tensor,
                               int64_t *bytes)
{
  RengaGraph whole = NULL;
  Parts decoder = {0};
  RengaPipelineMemory memory;
  RengaCall(MakeWhole(comm, network, 1, &whole));
  RengaCall(RengaGraphMakeDecoder(whole, "tokens", texts, &decoder.graph));
  RengaCall(RengaGraphSetLanes(decoder.graph, tensor));
  RengaCall(RengaGraphSetUp(decoder.graph));
  RengaCall(Open(comm, ROWS, MICROBATCH, tensor, &decoder));
  RengaCall(RengaPipelineGetMemory(decoder.pipeline, &memory));
  *bytes = memory.forecast;
  RengaCall(Close(&decoder));
  RengaCall(RengaGraphDestroy(&whole));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckForecast(RengaComm comm)
{
  static const Network gpt = {"gpt:layers=2,hidden=64,heads=4,sequence=8,vocabulary=12", BUILT,
                              NULL};
  const int ranks = RengaCommGetSize(comm);
  for (int tensor = 1; tensor <= ranks; tensor++) {
    int64_t few, many;
    RengaCall(Forecast(comm, &gpt, 1, tensor, &few));
    RengaCall(Forecast(comm, &gpt, 9, tensor, &many));
    const int64_t cache = 2 * 2 * 64 * PLACES * (int64_t)sizeof(float);
    Expect(many - few == 8 * cache / ranks);
  }
  return RENGA_SUCCESS;
}

/* ---- what is refused ---- */
static RengaErrorCode CheckRefused(RengaComm comm, const Network *network)
{
  RengaGraph graph = NULL, decoder = NULL;
  RengaCall(MakeWhole(comm, network, 1, &graph));
  TestError(RengaGraphMakeDecoder(graph, "tokens", 1, &decoder), RENGA_ERR_SUPPORT,
            network->refusal);
  Expect(decoder == NULL);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCaches(RengaGraph graph)
{
  const RengaTensorSpec fixed = {RENGA_FLOAT32, 2, {3, 4}}, open = {RENGA_FLOAT32, 2, {-1, 4}};
  RengaValue value;
  RengaCall(RengaGraphAddCache(graph, "kept", &fixed, &value));
  Expect(RengaGraphGetValue(graph, value)->kind == RENGA_VALUE_STATE);
  Expect(RengaGraphGetValue(graph, value)->cache);
  TestError(RengaGraphAddCache(graph, "other", &open, &value), RENGA_ERR_SHAPE,
            "the shape of parameter or state \"other\" depends on the batch");
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckArguments(RengaComm comm)
{
  static const Network network = {"distances", DISTANCES, NULL};
  RengaGraph graph = NULL, decoder = NULL;
  RengaCall(MakeWhole(comm, &network, 1, &graph));
  TestError(RengaGraphMakeDecoder(graph, "ids", 1, &decoder), RENGA_ERR_ARGUMENT,
            "the network has no input ids [batch, places]");
  TestError(RengaGraphMakeDecoder(graph, "tokens", 0, &decoder), RENGA_ERR_ARGUMENT,
            "a decoder is of one text or more (not 0)");
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaGraphCreate(comm, &graph));
  TestError(RengaGraphMakeDecoder(graph, "tokens", 1, &decoder), RENGA_ERR_ORDER,
            "RengaGraphSetUp");
  RengaCall(CheckCaches(graph));
  TestError(RengaGraphKeepMemory(graph, graph), RENGA_ERR_ARGUMENT,
            "the decoder attends to no encoder");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static const Network networks[] = {
    {"gpt:layers=2,hidden=16,heads=4,sequence=8,vocabulary=12", BUILT, NULL},
    {"gpt:layers=1,hidden=192,heads=4,sequence=8,vocabulary=12", BUILT, NULL},
    {"llama:layers=2,hidden=16,heads=4,groups=2,sequence=8,vocabulary=12", BUILT, NULL},
    {"distances", DISTANCES, NULL},
    {"window", WINDOW, NULL},
    {"capped", CAPPED, NULL},
    {"open", OPEN, "node \"attention\" (Attention) attends to later tokens"},
    {"mean", MEAN, "needs more than one token of a text"},
    {"bert:layers=1,hidden=16,heads=4,sequence=8,vocabulary=12", BUILT,
     "the network cannot be made token by token: node"},
};

static RengaErrorCode RunTest(void)
{
  RengaComm comm = NULL;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const int ranks = RengaCommGetSize(comm);
  for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++) {
    if (networks[n].refusal && ranks == 1) RengaCall(CheckRefused(comm, &networks[n]));
    if (networks[n].refusal) continue; /* rank 0 alone says why */
    RengaCall(CheckNetwork(comm, &networks[n], 1, 1));
    RengaCall(CheckNetwork(comm, &networks[n], 2, ranks));
  }
  RengaCall(CheckEncoder(comm, 1));
  RengaCall(CheckEncoder(comm, ranks));
  RengaCall(CheckForecast(comm));
  if (ranks == 1) RengaCall(CheckArguments(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
