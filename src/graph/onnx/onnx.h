/* What the files of the ONNX reader share: names, values known while reading, operators' rows. */
#pragma once
#include "onnx/onnx.pb-c.h"
#include "renga/private/graph.h"
#include "renga/private/onnx.h"
#include "rengagraph.h"
#include "wire.h"

/* An element of a tensor that is known while reading: whole + batch * N + sample * n for integers
   and booleans, real + batch * N + sample * n for floating types, where N is the batch, which is
   not known, and n the sample's number, in a tensor that has one row for each sample. */
typedef struct {
  int64_t whole, batch, sample;
  double real;
} RengaOnnxNumber;
typedef struct {
  RengaTensorSpec spec; /* concrete; 1 in dimension open */
  int open;             /* the dimension that is the batch, of which one row is kept; -1: none */
  int64_t count;
  RengaOnnxNumber *number;
} RengaOnnxHost;
enum { RENGA_ONNX_HOST_MAX = 4096 }; /* elements; larger tensors are constants of the graph */

/* What a name of the file stands for. */
typedef enum {
  RENGA_ONNX_HOST,      /* a small tensor, known now */
  RENGA_ONNX_TENSOR,    /* an initializer or large constant, still in the file */
  RENGA_ONNX_VALUE,     /* a value of the graph */
  RENGA_ONNX_DROPPED,   /* an output that Renga does not make */
  RENGA_ONNX_SEQUENCE,  /* a list of tensors (sequence.c) */
  RENGA_ONNX_POSITIONS, /* of what is not zero in a mask (maskedselect.c) */
  RENGA_ONNX_ABSENT,    /* an optional input of a function that a call leaves out */
} RengaOnnxKind;
/* What the file says of an initializer. */
typedef enum {
  RENGA_ONNX_UNSAID,
  RENGA_ONNX_PARAMETER,
  RENGA_ONNX_FOLDED,   /* made from a parameter: a transposed weight */
  RENGA_ONNX_BUFFER,   /* or a constant of the module */
  RENGA_ONNX_CONSTANT, /* made from constants */
} RengaOnnxMetadata;
typedef struct RengaOnnxBinding RengaOnnxBinding;
struct RengaOnnxBinding {
  const char *name;
  RengaOnnxBinding *alias; /* another name of this one, or NULL */
  RengaOnnxKind kind;
  RengaOnnxHost *host;
  const Onnx__TensorProto *tensor; /* NULL: the file has no data for this parameter */
  RengaTensorSpec spec;            /* of a tensor */
  bool trainable;                  /* floating initializer: a parameter where a node uses it */
  bool unsure;                     /* trained or not, though nobody says so */
  bool is_table;                   /* rows are gathered from it */
  bool is_shared;                  /* nodes of different modules read it */
  RengaOnnxMetadata said;
  const char *module;      /* of the first node that reads it */
  RengaValue value;        /* NONE until a node of the graph uses it */
  const char *why;         /* of a dropped one */
  RengaOnnxBinding **item; /* of a sequence */
  int n_items;
  bool is_turned;          /* positions, one row each */
  const char *target;      /* of a name in calls: the parameter or buffer that it is */
  const char *folded_from; /* the exporter's list of names */
  RengaOnnxBinding *form;  /* of a parameter that the file does not have: folded from it */
  RengaOnnxBinding *same;  /* a parameter of which this is the transpose, or another shape */
  bool turned;             /* it is the transpose */
  bool scaled;             /* read by attention, which is folded with a factor */
  bool zeros;              /* a parameter without data that begins as zeros */
  bool vague;              /* read by a call that does not name it */
  const struct RengaOnnxFolding *undone; /* computed from same, a parameter that it gave back */
  double (*map)(double);                 /* of the numbers of the tensor: first values, */
  double shift;                          /* to which this is added */
  int n_calls;                           /* that read it */
  int64_t row;                           /* of a name in property renga.padding_rows */
  bool found; /* of a name in a property of the model: the network has it */
};

