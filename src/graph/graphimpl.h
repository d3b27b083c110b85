/* What the files of the graph's room share. */
#pragma once
#include "renga/private/graph.h"
#include "renga/private/lane.h"
#include "renga/private/object.h"
#include "renga/private/op.h"

typedef struct {
  char *graph, *view, *frozen, *trained, *dimension, *batch_inputs, *keep, *split, *lanes_text;
  RengaPrecision precision;
  int64_t whole_batch; /* samples; 0: the batch is cut into micro-batches */
  int64_t lanes;       /* that the network is computed in; 0, 1: it is not split */
  bool lanes_at_most;  /* fewer where a chain has fewer heads or columns */
  bool lanes_open;     /* a planner chooses them */
  int64_t token_lanes; /* the same, of the tokens of a sequence */
} RengaGraphOptions;

/* A node, and what only the graph itself needs to know of it. */
typedef struct {
  RengaGraphNode node;
  int64_t place; /* canonical form: new nodes take the place of the one that they stand for */
  bool dead;
  int wish;    /* RengaLaneWish: what -graph_split says of it */
  bool rows;   /* rowlanes.c: it cuts or puts together rows that a lane reads */
  bool term;   /* lanesums.c: it makes a term of what lanes add up, or an inner sum, */
  bool pieces; /* or cuts terms, adds or puts together their pieces */
} RengaGraphEntry;

/* Lists of patterns. */
enum { RENGA_GRAPH_OF_TRAINED, RENGA_GRAPH_OF_FROZEN, RENGA_GRAPH_OF_KEPT, RENGA_GRAPH_LISTS };

/* Of a graph that is set up. */
typedef struct {
  uint64_t digest;             /* 0: not worked out since it changed */
  int *reading_from, *reading; /* by value (readers.c); NULL: the same */
  RengaGraphRows *rows;        /* readers.c; NULL: the same */
} RengaGraphKnown;

/* Of the last block of scratch what is left for small pieces. */
typedef struct {
  char *next;
  size_t left;
} RengaGraphPieces;

/* What of a network is in no lane. */
typedef struct {
  int chains;
  int64_t units; /* heads or columns of the first of the chains */
  double share;  /* of the FLOPs of products */
  char name[128];
} RengaGraphWhole;

/* division.h */
typedef struct RengaGraphParts RengaGraphParts;

/* Bits. What of each sample is wanted: norms of gradients are in place of the losses. PACKS, RELUS:
   a stage is for a device that has kernels for these of its forms (packed.c, padded.c, normalize.c,
   convolve.c). */
enum {
  RENGA_GRAPH_SAMPLE_LOSSES = 1,
  RENGA_GRAPH_GRADIENT_NORMS = 2,
  RENGA_GRAPH_PACKS = 4,
  RENGA_GRAPH_RELUS = 8
};

struct _p_RengaGraph {
  struct _p_RengaObject hdr;
  RengaGraphOptions options;
  int n_values, size_values, n_nodes, size_nodes, n_outputs, n_uses, n_updates, n_scratch;
  RengaGraphValue **value;
  RengaGraphEntry **entry;
  int n_slots, *slot; /* open addressing by name: value + 1, 0 where free */
  RengaValue *output, loss;
  RengaValue seed; /* of reverse mode: the scale of the loss; NONE: it is 1 */
  RengaParameterUse *use;
  RengaStateUpdate *update;
  int64_t file_batch;
  int in_lanes[RENGA_LANE_KINDS];  /* nodes that lanes compute, */
  int lane_sums[RENGA_LANE_KINDS]; /* and those of them whose terms are added */
  RengaGraphWhole few,
      fewest;            /* chains that stay whole, as lanes are more than their units; fewest:
                                  those for which lanes became half as many the last time */
  RengaGraphWhole whole; /* lanes of tokens: products that stay so, and the node that they follow */
  RengaGraphLora *lora;  /* with its targets; NULL: there are no adapters */
  RengaGraphParts *parts;             /* NULL: it is not divided */
  uint64_t fitted[RENGA_GRAPH_LISTS]; /* which patterns of a list have fitted a name, by bit */
  int64_t place;                      /* of nodes added now; -1: the end */
  int id;                             /* of nodes added now; -1: their position */
  RengaPhase phase;                   /* of nodes added now */
  int *readers; /* while the graph is rewritten: how often each value is read */
  RengaGraphKnown known;
  unsigned flags;     /* RENGA_GRAPH_SAMPLE_LOSSES and so on */
  int sample_losses;  /* number among the outputs, once it is set up */
  RengaGraph unsplit; /* lanecount.c: before it was in lanes; NULL: their number is fixed */
  char mixed[768];    /* why it cannot be cut into micro-batches; empty: that was not found */
  void **scratch;     /* freed with the graph, or by RengaGraphFreeScratch */
  RengaGraphPieces pieces;
};

