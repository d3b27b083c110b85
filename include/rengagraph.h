/* Graph: a network as values and nodes in one fixed order; reverse mode; stages of it. */
#pragma once
#include "rengaop.h"

RENGA_BEGIN_DECLS

/* A network: values, and the nodes that make them, in one fixed order. */
typedef struct _p_RengaGraph *RengaGraph;
/* The number of a value in its graph. */
typedef int RengaValue;
#define RENGA_VALUE_NONE (-1) /* in place of a value: there is none */

/* What a value of a graph is. */
typedef enum {
  RENGA_VALUE_INPUT,      /* from the data set, or (boundary) from another stage */
  RENGA_VALUE_PARAMETER,  /* float32, trained */
  RENGA_VALUE_STATE,      /* float32, kept across steps but not trained: running statistics */
  RENGA_VALUE_CONSTANT,   /* data in the graph */
  RENGA_VALUE_ACTIVATION, /* made by a node */
} RengaValueKind;

/* How a parameter or state gets its first values: drawn by name and seed, or read from a file. */
typedef enum {
  RENGA_INIT_CONSTANT, /* one number */
  RENGA_INIT_NORMAL,   /* drawn from a normal distribution */
  RENGA_INIT_UNIFORM,  /* drawn from an interval */
  RENGA_INIT_FILE,     /* read from a file */
  RENGA_INIT_SINUSOIDS /* of places: sines, then cosines (Vaswani et al. 2017) */
} RengaInitKind;
/* The first values of one parameter or state. */
typedef struct {
  RengaInitKind kind;    /* which of the members below count */
  double a, b;           /* constant a; normal mean a deviation b; uniform in [a, b) */
  char *file;            /* RENGA_INIT_FILE: raw little-endian data, owned */
  int64_t offset, bytes; /* in file; bytes 0: from offset to what the shape needs */
  RengaDataType type;    /* as stored in the file */
  double (*map)(double); /* of each number of the file, to which a is added; NULL: the number */
} RengaInit;

/* A factor of what -graph_lora adds to a weight [outputs, inputs], or to one [inputs, outputs]. */
typedef enum { RENGA_ADAPTER_NONE, RENGA_ADAPTER, RENGA_ADAPTER_TRANSPOSED } RengaAdapterKind;
/* Read-only views, lent by the graph until it changes. */
typedef struct {
  char *name;                    /* in the network */
  RengaValueKind kind;           /* where it comes from */
  RengaTensorSpec spec;          /* symbolic: -c is c times the batch; its type is the network's */
  RengaDataType stored;          /* the type that its elements are kept in while the network runs */
  RengaDataType stored_gradient; /* and those of its gradient, where it has samples */
  int producer;                  /* node, -1 where none */
  int output;                    /* which output of the producer */
  bool prepared;       /* depends on no parameter, state or random number: cloned into stages */
  bool differentiable; /* floating and depends on a parameter that is not frozen */
  bool frozen;         /* a parameter that is not updated */
  bool cache;          /* a state that is written before it is read, and that no file holds */
  bool in_order;       /* in the dimension of the batch one sample follows another, once through */
  RengaInit init;      /* first values of a parameter or state */
  void *data;          /* of a constant, owned */
  RengaValue whole;    /* of a state that a lane has: the state that it is a part of; else NONE */
  int64_t first;       /* and the element of that with which it begins */
  RengaAdapterKind adapter; /* of a parameter */
} RengaGraphValue;

/* The part of a step that a node belongs to. */
typedef enum {
  RENGA_PHASE_FORWARD,        /* the network itself */
  RENGA_PHASE_BACKWARD_INPUT, /* gradients of what arrives, which go on to earlier stages */
  RENGA_PHASE_BACKWARD_WEIGHT /* gradients of parameters, which no other stage waits for */
} RengaPhase;
/* One use of an operator in a graph: a view that the graph lends until it changes. */
typedef struct {
  char *name;                 /* in the network */
  const RengaOperator *op;    /* what it computes */
  RengaAttributes attributes; /* settings of the operator */
  int n_in, n_out;            /* numbers of inputs and outputs */
  RengaValue *in, *out;       /* RENGA_VALUE_NONE where absent */
  RengaPhase phase;           /* the part of a step */
  int id; /* position in the whole network, in subgraphs too; of a gradient: its forward node's */
  bool wide; /* -precision_keep names it: what it makes is kept as the network says */
  int lane;  /* which lanes it, or what it is the gradient of, is computed in; 0: in all of them */
} RengaGraphNode;

