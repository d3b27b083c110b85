/* A chunk compiled: where tensors lie, kernels, and the instructions of its programs. */
#pragma once
#include "renga/private/graph.h"
#include "renga/private/recording.h"
#include "rengadevice.h"
#include "rengagraph.h"

typedef struct _p_Chunk Chunk;

enum { PIPELINE_ALIGNMENT = 64 };
static inline int64_t RengaAlign_Private(int64_t bytes)
{
  return (bytes + PIPELINE_ALIGNMENT - 1) / PIPELINE_ALIGNMENT * PIPELINE_ALIGNMENT;
}

/* Where a tensor lies: bytes after the base of a region. The bases are set for each action. */
enum {
  REGION_ABSENT = -1,
  REGION_PERSISTENT, /* parameters, states, constants, sums over the batch */
  REGION_FOLDED,     /* what depends on constants and the micro-batch's size only */
  REGION_GRADIENTS,  /* the buffer that this micro-batch's gradients are written or added to */
  REGION_SAVED,      /* this micro-batch's slot; the only one where the stage offloads */
  REGION_SENT,       /* this micro-batch's slot of what is sent, where the stage recomputes */
  REGION_KEPT,       /* this micro-batch's slot of what such a stage keeps all the same */
  REGION_TEMPORARY,
  REGION_INPUTS,  /* this micro-batch's slot */
  REGION_ROWS,    /* this micro-batch's slot of rows of tables */
  REGION_WINDOW,  /* values of parameters of which each replica has a share */
  REGION_MESSAGE, /* + row of the message table: this micro-batch's instance */
};
typedef struct {
  int region;
  int64_t offset;
} Place;

typedef enum {
  INSTRUCTION_KERNEL,
  INSTRUCTION_COPY,
  INSTRUCTION_ADD,
  INSTRUCTION_ZERO,
  INSTRUCTION_EXCHANGE /* what lanes made goes to other ranks of the tensor group (exchange.c) */
} InstructionKind;
/* Ranks of a tensor group, as of RengaLaneGroup: each of them, or none. */
enum { RENGA_TENSOR_ALL = 0, RENGA_TENSOR_NONE = -1 };
/* What those of a tensor group that have it give to those who need it: each of these gets it from
   the one that is beside it. */
typedef struct {
  int from, to; /* ranks of the group */
  int64_t bytes;
} LaneTerm;
typedef struct {
  InstructionKind kind;
  RengaKernel kernel; /* lent by the table of kernels */
  int n_in, n_out;
  Place *place; /* [n_in + n_out] inputs, then outputs */
  Place workspace;
  int64_t bytes;      /* of copy, add and zero */
  RengaDataType type; /* of its elements; of zeros: bytes */
  LaneTerm *term;     /* [n_out] of an exchange; else NULL */
  bool again;         /* it is of what forward has exchanged before; of an exchange */
} Instruction;
/* What a rank does in a part of a program, in the order of its list (entry/): kernels are rows that
   follow each other; all else may start at one row and end at a later one, beside kernels. */
typedef enum {
  ENTRY_SUM, /* of a bucket's gradients over the replicas; it ends where they are written again */
  ENTRY_EXCHANGE, /* of a tensor group */
  ENTRY_VALUES,   /* ends: updated values of a bucket, whose gather began behind the update */
  ENTRY_GATHER,   /* of a bucket's values, of which the replicas have a share each */
  ENTRY_KERNELS,
  ENTRY_OUTSIDE, /* what is not Renga's own: a test's */
  ENTRY_COUNT
} EntryKind;
/* Kernels with the addresses that they have under these bases. */
typedef struct {
  char **base; /* [n_regions] */
  uint64_t seed;
  bool training;
  RengaRecording recording; /* NULL: it was run once */
} RecordedKernels;
typedef struct {
  EntryKind kind;
  bool ends;  /* what was started before; else it starts */
  int first;  /* the row before which it stands; of an exchange its own */
  int last;   /* rows [first, last), of kernels */
  int bucket; /* of sums, values and gathers; else -1 */
  /* of kernels (recording.c) */
  bool known, recordable;
  int n_regions, *region; /* that the rows have places in */
  int n_recorded;
  RecordedKernels *recorded;
} Entry;
/* Where a part touches a bucket (bucketrows.c): from the first of its rows to behind the last;
   -1: it does not. begin: where the gather of its values begins. */
typedef struct {
  int begin, first, end;
} BucketRows;
typedef struct {
  int count;
  Instruction *row;
  double flops;
  BucketRows *writes; /* [buckets] of gradients, once they are known; or NULL */
  BucketRows *reads;  /* [shared buckets] of values that others have, likewise */
  int n_entries;
  Entry *entry; /* once they are listed: before it is run */
  int n_whole;
  Entry *whole; /* those of a backward that begins no sums, where they are others; or NULL */
} Sequence;

