/* What readers of files and planners need of a graph besides its public functions. */
#pragma once
#include "rengagraph.h"
#include "renga/private/lane.h"

/* Reads an ONNX file into an empty graph. */
RengaErrorCode RengaGraphReadOnnx(RengaGraph graph, const char *file);
/* The batch size the file was exported with; 0: open. */
RengaErrorCode RengaGraphSetFileBatch_Private(RengaGraph graph, int64_t batch);
/* The size that -graph_dimension gives to a symbolic dimension of a file; 0: none given. */
RengaErrorCode RengaGraphGetDimension_Private(RengaGraph graph, const char *name, int64_t *size);
/* The samples of a batch would be mixed: why, in a sentence that is remembered (RengaGraphGetMixed)
   and raised with what may be done. Collective: the graph's rank 0 reports. */
RengaErrorCode RengaGraphRaiseMixed_Private(RengaGraph graph, RengaErrorCode code,
                                            const char *function, const char *file, int line,
                                            const char *why);
/* Of a graph that is set up; nodes: or NULL. */
void RengaGraphCountLanes_Private(RengaGraph graph, RengaLaneKind kind, int *lanes, int *nodes);
/* Of each kind of lanes: the options that make them and share them out over ranks, and what these
   ranks are called. */
typedef struct {
  const char *lanes, *share, *ranks;
} RengaLaneWords;
extern const RengaLaneWords RengaLaneWords_Private[RENGA_LANE_KINDS];
/* Its number of lanes is chosen by whoever plans, which asks for the network in others: what
   RengaGraphSetUp would make; NULL: it does not have so many heads or columns. To choose one the
   contents of both are exchanged, and values found before mean nothing then. */
bool RengaGraphLanesAreOpen_Private(RengaGraph graph);
bool RengaGraphTokensAreOpen_Private(RengaGraph graph);
RengaErrorCode RengaGraphInLanes_Private(RengaGraph graph, int lanes, int tokens, RengaGraph *made);
void RengaGraphExchange_Private(RengaGraph one, RengaGraph other);
/* In what the gradient of a value is kept, and sent. */
RengaDataType RengaGraphTypeOfGradient_Private(RengaGraph graph, RengaValue of);
/* Of the gradient of a value that lanes read: bytes of an element of a lane's term, and of the sum.
   in_pieces: ranks scatter the terms and gather the sum (src/graph/lanesums.c). */
typedef struct {
  size_t term, sum;
  bool in_pieces;
} RengaGraphLaneGradient;
RengaGraphLaneGradient RengaGraphGetLaneGradient_Private(RengaGraph graph, RengaValue value);
/* The node cuts, adds or puts together pieces of a sum of lanes, which backward does not do. */
bool RengaGraphIsOfPieces_Private(RengaGraph graph, int node);
/* Gives an activation another name, which no other value has: a file's outputs keep theirs. */
RengaErrorCode RengaGraphRenameValue_Private(RengaGraph graph, RengaValue value, const char *name);
/* The nodes that read a value, in their order, each as often as it does; lent until the graph
   changes. */
RengaErrorCode RengaGraphGetReaders_Private(RengaGraph graph, RengaValue value, int *count,
                                            const int **node);
/* Nodes and values in one piece, for those who go through all of them many times; lent until the
   graph changes. */
typedef struct {
  const RengaOperator *op;
  const RengaValue *in, *out;
  int n_in, n_out, lane;
  RengaPhase phase;
} RengaGraphRow;
typedef struct {
  int producer;
  RengaValueKind kind;
  bool prepared, differentiable;
} RengaGraphSource;
typedef struct {
  RengaGraphRow *node;      /* [nodes] */
  RengaGraphSource *source; /* [values] */
  int *last;                /* [values] the last node that reads it and is not prepared; or -1 */
  int n_leaves;
  RengaValue *leaf;  /* [n_leaves] all but activations, in order */
  int forward, read; /* nodes up to the last of forward, and values up to the last of these */
} RengaGraphRows;
RengaErrorCode RengaGraphGetRows_Private(RengaGraph graph, const RengaGraphRows **rows);
/* A prepared node is cloned into each stage that needs it, and counts nowhere. */
/* A cache of a decoder that RengaPipelineSetMemory fills. */
bool RengaGraphIsMemory_Private(const RengaGraphValue *value);
bool RengaGraphNodeIsPrepared_Private(RengaGraph graph, const RengaGraphNode *node);
/* What -graph_trained and -graph_frozen say of a parameter of a file. */
typedef enum { RENGA_GRAPH_UNSAID, RENGA_GRAPH_TRAINED, RENGA_GRAPH_FROZEN } RengaGraphChoice;
RengaGraphChoice RengaGraphChoose_Private(RengaGraph graph, const char *name);
/* The parameter is not trained, unless -graph_trained says so. */
RengaErrorCode RengaGraphFreeze_Private(RengaGraph graph, RengaValue parameter);
/* Forms that a stage has where it may, for a device that has kernels of them, as bits. PACKED:
   attentions become PackedAttention, rows of scores multiples of 16 bytes, a sum and its norm one
   node, and gradients of norms are added to what there is. RELU: BatchNormalization, a sum and ReLU
   are one node, and gradients of convolutions' inputs are added to what there is in float32. LAST:
   images are [N,H,W,C] (channelslast.c); the stage's inputs and outputs are as ever. */
enum { RENGA_FORM_PACKED = 1, RENGA_FORM_RELU = 2, RENGA_FORM_LAST = 4 };
/* As RengaGraphGetSubgraph, in these forms. */
RengaErrorCode RengaGraphGetStage_Private(RengaGraph graph, int first, int last, unsigned forms,
                                          RengaGraph *subgraph);
RengaErrorCode RengaGraphGetStateUpdates(RengaGraph graph, int *count,
                                         const RengaStateUpdate **updates); /* lent */
RengaErrorCode RengaGraphGetSeed(RengaGraph graph, RengaValue *seed);       /* NONE: it is 1 */