/* Attributes of a function that have defaults. */
typedef struct {
  size_t count;
  Onnx__AttributeProto **attribute;
} RengaOnnxDefaults;

typedef struct RengaOnnxNode RengaOnnxNode;
/* Names of the model, of a subgraph (which sees the outer ones), or of one call of a function. */
typedef struct RengaOnnxScope {
  struct RengaOnnxScope *outer;
  const RengaOnnxNode *call; /* of a function: where its attributes come from */
  const RengaOnnxDefaults *defaults;
  const char *prefix; /* put before names in the graph */
  int64_t opset;
  int depth, count, capacity;
  RengaOnnxBinding **slot;
} RengaOnnxScope;

enum { RENGA_ONNX_MERGED_MAX = 8 };
/* Attributes of the node that is being read. */
typedef struct {
  uint64_t bits;          /* by place: it was looked at */
  RengaOnnxScope *warned; /* operators with one that was not; NULL: none */
  const char *mistyped;   /* one that was asked for as another type, or NULL */
} RengaOnnxAsked;
/* What the user is told of in the end. */
typedef struct {
  int n_merged, n_inference; /* parameters; normalisations */
  const char *merged[RENGA_ONNX_MERGED_MAX];
} RengaOnnxNoted;
typedef struct {
  RengaGraph graph;
  MPI_Comm comm; /* of the graph: rank 0 prints what all find */
  const RengaOnnxOptions *options;
  const char *file;
  const Onnx__ModelProto *model;
  bool open;           /* the batch is -1 in shapes; otherwise all shapes are as in the file */
  int64_t file_batch;  /* 0: a symbolic dimension */
  int64_t whole_batch; /* of -graph_whole_batch: the batch is this size; 0: it is open */
  const char *batch_name;
  RengaOnnxDefaults *defaults;   /* by function; read when it is called */
  struct RengaOnnxBlock *blocks; /* memory that lives as long as the reader */
  RengaAttributes attributes;    /* of the node that is being made */
  int n_inner;
  int64_t *inner; /* by value: samples' stride inside a dimension -c, c > 1; 0: not known */
  RengaOnnxHost **numbers; /* by value: what is known of one that numbers the samples, or NULL */
  RengaValue *mask;        /* by value: of rows, some of which a mask leaves out; or NONE */
  const char *range;       /* the node that numbers the samples, or NULL */
  RengaValue batch_size;   /* as data; NONE until used */
  RengaOnnxScope *used;    /* names of tensors that are inputs of nodes or outputs */
  RengaOnnxScope *model_scope;
  RengaOnnxScope *named; /* names that several nodes have: how many; NULL until there is one */
  RengaOnnxAsked asked;
  int64_t n_nodes;
  const char *inside;     /* the last file of external data that was checked */
  const char *sized_file; /* whose size is known */
  int64_t size;
  RengaOnnxScope *said;                       /* by name: what the exporter says */
  RengaOnnxScope *listed, *stopped, *padding; /* of the model's properties; NULL: not given */
  RengaOnnxScope *placeholders;               /* by name in calls: parameters and buffers */
  RengaOnnxScope *changed;                    /* buffers that the network changes; NULL: none */
  RengaOnnxScope *replaced, *detached;        /* inputs of nodes; NULL: none */
  RengaOnnxScope *made;                       /* by name: what node made it */
  RengaOnnxScope *calls;                      /* by node: calls of those that are made again */
  size_t n_node;
  Onnx__NodeProto **node; /* of the graph, and those that are made again */
  bool is_signed;         /* the exporter says what is a parameter */
  RengaOnnxNoted noted;
} RengaOnnxImporter;