/* ---- value.c, node.c: the lists ---- */
RengaErrorCode RengaGraphCheckValue(RengaGraph graph, RengaValue value);
RengaErrorCode RengaGraphNewValue(RengaGraph graph, const char *name, RengaValueKind kind,
                                  const RengaTensorSpec *spec, RengaValue *value);
/* Elements [first, first + count) of a state of one dimension, as a state of their own. */
RengaErrorCode RengaGraphAddStatePart(RengaGraph graph, const char *name, RengaValue whole,
                                      int64_t first, int64_t count, RengaValue *part);
RengaErrorCode RengaGraphUniqueName(RengaGraph graph, const char *wanted, size_t size, char name[]);
RengaErrorCode RengaGraphRebuildNames(RengaGraph graph);
void RengaGraphFreeValue(RengaGraphValue **value);
/* First values, and those of a constant; what the other one had is not freed. */
RengaErrorCode RengaGraphCopyContents(const RengaGraphValue *from, RengaGraphValue *to);
void RengaGraphFreeEntry(RengaGraphEntry **entry);
int RengaGraphBatchDimension(const RengaTensorSpec *spec); /* -1: there is none */
bool RengaGraphHasBatch(RengaGraph graph, RengaValue value);
static inline const RengaTensorSpec *RengaGraphSpec(RengaGraph graph, RengaValue value)
{
  return &graph->value[value]->spec;
}
/* The node itself, to be changed. */
static inline RengaGraphNode *RengaGraphEntryNode(RengaGraph graph, int node)
{
  return &graph->entry[node]->node;
}
/* Behind the others, with the numbers of values that it has. */
RengaErrorCode RengaGraphCopyEntry(const RengaGraphEntry *from, RengaGraph to);
/* As RengaGraphAddNode, but the outputs that are not NONE in out[] are values that exist. */
RengaErrorCode RengaGraphInsertNode(RengaGraph graph, const char *op, const char *name,
                                    const RengaAttributes *attributes, int n_in,
                                    const RengaValue in[], int n_out, const RengaTensorSpec given[],
                                    RengaValue out[]);
/* The concrete call of a node; the specs are scratch of the call, freed by RengaGraphFreeCall. */
RengaErrorCode RengaGraphMakeCall(RengaGraph graph, const RengaGraphNode *node, int64_t batch,
                                  RengaOpCall *call);
void RengaGraphFreeCall(RengaOpCall *call);

/* ---- graph.c ---- */
RengaErrorCode RengaGraphAllocateScratch(RengaGraph graph, int64_t count, size_t size,
                                         void *pointer_to_pointer);
void RengaGraphFreeScratch(RengaGraph graph);
/* options.c */
RengaErrorCode RengaGraphReadOptions(RengaGraph graph); /* of the data base */
RengaErrorCode RengaGraphFreeOptions(RengaGraph graph);
RengaErrorCode RengaGraphCopyOptions(RengaGraph from, RengaGraph to); /* to: an empty graph */
/* lora.c: the same of its options */
RengaErrorCode RengaGraphRegisterLora(void);
RengaErrorCode RengaGraphReadLora(RengaGraph graph);
RengaErrorCode RengaGraphCopyLora(RengaGraph from, RengaGraph to);
void RengaGraphFreeLora(RengaGraph graph);
RengaErrorCode RengaGraphAddAdapters(RengaGraph graph);
/* division.c: the same of its options; */
RengaErrorCode RengaGraphRegisterDivision(void);
RengaErrorCode RengaGraphReadDivision(RengaGraph graph);
RengaErrorCode RengaGraphCopyDivision(RengaGraph from, RengaGraph to);
void RengaGraphFreeDivision(RengaGraph graph);
/* the name that a value or node has in the part that is built, if one is: text, or as it was; */
RengaErrorCode RengaGraphNameOfPart(RengaGraph graph, const char **name, size_t size, char text[]);
/* is it, so that an input of an earlier one is meant again? */
bool RengaGraphIsPart(RengaGraph graph);
/* the end of what a builder makes: *is where it was a part; */
RengaErrorCode RengaGraphFinishPart(RengaGraph graph, RengaValue loss, RengaValue scores, bool *is);
/* an error where a file is to be divided. */
RengaErrorCode RengaGraphRefuseParts(RengaGraph graph, const char *file);
/* divide.c: at least 1; of heads the width stays, where their number can be divided. */
int64_t RengaGraphNarrow(int64_t width, double share);
void RengaGraphNarrowHeads(double share, int64_t *hidden, int64_t *heads);
static inline bool RengaGraphHasAdapters(RengaGraph graph)
{
  return graph->lora && graph->lora->rank > 0;
}
#define RengaGraphScratch(graph, count, pointer)                                                   \
  RengaGraphAllocateScratch(graph, (int64_t)(count), sizeof **(pointer), pointer)