/* A stage compiled for one micro-batch size. Backward has all gradients, or those of parameters
   are a part of their own. */
typedef enum { PROGRAM_TRAINING, PROGRAM_EVALUATION, PROGRAM_PROLOGUE } ProgramKind;
typedef enum {
  PART_NONE = -1,
  PART_CONSTANT,
  PART_FORWARD,
  PART_AGAIN, /* what backward needs first of what is not kept: where the stage recomputes */
  PART_BACKWARD,
  PART_WEIGHT,
  PART_COUNT
} ProgramPart;
typedef struct {
  ProgramKind kind;
  int64_t samples;
  bool adds;         /* gradients of parameters are added to those that are there */
  RengaValue target; /* of evaluation: a value that is wanted besides what is sent, or NONE */
  const RengaTensorSpec *spec; /* [values] concrete; lent by the shapes */
  Place *place;   /* [values that it knows]; where it trains then of their copies, made again */
  bool *reads;    /* [fields] whether the chunk's field is needed */
  bool uses_sums; /* some sum over the batch is needed */
  bool beside;    /* rows of backward stand behind exchanges that do not need them */
  Sequence part[PART_COUNT];
  bool listed; /* the entries of all parts */
  int64_t folded_bytes, saved_bytes, sent_bytes, kept_bytes, temporary_bytes;
} Program;

typedef struct {
  const RengaGraphNode *node; /* whose operator and attributes it has */
  RengaTensorSpec *spec;      /* [n_in + n_out] */
  uint64_t hash;
  RengaKernel kernel;
  double flops;
} KernelRow;

/* One for each distinct operator, attributes and shapes. */
typedef struct {
  int count;
  KernelRow *row;
  int n_slots, *slot; /* power of two; numbers of kernels by their hash, -1: free */
  int largest;        /* most arguments of a kernel */
} KernelTable;

/* What all programs of one micro-batch size share (kernel.c). */
typedef struct {
  int64_t samples;
  const RengaGraphRows *rows; /* lent by the chunk's graph */
  RengaTensorSpec *spec;      /* [values] concrete */
  int64_t *bytes;             /* [values] */
  bool *constant;             /* [nodes] depends on constants only */
  int *owner;                 /* [nodes] the ranks of the group that run it: RengaLaneGroupHas */
  int *kernel;                /* [nodes] number; -1: none, or it was not asked for */
} ProgramShapes;

typedef struct {
  int count;
  Program **row;
  int n_shapes;
  ProgramShapes **shapes;
  const Program *folded; /* whose constants are in REGION_FOLDED */
  KernelTable kernels;
  const void **argument; /* [kernels.largest] */
} ProgramTable;

/* The first training program: all replicas compile the same ones at set-up. NULL: none. */
static inline Program *RengaProgramsFirst_Private(const ProgramTable *programs)
{
  for (int p = 0; p < programs->count; p++)
    if (programs->row[p]->kind == PROGRAM_TRAINING) return programs->row[p];
  return NULL;
}

/* place.c: offsets by lifetime */
typedef struct {
  int64_t bytes, offset;
  int first, last; /* positions in the part's list of nodes, inclusive */
} Lifetime;
RengaErrorCode RengaPlaceLifetimes_Private(int count, Lifetime row[], int64_t *bytes);
/* kernel.c */
RengaErrorCode RengaChunkGetShapes_Private(Chunk *chunk, int64_t samples, ProgramShapes **shapes);
RengaErrorCode RengaChunkFindKernel_Private(Chunk *chunk, ProgramShapes *shapes, int n);
RengaErrorCode RengaProgramsFreeKernels_Private(ProgramTable *programs);
/* program.c */
RengaErrorCode RengaChunkGetProgram_Private(Chunk *chunk, ProgramKind kind, int64_t samples,
                                            RengaValue target, Program **program);
RengaErrorCode RengaChunkGetAdding_Private(Chunk *chunk, int64_t samples, Program **program);
RengaErrorCode RengaChunkFreePrograms_Private(Chunk *chunk);
/* conflict.c */
bool RengaInstructionsConflict_Private(const Instruction *a, const Instruction *b);
RengaErrorCode RengaProgramPostpone_Private(Program *program);
/* bucketrows.c */
RengaErrorCode RengaChunkFindTouched_Private(const Chunk *chunk, Program *program,
                                             ProgramPart part);
/* entry/list.c */
RengaErrorCode RengaChunkListProgram_Private(const Chunk *chunk, Program *program);
/* entry/kernels.c */
RengaErrorCode RengaChunkForgetRecordings_Private(const Chunk *chunk, Entry *entry);