typedef struct RengaOnnxRow RengaOnnxRow;
struct RengaOnnxNode {
  RengaOnnxImporter *importer;
  RengaOnnxScope *scope;
  const Onnx__NodeProto *proto;
  const RengaOnnxRow *row;
  const char *name; /* the file's, or its first output */
  int64_t opset;
  char *call;  /* of PyTorch, that it was made of; NULL: not said */
  int emitted; /* nodes made in the graph */
};
struct RengaOnnxRow {
  const char *op;        /* ONNX */
  int64_t since;         /* first opset whose form is understood */
  const char *canonical; /* operators that the graph must have, separated by blanks */
  RengaErrorCode (*convert)(RengaOnnxNode *node);
};
const RengaOnnxRow *RengaOnnxFindRow(const char *op);
bool RengaOnnxRowIsBuilt(const RengaOnnxRow *row);

/* One error of a node: says where it is. */
#define RengaOnnxRaise(node, code, ...)                                                            \
  return RengaOnnxError(node, code, __func__, __FILE__, __LINE__, __VA_ARGS__), (code)
#define RengaOnnxCheck(condition, node, code, ...)                                                 \
  do {                                                                                             \
    if (!(condition)) RengaOnnxRaise(node, code, __VA_ARGS__);                                     \
  } while (0)
/* The node mixes the samples of the batch, which micro-batches cut. */
#define RengaOnnxCheckApart(condition, node, ...)                                                  \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return RengaOnnxMixedError(node, __func__, __FILE__, __LINE__, __VA_ARGS__),                 \
             RENGA_ERR_SUPPORT;                                                                    \
  } while (0)