/* What follows reads the marks; node names the place of an error. */
#define RengaGraphRefuse(node, code, ...)                                                          \
  return RengaGraphError(node, code, __func__, __FILE__, __LINE__, __VA_ARGS__), (code)
RengaErrorCode RengaGraphError(const RengaGraphNode *node, RengaErrorCode code,
                               const char *function, const char *file, int line, const char *format,
                               ...) __attribute__((format(printf, 6, 7)));
/* The node mixes the samples of the batch. Collective: the graph's rank 0 reports. */
#define RengaGraphRefuseMixed(graph, node, ...)                                                    \
  return RengaGraphMixedError(graph, node, __func__, __FILE__, __LINE__, __VA_ARGS__),             \
         RENGA_ERR_GRAPH
RengaErrorCode RengaGraphMixedError(RengaGraph graph, const RengaGraphNode *node,
                                    const char *function, const char *file, int line,
                                    const char *format, ...) __attribute__((format(printf, 6, 7)));

/* ---- canonical form ---- */
RengaErrorCode RengaGraphCountReaders(RengaGraph graph);
RengaErrorCode RengaGraphRemoveDead(RengaGraph graph);
void RengaGraphKillNode(RengaGraph graph, int node); /* needs counted readers */
RengaErrorCode RengaGraphSimplify(RengaGraph graph);
RengaErrorCode RengaGraphFuse(RengaGraph graph);
RengaErrorCode RengaGraphRewriteMeans(RengaGraph graph);
RengaErrorCode RengaGraphKeepUnsplit(RengaGraph graph); /* lanecount.c */
RengaErrorCode RengaGraphSplit(RengaGraph graph);       /* the steps from here to the end */
RengaErrorCode RengaGraphTakeSteps(RengaGraph graph, int count,
                                   RengaErrorCode (*const step[])(RengaGraph graph));
RengaErrorCode RengaGraphSplitLanes(RengaGraph graph);  /* -graph_lanes: lanes.c */
RengaErrorCode RengaGraphSplitTokens(RengaGraph graph); /* -graph_token_lanes: tokenlanes.c */
RengaErrorCode RengaGraphCompleteOutputs(RengaGraph graph);
RengaErrorCode RengaGraphSortNodes(RengaGraph graph);
RengaErrorCode RengaGraphCompactValues(RengaGraph graph);
RengaErrorCode RengaGraphMarkValues(RengaGraph graph); /* prepared, differentiable, frozen */
RengaErrorCode RengaGraphSetKeys(RengaGraph graph);
/* ---- lanesums.c ---- */
/* The lane that makes the value; 0: none, or it is not made. */
int RengaGraphLaneOfMaker(RengaGraph graph, RengaValue value);
int RengaGraphPieceDimension(const RengaTensorSpec *spec, int lanes, size_t term, size_t sum);
/* In what the gradient of a value is kept that lanes have added up. */
RengaDataType RengaGraphTypeOfLaneSum(RengaGraph graph, RengaValue value);
RengaErrorCode RengaGraphCutPieces(RengaGraph graph, const char *name, RengaValue term, int dim,
                                   int lanes, RengaValue piece[]);
RengaErrorCode RengaGraphJoinPieces(RengaGraph graph, const char *name, int dim, int lanes,
                                    const RengaValue piece[], RengaValue *whole);
/* outputs.c: or the loss */
bool RengaGraphIsOutput(RengaGraph graph, RengaValue value);
/* ---- packed.c ---- */
typedef struct {
  RengaValue in[4], out;
  int64_t heads, groups; /* groups: heads of keys and values */
  int n_left, left[20];  /* nodes that a stage does not need then: 6 of an input, 2 of the output */
} RengaGraphPacked;
/* Node n of a stage [first, last), if it is an attention that can be packed; readers are known. */
bool RengaGraphFindPacked(RengaGraph graph, int first, int last, int n, RengaGraphPacked *packed);
int RengaGraphFindAddedNorm(RengaGraph graph, int last, int n);
int RengaGraphFindRelu(RengaGraph graph, int last, int n);
/* ---- padded.c ---- */
/* Columns that scores, which a product makes for a loss, get behind theirs; readers are known. */
int64_t RengaGraphFindPadding(RengaGraph graph, RengaValue scores);
/* That product, the node of another graph, from these inputs. */
RengaErrorCode RengaGraphInsertPadded(RengaGraph graph, const RengaGraphNode *node,
                                      const RengaValue in[], int64_t zeros, RengaValue scores,
                                      RengaValue *padded);
