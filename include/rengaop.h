/* The operator table: what an operator is called, what shapes it makes, what it costs. */
#pragma once
#include "rengasys.h"

RENGA_BEGIN_DECLS

/* The types of elements: name of the constant, name in texts, bytes of an element. */
#define RENGA_TYPE_MAP(X)                                                                          \
  X(FLOAT32, "float32", 4)                                                                         \
  X(FLOAT64, "float64", 8)                                                                         \
  X(BFLOAT16, "bfloat16", 2)                                                                       \
  X(FLOAT16, "float16", 2)                                                                         \
  X(INT8, "int8", 1)                                                                               \
  X(UINT8, "uint8", 1)                                                                             \
  X(INT16, "int16", 2)                                                                             \
  X(UINT16, "uint16", 2)                                                                           \
  X(INT32, "int32", 4)                                                                             \
  X(UINT32, "uint32", 4)                                                                           \
  X(INT64, "int64", 8)                                                                             \
  X(UINT64, "uint64", 8)                                                                           \
  X(BOOL, "bool", 1)
#define RENGA_TYPE_ENUM(name, text, size) RENGA_##name,
/* The type of the elements of a tensor: RENGA_FLOAT32 and so on, one for each row of
   RENGA_TYPE_MAP. */
typedef enum { RENGA_TYPE_MAP(RENGA_TYPE_ENUM) RENGA_TYPE_COUNT } RengaDataType;
#undef RENGA_TYPE_ENUM
size_t RengaDataTypeSize(RengaDataType type);
const char *RengaDataTypeName(RengaDataType type);
bool RengaDataTypeIsFloating(RengaDataType type);
RengaErrorCode RengaDataWiden(RengaDataType type, int64_t count, const void *from, float to[]);
RengaErrorCode RengaDataNarrow(RengaDataType type, int64_t count, const void *from, void *to);
/* Elements of a flat vector that are worked on together, whatever the device: a norm is the sum of
   its pieces' in their order, so that those who own whole ones find its bits together. */
#define RENGA_VECTOR_PIECE 16384

#define RENGA_MAX_DIM 8 /* dimensions of a tensor at most */
/* A shape. In a graph a dimension -c means c times the batch; kernels see concrete ones. */
typedef struct {
  RengaDataType type;         /* of the elements */
  int ndim;                   /* -1: an optional input that is absent */
  int64_t dim[RENGA_MAX_DIM]; /* extents, of which ndim count */
} RengaTensorSpec;
int64_t RengaTensorSpecCount(const RengaTensorSpec *spec); /* elements of a concrete shape */
size_t RengaTensorSpecBytes(const RengaTensorSpec *spec);
/* -c becomes c*batch */
RengaTensorSpec RengaTensorSpecAt(const RengaTensorSpec *spec, int64_t batch);
bool RengaTensorSpecEqual(const RengaTensorSpec *a, const RengaTensorSpec *b);
void RengaTensorSpecFormat(const RengaTensorSpec *spec, size_t size, char text[]);

/* How a network is computed: in which types its tensors are kept. Kernels compute in float32
   whatever the precision, from what they read to what they round in the end. */
typedef enum {
  RENGA_PRECISION_FP32, /* all tensors are float32 */
  RENGA_PRECISION_BF16, /* activations, and parameters as kernels read them, are bfloat16 */
  RENGA_PRECISION_FP16, /* the same are float16 */
  RENGA_PRECISION_TF32, /* of products; tensors are float32 */
  RENGA_PRECISION_FP8   /* as bf16, but factors of linear layers are rounded to 8 bits */
} RengaPrecision;
#define RENGA_PRECISION_COUNT (RENGA_PRECISION_FP8 + 1)   /* how many there are */
const char *RengaPrecisionName(RengaPrecision precision); /* fp32, bf16, fp16, tf32, fp8 */
/* The types of floating-point tensors. States, losses, norms, statistics of a normalization and
   sums over the batch are float32 whatever the precision. */
typedef struct {
  RengaDataType value;    /* parameters as kernels read them, activations and their gradients */
  RengaDataType master;   /* parameters as updates read and write them; as value: the same memory */
  RengaDataType gradient; /* sums of gradients of parameters, over micro-batches and replicas */
  RengaDataType moment;   /* of the optimizer */
  RengaDataType message;  /* activations and their gradients between stages */
  RengaDataType saved;    /* what forward keeps for backward */
} RengaStorage;
RengaErrorCode RengaPrecisionGetStorage(RengaPrecision precision, RengaStorage *storage);

/* What the value of an attribute is: an integer, a real number, a text, or a list of numbers. */
typedef enum {
  RENGA_ATTRIBUTE_INT,
  RENGA_ATTRIBUTE_REAL,
  RENGA_ATTRIBUTE_STRING,
  RENGA_ATTRIBUTE_INTS,
  RENGA_ATTRIBUTE_REALS
} RengaAttributeKind;
/* A named value that a node gives its operator. */
typedef struct {
  char *name;              /* of the list, as the arrays are: only its functions change them */
  RengaAttributeKind kind; /* which of the members below counts */
  int count;               /* of ints or reals */
  int64_t *ints;           /* of whole numbers */
  double *reals;           /* of real numbers */
  char *string;            /* of a text */
} RengaAttribute;
/* Attributes: a short list of named values, owned. */
typedef struct {
  int count;           /* number of rows */
  RengaAttribute *row; /* [count] */
} RengaAttributes;
RengaErrorCode RengaAttributesSetInt(RengaAttributes *attributes, const char *name, int64_t value);
RengaErrorCode RengaAttributesSetInts(RengaAttributes *attributes, const char *name, int count,
                                      const int64_t values[]);