RengaErrorCode RengaOnnxMixedError(const RengaOnnxNode *node, const char *function,
                                   const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
RengaErrorCode RengaOnnxError(const RengaOnnxNode *node, RengaErrorCode code, const char *function,
                              const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* memory.c: freed with the reader. */
RengaErrorCode RengaOnnxAllocate(RengaOnnxImporter *importer, int64_t count, size_t size,
                                 void *pointer_to_pointer);
RengaErrorCode RengaOnnxJoin(RengaOnnxImporter *importer, const char *a, const char *b,
                             char **joined);
void RengaOnnxFreeAll(RengaOnnxImporter *importer);

/* scope.c; Part: of a name that is not terminated */
RengaErrorCode RengaOnnxScopeCreate(RengaOnnxImporter *importer, RengaOnnxScope *outer,
                                    RengaOnnxScope **scope);
RengaOnnxBinding *RengaOnnxScopeFind(RengaOnnxScope *scope, const char *name); /* NULL: unknown */
RengaOnnxBinding *RengaOnnxScopeFindPart(RengaOnnxScope *scope, const char *name, size_t length);
RengaErrorCode RengaOnnxScopeAdd(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                 const char *name,
                                 RengaOnnxBinding **binding); /* NULL: the name is taken */

/* words.c: names that are not terminated, lists in texts */
bool RengaOnnxIsName(const char *text, const char *name, size_t length); /* not terminated */
size_t RengaOnnxWithoutNumber(const char *name, size_t length); /* layer_norm_1: of layer_norm */
RengaErrorCode RengaOnnxCopyPart(RengaOnnxImporter *importer, const char *part, size_t length,
                                 char **copy);
bool RengaOnnxNextQuoted(const char **list, const char **name, size_t *length);
bool RengaOnnxIsFoldedFrom(const RengaOnnxBinding *binding, const char *parameter);
bool RengaOnnxHasWord(const char *list, const char *word);

/* property.c */
RengaErrorCode RengaOnnxProperty(RengaOnnxImporter *importer, const ProtobufCMessage *message,
                                 const char *key, char **value);

/* inputoverrides.c: by NULL in the scope of detached inputs */
RengaErrorCode RengaOnnxNoteInput(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                  const Onnx__NodeProto *proto, int input, RengaOnnxBinding *by);
RengaOnnxBinding *RengaOnnxReplaced(const RengaOnnxNode *node,
                                    int input); /* NULL: as in the file */
bool RengaOnnxIsDetached(const RengaOnnxNode *node, int input);

/* metadata.c: what is trained, and where gradients stop. */
RengaErrorCode RengaOnnxReadMetadata(RengaOnnxImporter *importer);
void RengaOnnxDecide(RengaOnnxImporter *importer, RengaOnnxBinding *binding);
RengaErrorCode RengaOnnxCheckMetadata(RengaOnnxImporter *importer); /* is what it names there? */
bool RengaOnnxIsStopped(const RengaOnnxImporter *importer, const char *name);
bool RengaOnnxIsCertain(const RengaOnnxImporter *importer, const RengaOnnxBinding *binding);

/* call.c */
const char *RengaOnnxCallArguments(const char *call, const char *target);
double RengaOnnxCallReal(const RengaOnnxNode *node, const char *target, int position,
                         double otherwise);
bool RengaOnnxNextName(const char **at, const char **name, size_t *length);
/* The next that is a parameter's; NULL: no more. */
RengaOnnxBinding *RengaOnnxNextParameter(const RengaOnnxImporter *importer, const char **at);
bool RengaOnnxIsInputOf(const Onnx__GraphProto *graph, const char *name, size_t length);
RengaErrorCode RengaOnnxCall(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                             char **call); /* NULL: not said */
RengaErrorCode RengaOnnxSetCall(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                const char *call);
RengaErrorCode RengaOnnxCheckCalls(RengaOnnxImporter *importer); /* does a node do as its says? */
bool RengaOnnxIsCallOf(const RengaOnnxNode *node, const char *target);
bool RengaOnnxIsDetach(const RengaOnnxNode *node);
bool RengaOnnxIsTrainingNorm(const char *call); /* NULL: not said */

/* mutatedbuffers.c: buffers that the network changes itself. */
RengaErrorCode RengaOnnxCheckChanged(RengaOnnxImporter *importer);

/* merged*.c, folded*.c, missingparameters.c: what the exporter's optimizer did */
extern const char RengaOnnxExportAdvice[];
RengaErrorCode RengaOnnxMatchCalls(RengaOnnxImporter *importer);
RengaErrorCode RengaOnnxSeparate(RengaOnnxImporter *importer, RengaOnnxBinding *from,
                                 const RengaOnnxBinding *named, RengaOnnxBinding **made);
RengaErrorCode RengaOnnxMakeZeros(RengaOnnxImporter *importer, const RengaOnnxBinding *named,
                                  int64_t count, RengaOnnxBinding **made);
RengaErrorCode RengaOnnxCheckFolded(RengaOnnxImporter *importer);
RengaErrorCode RengaOnnxFindMade(RengaOnnxImporter *importer);
bool RengaOnnxIsOtherCall(const char *missing, size_t length, const char *there);
RengaErrorCode RengaOnnxSplitMergedNodes(RengaOnnxImporter *importer);
RengaErrorCode RengaOnnxUndo(RengaOnnxImporter *importer, RengaOnnxBinding *folded,
                             RengaOnnxBinding *parameter, bool *undone);
/* value: that of the parameter, which becomes that of what was folded from it */
RengaErrorCode RengaOnnxUnfoldFunctions(RengaOnnxNode *node, const RengaOnnxBinding *folded,
                                        RengaValue *value);
RengaErrorCode RengaOnnxCheckMissing(RengaOnnxImporter *importer);

/* warn.c */
RengaErrorCode RengaOnnxNoteUse(RengaOnnxNode *node, RengaOnnxBinding *binding);
void RengaOnnxNoteMerged(RengaOnnxNode *node, const RengaOnnxBinding *of);
void RengaOnnxWarnOfExport(RengaOnnxImporter *importer);

/* maskedselect.c: rows that a mask leaves out */
bool RengaOnnxArePositions(RengaOnnxNode *node, int input, RengaOnnxBinding **positions);
RengaErrorCode RengaOnnxPassPositions(RengaOnnxNode *node, bool *passed);
RengaErrorCode RengaOnnxTurnPositions(RengaOnnxNode *node, RengaOnnxBinding *positions);
RengaErrorCode RengaOnnxSelect(RengaOnnxNode *node, const RengaOnnxBinding *positions);
RengaErrorCode RengaOnnxReduceRows(RengaOnnxNode *node, const char *op, RengaValue x, int n,
                                   const int64_t axes[], bool keep, RengaValue *y);
RengaErrorCode RengaOnnxIgnoreVoid(RengaOnnxNode *node, int64_t ignored, RengaValue *scores,
                                   RengaValue *labels);

/* defaults.c */
RengaErrorCode RengaOnnxReadDefaults(RengaOnnxImporter *importer, size_t number,
                                     const RengaOnnxDefaults **defaults);

/* tensor.c: data of the file. */
RengaErrorCode RengaOnnxTensorSpec(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                   RengaTensorSpec *spec);
RengaErrorCode RengaOnnxTensorRead(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                   RengaTensorSpec *spec, void **data);
RengaErrorCode RengaOnnxTensorInit(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                   RengaInit *init); /* where in which file; init->file is owned */
bool RengaOnnxCount(int n, const int64_t dim[], int64_t *count); /* false: negative or too many */

/* host.c: tensors that are known while reading. */
RengaErrorCode RengaOnnxHostCreate(RengaOnnxImporter *importer, RengaDataType type, int ndim,
                                   const int64_t dim[], RengaOnnxHost **host);
RengaErrorCode RengaOnnxHostFromData(RengaOnnxImporter *importer, const RengaTensorSpec *spec,
                                     const void *data, RengaOnnxHost **host);
RengaErrorCode RengaOnnxHostToData(const RengaOnnxNode *node, const RengaOnnxHost *host,
                                   void **data);
RengaErrorCode RengaOnnxHostToInts(const RengaOnnxNode *node, const RengaOnnxHost *host, int limit,
                                   int *count, int64_t ints[]); /* no element holds the batch */
bool RengaOnnxHostIsBatchFree(const RengaOnnxHost *host);
bool RengaOnnxHostHasType(RengaDataType type); /* can it be known while reading? */
void RengaOnnxHostSpec(const RengaOnnxHost *host, RengaTensorSpec *spec); /* of the value */
/* hostvalue.c: a known tensor as a value of the graph */
RengaErrorCode RengaOnnxHostValue(RengaOnnxNode *node, const RengaOnnxHost *host,
                                  RengaValue *value);
RengaErrorCode RengaOnnxNumbersValue(RengaOnnxNode *node, const RengaOnnxHost *host,
                                     RengaValue *value);
RengaErrorCode RengaOnnxOpenHost(RengaOnnxNode *node, const RengaOnnxHost *from, int d,
                                 RengaOnnxHost **open); /* NULL: not linear along d */
RengaErrorCode RengaOnnxOpenNumbers(RengaOnnxNode *node, RengaValue x, int axis, RengaValue *open);
/* fold.c: evaluate the node where all that it needs is known. */
RengaErrorCode RengaOnnxFold(RengaOnnxNode *node, bool *folded);

RengaErrorCode RengaOnnxKnownInput(RengaOnnxNode *node, int input,
                                   const RengaOnnxHost **host); /* NULL: not known, or large */
RengaErrorCode RengaOnnxCastHost(RengaOnnxNode *node, const RengaOnnxHost *x, RengaDataType type,
                                 RengaOnnxHost **y); /* kept where the numbers do not fit */
RengaErrorCode RengaOnnxUniteRange(RengaOnnxNode *node, const RengaOnnxHost *in[3]);

/* attribute.c: of the node in the file */
int RengaOnnxInputCount(const RengaOnnxNode *node); /* without absent ones at the end */
bool RengaOnnxHasInput(const RengaOnnxNode *node, int input);
bool RengaOnnxHasOutput(const RengaOnnxNode *node, int output);
bool RengaOnnxIsUsed(const RengaOnnxNode *node, int output); /* does anything read it? */
RengaErrorCode RengaOnnxMarkUsed(RengaOnnxImporter *importer, const char *name);
const Onnx__AttributeProto *RengaOnnxAttribute(const RengaOnnxNode *node, const char *name);
int64_t RengaOnnxInt(const RengaOnnxNode *node, const char *name, int64_t otherwise);
double RengaOnnxReal(const RengaOnnxNode *node, const char *name, double otherwise);
bool RengaOnnxString(const RengaOnnxNode *node, const char *name, const char *value,
                     const char *otherwise); /* is the attribute equal to value? */
RengaErrorCode RengaOnnxInts(const RengaOnnxNode *node, const char *name, int *count,
                             int64_t ints[]); /* at most 2 * RENGA_MAX_DIM; absent: count -1 */
RengaErrorCode RengaOnnxCheckAttributes(RengaOnnxNode *node); /* was one of the wrong type? */
RengaErrorCode RengaOnnxAxis(const RengaOnnxNode *node, int64_t axis, int ndim, int *result);

/* node.c: inputs and outputs of a conversion */
RengaErrorCode RengaOnnxInputBinding(RengaOnnxNode *node, int input, RengaOnnxBinding **binding);
RengaErrorCode RengaOnnxInputValue(RengaOnnxNode *node, int input, RengaValue *value);
RengaErrorCode RengaOnnxInputHost(RengaOnnxNode *node, int input, const RengaOnnxHost **host);
RengaErrorCode RengaOnnxInputShape(RengaOnnxNode *node, int input, const RengaOnnxHost **host);
RengaErrorCode RengaOnnxInputInts(RengaOnnxNode *node, int input, int *count,
                                  int64_t ints[]); /* at most RENGA_MAX_DIM; absent: count -1 */
RengaErrorCode RengaOnnxInputReal(RengaOnnxNode *node, int input, double *value); /* absent: kept */
RengaErrorCode RengaOnnxInputState(RengaOnnxNode *node, int input, RengaValue *value);
RengaErrorCode RengaOnnxBindingValue(RengaOnnxNode *node, RengaOnnxBinding *binding,
                                     RengaValue *value);
RengaErrorCode RengaOnnxBindValue(RengaOnnxNode *node, int output, RengaValue value);
RengaErrorCode RengaOnnxBindHost(RengaOnnxNode *node, int output, RengaOnnxHost *host);
RengaErrorCode RengaOnnxBindAlias(RengaOnnxNode *node, int output, RengaOnnxBinding *of);
RengaErrorCode RengaOnnxDrop(RengaOnnxNode *node, int output, const char *why);

/* value.c: what is known of values of the graph */
extern const char RengaOnnxSelectAdvice[];
const RengaTensorSpec *RengaOnnxSpec(const RengaOnnxNode *node, RengaValue value); /* lent */
int64_t RengaOnnxGetInner(const RengaOnnxImporter *importer, RengaValue value);
RengaErrorCode RengaOnnxSetInner(RengaOnnxImporter *importer, RengaValue value, int64_t inner);
int RengaOnnxBatchDimension(const RengaTensorSpec *spec);                        /* -1: none */
RengaValue RengaOnnxMaskOf(const RengaOnnxImporter *importer, RengaValue value); /* NONE: none */
RengaErrorCode RengaOnnxKeepMask(RengaOnnxNode *node, const char *op, int n_in,
                                 const RengaValue in[], RengaValue y);
RengaErrorCode RengaOnnxRefuseRows(const RengaOnnxNode *node, RengaValue value);

/* emit.c: nodes of the graph. Attributes are set in importer->attributes before, and used up. */
RengaErrorCode RengaOnnxEmit(RengaOnnxNode *node, const char *op, int n_in, const RengaValue in[],
                             int n_out, const RengaTensorSpec given[], RengaValue out[]);
RengaErrorCode RengaOnnxNewName(RengaOnnxNode *node, const char *op, char **name);
RengaErrorCode RengaOnnxApply(RengaOnnxNode *node, const char *op, RengaValue a, RengaValue b,
                              RengaValue *y); /* one or two inputs, one output */
RengaErrorCode RengaOnnxScalar(RengaOnnxNode *node, RengaDataType type, double number,
                               RengaValue *value);
RengaErrorCode RengaOnnxApplyReal(RengaOnnxNode *node, const char *op, RengaValue a, double b,
                                  RengaValue *y); /* b: a scalar constant of a's type */
RengaErrorCode RengaOnnxTranspose(RengaOnnxNode *node, RengaValue x, int n, const int64_t order[],
                                  RengaValue *y);
RengaErrorCode RengaOnnxReduce(RengaOnnxNode *node, const char *op, RengaValue x, int n_axes,
                               const int64_t axes[], bool keep, RengaValue *y);
RengaErrorCode RengaOnnxCast(RengaOnnxNode *node, RengaValue x, RengaDataType type, RengaValue *y);
RengaErrorCode RengaOnnxConstant(RengaOnnxNode *node, const RengaTensorSpec *spec, const void *data,
                                 RengaValue *value);
int RengaOnnxTypeFromFile(int64_t data_type); /* RengaDataType, -1: none */

/* batch.c: where the batch is in a shape. */
RengaErrorCode RengaOnnxReshape(RengaOnnxNode *node, RengaValue x, const RengaTensorSpec *shape,
                                RengaValue *y);
RengaErrorCode RengaOnnxTargetShape(RengaOnnxNode *node, RengaValue x, int n,
                                    const RengaOnnxNumber target[], bool zero_copies,
                                    RengaTensorSpec *shape); /* of a Reshape */
RengaErrorCode RengaOnnxExpandShape(RengaOnnxNode *node, RengaValue x, const RengaOnnxHost *target,
                                    RengaTensorSpec *shape);
bool RengaOnnxIsOfParameter(RengaGraph graph, RengaValue value);
RengaErrorCode RengaOnnxFilledShape(RengaOnnxNode *node, const RengaOnnxHost *target,
                                    RengaTensorSpec *shape); /* of a ConstantOfShape */
RengaErrorCode RengaOnnxBatchSize(RengaOnnxNode *node, RengaValue *value); /* float32 scalar */

/* open.c */
RengaErrorCode RengaOnnxOpenDimension(RengaOnnxNode *node, int axis, int64_t wanted, RengaValue *x);
RengaErrorCode RengaOnnxOpenOperands(RengaOnnxNode *node, bool broadcasts, int n, RengaValue in[]);

/* import.c, input.c, nodes.c */
RengaErrorCode RengaOnnxBindNew(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                const char *name, const char *what, RengaOnnxBinding **binding);
RengaErrorCode RengaOnnxCheckNames(const RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                   const Onnx__GraphProto *graph);
RengaErrorCode RengaOnnxImportInputs(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                     const Onnx__GraphProto *graph);
RengaErrorCode RengaOnnxImportModel(RengaOnnxImporter *importer);
int64_t RengaOnnxOpset(size_t count, Onnx__OperatorSetIdProto *const imports[]);
RengaErrorCode RengaOnnxNameOutput(RengaOnnxNode *node, const char *name, RengaValue value);
RengaErrorCode RengaOnnxImportNodes(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                    size_t count, Onnx__NodeProto *const nodes[]);
RengaErrorCode RengaOnnxImportInitializers(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                           const Onnx__GraphProto *graph);

/* axes.c: readings of attributes or inputs, by opset, that folding and conversion share. */
typedef struct {
  int count;
  int64_t start[RENGA_MAX_DIM], end[RENGA_MAX_DIM], axis[RENGA_MAX_DIM], step[RENGA_MAX_DIM];
} RengaOnnxSlice;
RengaErrorCode RengaOnnxReadSlice(RengaOnnxNode *node, int ndim, RengaOnnxSlice *slice);
RengaErrorCode RengaOnnxAxes(RengaOnnxNode *node, int64_t input_since, int *count, int64_t axes[]);
RengaErrorCode RengaOnnxSqueezed(RengaOnnxNode *node, const RengaTensorSpec *x, bool gone[]);
RengaErrorCode RengaOnnxUnsqueezed(RengaOnnxNode *node, const RengaTensorSpec *x,
                                   RengaTensorSpec *y);
RengaErrorCode RengaOnnxOrder(RengaOnnxNode *node, int ndim, int64_t order[]); /* of a Transpose */
RengaErrorCode RengaOnnxCopyAttributes(RengaOnnxNode *node, const char *except);

/* Conversions. */
#define RENGA_ONNX_CONVERSIONS(X)                                                                  \
  X(Same)                                                                                          \
  X(Chain)                                                                                         \
  X(Mean)                                                                                          \
  X(Identity)                                                                                      \
  X(Cast)                                                                                          \
  X(CastLike)                                                                                      \
  X(Clip)                                                                                          \
  X(Constant)                                                                                      \
  X(ConstantOfShape)                                                                               \
  X(EyeLike)                                                                                       \
  X(Shape)                                                                                         \
  X(Size)                                                                                          \
  X(Range)                                                                                         \
  X(If)                                                                                            \
  X(NonZero)                                                                                       \
  X(Reshape)                                                                                       \
  X(Flatten)                                                                                       \
  X(Squeeze)                                                                                       \
  X(Unsqueeze)                                                                                     \
  X(Expand)                                                                                        \
  X(Transpose)                                                                                     \
  X(Slice)                                                                                         \
  X(Split)                                                                                         \
  X(Pad)                                                                                           \
  X(Tile)                                                                                          \
  X(OneHot)                                                                                        \
  X(Trilu)                                                                                         \
  X(CumSum)                                                                                        \
  X(TopK)                                                                                          \
  X(MatMul)                                                                                        \
  X(Gemm)                                                                                          \
  X(Window)                                                                                        \
  X(Pool)                                                                                          \
  X(GlobalAveragePool)                                                                             \
  X(GlobalMaxPool)                                                                                 \
  X(Reduce)                                                                                        \
  X(Softmax)                                                                                       \
  X(GroupNormalization)                                                                            \
  X(BatchNormalization)                                                                            \
  X(Dropout)                                                                                       \
  X(MeanVarianceNormalization)                                                                     \
  X(SoftmaxCrossEntropyLoss)                                                                       \
  X(NegativeLogLikelihoodLoss)                                                                     \
  X(Recurrent)                                                                                     \
  X(Attention)                                                                                     \
  X(RotaryEmbedding)                                                                               \
  X(Einsum)                                                                                        \
  X(Scatter)                                                                                       \
  X(Resize)                                                                                        \
  X(SplitToSequence)                                                                               \
  X(SequenceConstruct)                                                                             \
  X(SequenceAt)                                                                                    \
  X(SequenceInsert)                                                                                \
  X(Gather)                                                                                        \
  X(GatherND)                                                                                      \
  X(ScatterND)                                                                                     \
  X(SequenceErase)                                                                                 \
  X(SequenceLength)                                                                                \
  X(ConcatFromSequence)                                                                            \
  X(DFT)                                                                                           \
  X(STFT)                                                                                          \
  X(Random) X(Bernoulli) X(GridSample) X(AffineGrid) X(Loop) X(Scan) X(Col2Im) X(MaxUnpool)        \
      X(LpPool) X(Compress) X(ReverseSequence) X(RoiAlign)
#define RENGA_ONNX_DECLARE(name) RengaErrorCode RengaOnnxConvert##name(RengaOnnxNode *node);
RENGA_ONNX_CONVERSIONS(RENGA_ONNX_DECLARE)
#undef RENGA_ONNX_DECLARE