/* ---- channelslast.c ---- */
/* How a node may have images [N,H,W,C]: WINDOW: by attribute channels_last; MEAN: over space. */
typedef enum { IMAGES_NONE, IMAGES_WINDOW, IMAGES_MEAN, IMAGES_JOIN, IMAGES_EACH } RengaGraphImages;
RengaGraphImages RengaGraphFindImages(RengaGraph graph, int n);
bool RengaGraphIsImageOf(RengaGraph graph, const RengaGraphNode *node, RengaGraphImages kind,
                         RengaValue value);
RengaErrorCode RengaGraphTurnAttributes(const RengaGraphNode *node, RengaGraphImages kind,
                                        RengaAttributes *attributes); /* to be freed, always */
/* [N,H,W,C] of [N,C,H,W], or back; turned: a value that exists, or NONE. */
RengaErrorCode RengaGraphTurnImage(RengaGraph graph, RengaValue image, bool back,
                                   RengaValue *turned);
void RengaGraphStoreLike(const RengaGraphValue *from, RengaGraphValue *to);
/* ---- precision.c: stored types ---- */
RengaErrorCode RengaGraphMarkWide(RengaGraph graph);
RengaErrorCode RengaGraphChooseStored(RengaGraph graph);
RengaErrorCode RengaGraphStoreGradients(RengaGraph graph, const RengaGraphNode *forward, int first,
                                        RengaValue dx[]);
RengaErrorCode RengaGraphChooseTrained(RengaGraph graph);
enum { RENGA_GRAPH_PATTERN = 512 };
bool RengaGraphNextPattern(const char **list, char pattern[RENGA_GRAPH_PATTERN]);
RengaErrorCode RengaGraphCheckShares(RengaGraph graph);
RengaErrorCode RengaGraphCheckSamples(RengaGraph graph);
/* ---- sampleloss.c ---- */
RengaErrorCode RengaGraphAddSampleLosses(RengaGraph graph);
RengaErrorCode RengaGraphFindUpdates(RengaGraph graph);
/* ---- statistics.c ---- */
/* Of how many values a statistic is: of each sample, or of a batch that is never cut. */
typedef struct {
  int64_t sample, whole;
} RengaStatisticsSize;
RengaStatisticsSize RengaGraphStatisticsOf(RengaGraph graph, const RengaGraphNode *node);
RengaErrorCode RengaGraphFindAllReaders(RengaGraph graph);
/* What is known of a graph, as it changes. */
void RengaGraphForget(RengaGraph graph);
RengaErrorCode RengaGraphFindReaders(RengaGraph graph);

/* ---- builders: networks by size; build reads a struct that the rows of settings filled ---- */
typedef struct {
  const char *name;
  size_t size; /* of the struct */
  int n_settings;
  const RengaOptionRow *settings;
  RengaErrorCode (*build)(RengaGraph graph, const void *settings);
  /* its widths become that share of what they are; NULL: it cannot be divided */
  RengaErrorCode (*narrow)(void *settings, double share);
} RengaGraphBuilder;
/* divide.c: the network, or its parts. */
RengaErrorCode RengaGraphBuildParts(RengaGraph graph, const RengaGraphBuilder *builder,
                                    const void *settings);
extern const RengaGraphBuilder RengaGraphBuilderBert, RengaGraphBuilderGpt, RengaGraphBuilderLlama,
    RengaGraphBuilderMlp, RengaGraphBuilderNcf, RengaGraphBuilderResnet, RengaGraphBuilderT5,
    RengaGraphBuilderTransformer;

/* More of a network than this is said to stay whole. */
#define RENGA_GRAPH_MUCH_WHOLE 0.2

/* ---- reverse mode ---- */
typedef enum {
  RENGA_GRADIENT_NONE, /* no rule: refused where a gradient is asked for */
  RENGA_GRADIENT_ZERO, /* piecewise constant: nothing flows */
  RENGA_GRADIENT_RULE,
} RengaGradientKind;
RengaGradientKind RengaGraphGetGradientKind(const RengaOperator *op);