RengaErrorCode RengaGraphCreate(RengaComm comm, RengaGraph *graph);
RengaErrorCode RengaGraphSetFromOptions(RengaGraph graph); /* -graph FILE.onnx or name:key=… */
RengaErrorCode RengaGraphLoad(RengaGraph graph, const char *what); /* the same, from a program */
RengaErrorCode RengaGraphSetFrozen(RengaGraph graph, const char *patterns); /* -graph_frozen */
RengaErrorCode RengaGraphSetTrained(RengaGraph graph, const char *patterns);
RengaErrorCode RengaGraphGetTrained(RengaGraph graph, const char **trained,
                                    const char **frozen); /* lent */
/* -graph_lora -graph_lora_targets -graph_lora_alpha -graph_lora_dropout: products that are trained
   by two small factors each, and all else is frozen (Hu et al. 2022) */
typedef struct {
  int64_t rank;        /* 0: none */
  double alpha;        /* factors count alpha / rank times; 0: the rank */
  double dropout;      /* share of the inputs of the factors that training sets to zero */
  const char *targets; /* patterns of names, or of their ends behind a point: "q_proj,v_proj" */
} RengaGraphLora;
RengaErrorCode RengaGraphSetLora(RengaGraph graph, const RengaGraphLora *lora);
RengaErrorCode RengaGraphGetLora(RengaGraph graph, RengaGraphLora *lora); /* lent */
/* -graph_divide S -graph_divide_weight W: narrow networks, each as wide as the one that is named
   divided by the root of S, are trained together (FedDCT, Nguyen et al. 2023) */
typedef struct {
  int64_t parts; /* 1: one network */
  double weight; /* of the Jensen-Shannon divergence of their probabilities, in the loss */
} RengaGraphDivision;
RengaErrorCode RengaGraphSetDivision(RengaGraph graph, const RengaGraphDivision *division);
RengaErrorCode RengaGraphGetDivision(RengaGraph graph, RengaGraphDivision *division);
/* The output of a divided network: the logarithm of its parts' mean probability. */
#define RENGA_GRAPH_MEAN_OF_PARTS "mean_of_parts"
RengaErrorCode RengaGraphSetWholeBatch(RengaGraph graph, int64_t samples);
RengaErrorCode RengaGraphGetWholeBatch(RengaGraph graph, int64_t *samples);
RengaErrorCode RengaGraphGetMixed(RengaGraph graph, const char **why); /* lent */
RengaErrorCode RengaGraphGetBatchStatistics(RengaGraph graph, int *count, int *node,
                                            int64_t *values);
RengaErrorCode RengaGraphSetDimension(RengaGraph graph, const char *dimensions);
RengaErrorCode RengaGraphGetDimension(RengaGraph graph, const char **dimensions); /* lent */
RengaErrorCode RengaGraphSetBatchInputs(RengaGraph graph, const char *inputs);
RengaErrorCode RengaGraphGetBatchInputs(RengaGraph graph, const char **inputs); /* lent */
RengaErrorCode RengaGraphSetPrecision(RengaGraph graph, RengaPrecision precision, const char *keep);
RengaErrorCode RengaGraphGetPrecision(RengaGraph graph, RengaPrecision *precision);
RengaErrorCode RengaGraphSetSplit(RengaGraph graph, const char *patterns);  /* -graph_split */
RengaErrorCode RengaGraphGetSplit(RengaGraph graph, const char **patterns); /* lent */
RengaErrorCode RengaGraphSetLanes(RengaGraph graph, int lanes);
RengaErrorCode RengaGraphGetLanes(RengaGraph graph, int *lanes, int *nodes); /* nodes: or NULL */
RengaErrorCode RengaGraphSetTokenLanes(RengaGraph graph, int lanes);
RengaErrorCode RengaGraphGetTokenLanes(RengaGraph graph, int *lanes, int *nodes);
RengaErrorCode RengaGraphSetUp(RengaGraph graph);
RengaErrorCode RengaGraphView(RengaGraph graph, RengaViewer viewer); /* ascii, dot, json */
RengaErrorCode RengaGraphDestroy(RengaGraph *graph);