RengaErrorCode RengaAttributesSetReal(RengaAttributes *attributes, const char *name, double value);
RengaErrorCode RengaAttributesSetReals(RengaAttributes *attributes, const char *name, int count,
                                       const double values[]);
RengaErrorCode RengaAttributesSetString(RengaAttributes *attributes, const char *name,
                                        const char *value);
const RengaAttribute *RengaAttributesFind(const RengaAttributes *attributes, const char *name);
int64_t RengaAttributesInt(const RengaAttributes *attributes, const char *name, int64_t otherwise);
double RengaAttributesReal(const RengaAttributes *attributes, const char *name, double otherwise);
const char *RengaAttributesString(const RengaAttributes *attributes, const char *name,
                                  const char *otherwise);
/* The ints; count 0 and NULL where absent. Lent. */
const int64_t *RengaAttributesInts(const RengaAttributes *attributes, const char *name, int *count);
RengaErrorCode RengaAttributesFree(RengaAttributes *attributes);

typedef struct RengaOperator RengaOperator;
/* One use of an operator, all shapes concrete. An operator marked RENGA_OP_OUTPUT_GIVEN takes
   out[i].dim from the caller and only checks them; the others fill out[]. */
typedef struct {
  const RengaOperator *op;           /* which operator */
  const RengaAttributes *attributes; /* its settings */
  int n_in, n_out;                   /* numbers of inputs and outputs */
  const RengaTensorSpec *in;         /* [n_in] */
  RengaTensorSpec *out;              /* [n_out] */
} RengaOpCall;

/* Flags of an operator, which are added up: what planner and runtime may rely on. */
enum {
  RENGA_OP_ELEMENTWISE = 1, /* output element i needs only element i of the (equal-shaped) inputs */
  RENGA_OP_OUTPUT_GIVEN = 2, /* the output shape is part of the node: Reshape, Expand, gradients */
  RENGA_OP_RANDOM = 4,       /* draws random numbers: attribute key */
  RENGA_OP_INTERNAL = 8,     /* not an ONNX name: gradients and fused forms */
  RENGA_OP_RESHAPE = 16,     /* same bytes, another shape: the runtime may alias */
  RENGA_OP_BATCH_SUM = 32,   /* a sum over micro-batches and replicas, done by the runtime */
  RENGA_OP_PRODUCT = 64,     /* sums of products, which take most of a network's time */
  RENGA_OP_WRITES_STATE = 128, /* writes to states that it reads, which no other node does */
};
/* A row of the table of operators. */
struct RengaOperator {
  const char *name;                           /* as ONNX has it, if it does */
  int min_in, max_in, min_out, max_out;       /* max -1: any number */
  unsigned flags;                             /* RENGA_OP_... */
  RengaErrorCode (*shape)(RengaOpCall *call); /* fills or checks out[] */
  double (*flops)(const RengaOpCall *call);   /* NULL: one per output element */
  /* "axis:int=-1 epsilon:real=1e-5 pads:ints": names allowed and defaults */
  const char *attributes;
  /* "NI>N": a letter per input, > and a letter per output; the last letter stands for all further
     ones. Places with the same letter have the same type, except I.
     T, U any; N, M number; F floating; Z integer; I int32 or int64; B bool; L int64; S float32;
     ? (output) the data type that attribute "to" gives */
  const char *types;
  /* Of an operator from outside, how lanes may have it, NULL: as a whole, or where it is
     elementwise any part. "-a a > -a": a word per input, > and a word per output; the last word
     stands for all further ones. A word has a sign per dimension, the last ones of the tensor:
     letter: an axis, the dimensions of that letter; each unit of it could be computed alone
     -       no axis: each lane has all of it
     *       any number of dimensions, each an axis, counted from the last; 1 broadcasts
     ~       any number of dimensions without axes
     .       a scalar, the whole word
     An output without an axis is the sum of what lanes make; an input whose word begins with + is
     then added by one lane alone, as a bias is. */
  const char *split;
};
RengaErrorCode RengaOperatorRegister(const RengaOperator *op);
const RengaOperator *RengaOperatorFind(const char *name); /* NULL where unknown */
int RengaOperatorCount(void);
const RengaOperator *RengaOperatorAt(int index);
double RengaOperatorFlops(const RengaOpCall *call);
double RengaOperatorBytes(const RengaOpCall *call); /* read and written */
int64_t RengaOpCallInt(const RengaOpCall *call, const char *name);
double RengaOpCallReal(const RengaOpCall *call, const char *name);
const char *RengaOpCallString(const RengaOpCall *call, const char *name);
const int64_t *RengaOpCallInts(const RengaOpCall *call, const char *name, int *count);
bool RengaOpCallHasInput(const RengaOpCall *call, int input);

RENGA_END_DECLS