/* Build. All return the new value; names must be unique (NULL: made from the operator). */
RengaErrorCode RengaGraphAddInput(RengaGraph graph, const char *name, const RengaTensorSpec *spec,
                                  RengaValue *value);
RengaErrorCode RengaGraphAddParameter(RengaGraph graph, const char *name,
                                      const RengaTensorSpec *spec, const RengaInit *init,
                                      RengaValue *value);
RengaErrorCode RengaGraphAddState(RengaGraph graph, const char *name, const RengaTensorSpec *spec,
                                  const RengaInit *init, RengaValue *value);
RengaErrorCode RengaGraphAddCache(RengaGraph graph, const char *name, const RengaTensorSpec *spec,
                                  RengaValue *value);
RengaErrorCode RengaGraphAddConstant(RengaGraph graph, const char *name,
                                     const RengaTensorSpec *spec, const void *data,
                                     RengaValue *value); /* copied */
RengaErrorCode RengaGraphAddNode(RengaGraph graph, const char *op, const char *name,
                                 const RengaAttributes *attributes, int n_in, const RengaValue in[],
                                 int n_out, const RengaTensorSpec given[], RengaValue out[]);
RengaErrorCode RengaGraphAddOutput(RengaGraph graph, RengaValue value); /* kept, may be read */
RengaErrorCode RengaGraphSetLoss(RengaGraph graph, RengaValue value);   /* scalar */
RengaErrorCode RengaGraphSetSampleLosses(RengaGraph graph, bool wanted);
RengaErrorCode RengaGraphSetSampleNorms(RengaGraph graph, bool wanted);
RengaErrorCode RengaGraphGetSampleLosses(RengaGraph graph, RengaValue *value); /* NONE: none */
RengaErrorCode RengaGraphKeepOutputs(RengaGraph graph, int count, const char *const names[]);
/* The usual layers of a network, each one or a few nodes. x is [..., width]. */
RengaErrorCode RengaGraphAddMatMul(RengaGraph graph, RengaValue a, RengaValue b, RengaValue *y);
RengaErrorCode RengaGraphAddLinear(RengaGraph graph, const char *name, RengaValue x, int64_t width,
                                   bool bias, double deviation, RengaValue *y);
RengaErrorCode RengaGraphAddAdd(RengaGraph graph, RengaValue a, RengaValue b, RengaValue *y);
RengaErrorCode RengaGraphAddUnary(RengaGraph graph, const char *op, RengaValue x, RengaValue *y);
RengaErrorCode RengaGraphAddReshape(RengaGraph graph, RengaValue x, int ndim, const int64_t dim[],
                                    RengaValue *y);
RengaErrorCode RengaGraphAddTranspose(RengaGraph graph, RengaValue x, const int64_t permutation[],
                                      RengaValue *y);
RengaErrorCode RengaGraphAddLayerNormalization(RengaGraph graph, const char *name, RengaValue x,
                                               double epsilon, RengaValue *y);
RengaErrorCode RengaGraphAddBatchNormalization(RengaGraph graph, const char *name, RengaValue x,
                                               double epsilon, double momentum, RengaValue *y);
RengaErrorCode RengaGraphAddConvolution(RengaGraph graph, const char *name, RengaValue x,
                                        int64_t channels, int64_t kernel, int64_t stride,
                                        int64_t pad, bool bias, RengaValue *y);
RengaErrorCode RengaGraphAddEmbedding(RengaGraph graph, RengaValue table, RengaValue indices,
                                      RengaValue *y);
RengaErrorCode RengaGraphAddDropout(RengaGraph graph, RengaValue x, double ratio, RengaValue *y);
RengaErrorCode RengaGraphAddAttention(RengaGraph graph, RengaValue q, RengaValue k, RengaValue v,
                                      bool causal, double dropout, RengaValue *y);
RengaErrorCode RengaGraphAddCrossEntropy(RengaGraph graph, RengaValue scores, RengaValue labels,
                                         int64_t ignore_index, RengaValue *loss);

/* Look. */
int RengaGraphGetNodeCount(RengaGraph graph);
int RengaGraphGetValueCount(RengaGraph graph);
const RengaGraphNode *RengaGraphGetNode(RengaGraph graph, int node);
const RengaGraphValue *RengaGraphGetValue(RengaGraph graph, RengaValue value);
RengaValue RengaGraphFindValue(RengaGraph graph, const char *name);
/* As it is kept: of its stored type, and of the shape that it has with so many samples. */
RengaTensorSpec RengaGraphStoredAt(const RengaGraphValue *value, int64_t samples);
/* Lent. */
RengaErrorCode RengaGraphGetOutputs(RengaGraph graph, int *count, const RengaValue **values);
RengaErrorCode RengaGraphGetLoss(RengaGraph graph, RengaValue *value); /* NONE: there is none */
RengaErrorCode RengaGraphGetFileBatch(RengaGraph graph, int64_t *batch);
/* How large a network is, all nodes together. */
typedef struct {
  int64_t parameters;      /* elements */
  double forward_flops;    /* per sample */
  double activation_bytes; /* per sample, outputs of all forward nodes */
} RengaGraphTotals;
RengaErrorCode RengaGraphGetTotals(RengaGraph graph, RengaGraphTotals *totals);
RengaErrorCode RengaGraphGetNodeFlops(RengaGraph graph, int node, int64_t batch, double *flops);
uint64_t RengaGraphGetDigest(RengaGraph graph); /* of names, shapes, operators, attributes */
RengaErrorCode RengaGraphInitializeValue(RengaGraph graph, RengaValue value, uint64_t seed,
                                         int64_t first, int64_t count, float out[]);

/* The network token by token: what its attentions read of earlier tokens is kept in caches. A
   sample is one token of one of so many texts, with the text's number and the token's place. */
#define RENGA_DECODER_TEXT "decoder:text"   /* input [samples]: -1: of none, its scores are none */
#define RENGA_DECODER_PLACE "decoder:place" /* input [samples], from 0 */
RengaErrorCode RengaGraphMakeDecoder(RengaGraph graph, const char *tokens, int64_t texts,
                                     RengaGraph *decoder);
/* Of an encoder beside the decoder: the name of its keys and values, and of the caches of them,
   with the value's name behind; the input [samples] of the last place of a text's source. */
#define RENGA_DECODER_MEMORY "decoder:memory"
#define RENGA_DECODER_SOURCE "decoder:source"
RengaErrorCode RengaGraphKeepMemory(RengaGraph graph, RengaGraph decoder);

RengaErrorCode RengaGraphGetSubgraph(RengaGraph graph, int first, int last, RengaGraph *subgraph);

/* Reverse mode: appends nodes of the backward phases to the graph.
   Seeds: values whose gradient comes (in part) from outside, as new inputs named
   "gradient:NAME"; the loss, where the graph has it, is seeded with 1. Contributions to a value
   are added in descending order of the consumer's id, on top of the seed, so that a sum begun
   in a later stage goes on here exactly as it would in one stage.
   wanted: values whose gradient is to be found (boundary inputs).
   Parameters: one gradient per use, never added up here; a use is (node id, input number). */
typedef struct {
  RengaValue parameter; /* that is read */
  RengaValue gradient;  /* of this reading alone */
  int node_id, input;   /* who reads it, and as which of its inputs */
} RengaParameterUse;
/* The gradient of an operator from outside is another one. Its inputs are the operator's inputs,
   its outputs, their gradients; its outputs are the gradients of the floating inputs. */
typedef struct {
  const char *op, *gradient; /* names of the operator and of that of its gradient */
} RengaGradientRule;
RengaErrorCode RengaGradientRegister(const RengaGradientRule *rule);
RengaErrorCode RengaGraphDifferentiate(RengaGraph graph, int n_seeds, const RengaValue seeds[],
                                       RengaValue seed_gradients[], int n_wanted,
                                       const RengaValue wanted[], RengaValue wanted_gradients[]);
RengaErrorCode RengaGraphGetParameterUses(RengaGraph graph, int *count,
                                          const RengaParameterUse **uses);
/* Statistics that update a state after each micro-batch, in micro-batch order:
   state = keep * state + (1 - keep) * factor * batch_value. factor is 1 of a mean, n / (n - 1) of a
   variance of n = sample_values * (samples of the micro-batch) + whole_values values. */
typedef struct {
  RengaValue state;       /* what is updated, a running mean for instance */
  RengaValue batch_value; /* the same of the micro-batch alone */
  double keep;            /* share of the state that stays */
  int64_t sample_values;  /* of each sample, 0 of a mean */
  int64_t whole_values;   /* of a batch that is never cut (RengaGraphSetWholeBatch) */
} RengaStateUpdate;

RENGA_END_DECLS
