/* What the files of the plan's room share. */
#pragma once
#include "renga/private/object.h"
#include "renga/private/plan.h"

/* Versions that are read, and the one that is written. */
enum {
  RENGA_PLAN_FILE_OLDEST = 3,
  RENGA_PLAN_FILE_SHAPES = 4,  /* stages have shapes, in which context ranks are called tensor's */
  RENGA_PLAN_FILE_CONTEXT = 5, /* lanes of tokens, and context ranks, have words of their own */
  RENGA_PLAN_FILE_VERSION = RENGA_PLAN_FILE_CONTEXT
};

/* Of a stage, sorted. */
typedef struct {
  int count;
  char **name;
} RengaPlanKept;

struct _p_RengaPlan {
  struct _p_RengaObject hdr;
  int count;                   /* stages */
  RengaPlanStage *stage;       /* [count] */
  char **first_name;           /* [count] name of each stage's first node */
  RengaPlanKept *kept;         /* [count] NULL: no stage that recomputes keeps any */
  int *offset;                 /* [count + 1] place of each stage's first rank in rank[] */
  int *rank;                   /* [stage][replica][sequence][tensor] */
  bool wave;                   /* see RengaPlanSetWave() */
  int n_nodes;                 /* of the graph */
  uint64_t digest;             /* of the graph */
  int lanes[RENGA_LANE_KINDS]; /* of the graph; 1: it is in none of the kind, 0: not known */
  int64_t batch, microbatch, leaf, memory_limit;
  int available;         /* ranks there are; 0: not known */
  char *schedule;        /* NULL: open */
  double eager;          /* of it */
  char *machine, *costs; /* that it was planned for, and where they came from; NULL: not known */
  int64_t device_memory; /* of that machine; 0: not known */
  RengaPlanPrediction prediction;
  int n_message_seconds; /* 0: not known */
  double *message_seconds;
  int n_reasons;
  char **reason; /* [2 n_reasons] topic, sentence, … */
};

/* Errors of stages on their own: order, cover, replicas; then, in a network: stages without
   work. */
RengaErrorCode RengaPlanCheckStages_Private(RengaPlan plan, int n_nodes, int count,
                                            const RengaPlanStage stages[]);
RengaErrorCode RengaPlanCheckWork_Private(RengaPlan plan, RengaGraph graph, int count,
                                          const RengaPlanStage stages[]);
/* Errors of the plan's ranks: negative, twice, at or above the limit (limit 0: none), other ranks
   than of the stage that has the chunk before. */
RengaErrorCode RengaPlanCheckRanks_Private(RengaPlan plan, const int ranks[], int limit);
/* The first stage of the ranks of a stage, lying as a wave or in a round; whether these ranks lie
   as a wave. */
int RengaPlanFirstOf_Private(RengaPlan plan, bool wave, int stage);
bool RengaPlanIsWave_Private(RengaPlan plan, const int ranks[]);
/* Ranks of a stage; too many for a plan: above RENGA_PLAN_RANKS_MOST. */
enum { RENGA_PLAN_RANKS_MOST = 1 << 24 };
int64_t RengaPlanCountRanks_Private(const RengaStageShape *shape);
/* Errors of replicas that would have no leaf. */
RengaErrorCode RengaPlanCheckLeaves_Private(RengaPlan plan);
/* Takes the stages over, checked; ranks in order; names are still NULL. */
RengaErrorCode RengaPlanStore_Private(RengaPlan plan, uint64_t digest, int n_nodes, int count,
                                      const RengaPlanStage stages[]);
/* shape.c: a field of a shape by its number, in the order of the struct. */
enum { RENGA_PLAN_SHAPE_FIELDS = 7 };
const char *RengaPlanShapeFieldName_Private(int field);
int RengaPlanGetShapeField_Private(const RengaStageShape *shape, int field);
/* As a file has it: a number or a word. Set takes it back; false: it is none of the field's. */
void RengaPlanFormatShapeField_Private(const RengaStageShape *shape, int field, size_t size,
                                       char text[]);
bool RengaPlanSetShapeField_Private(RengaStageShape *shape, int field, const char *word);
/* Errors of a shape that no runtime could execute. */
RengaErrorCode RengaPlanCheckShape_Private(RengaPlan plan, int stage, const RengaStageShape *shape);
/* kept.c */
void RengaPlanFreeKept_Private(RengaPlan plan);
int RengaPlanCountKept_Private(RengaPlan plan, int stage);
bool RengaPlanKeepsTheSame_Private(RengaPlan plan, int stage, RengaPlan other, int of_other);
/* Errors of names that are not of values that the stage makes. */
RengaErrorCode RengaPlanCheckKept_Private(RengaPlan plan, RengaGraph graph);
/* A plan, of that name, is of this network: of its digest, nodes and lanes. */
RengaErrorCode RengaPlanCheckNetwork_Private(RengaGraph graph, const char *name, uint64_t digest,
                                             int n_nodes, const int lanes[]);
/* That the network is computed in, of each kind, and the words of files before their number. */
extern const char *const RengaPlanLaneWords_Private[RENGA_LANE_KINDS];
void RengaPlanGetLanes_Private(RengaGraph graph, int lanes[RENGA_LANE_KINDS]);
/* text.c: all ranks get the text that rank 0 reads, ended by a zero; the caller frees it. */
RengaErrorCode RengaPlanShareText_Private(RengaPlan plan, const char *file, char **text);
/* What stages hold and send, and their names. */
RengaErrorCode RengaPlanFill_Private(RengaPlan plan, RengaGraph graph);

/* describe.c: what several views say. */
void RengaPlanFormatSchedule_Private(RengaPlan plan, size_t size, char text[]);
void RengaPlanFormatShape_Private(RengaPlan plan, size_t size, char text[]);
/* " x 2 tensor ranks": ranks of a replica, where there are several, alike in all stages. */
void RengaPlanFormatGroups_Private(RengaPlan plan, size_t size, char text[]);
/* Samples per second, without powers of ten. */
void RengaPlanFormatRate_Private(RengaPlan plan, size_t size, char text[]);
/* "0-3, 7": runs of numbers as ranges; a list that is too long ends in "…". */
void RengaPlanFormatRanks_Private(int count, const int ranks[], size_t size, char text[]);
/* Seconds of a step in which a device of the stage computes, for all stages of its ranks. */
double RengaPlanGetBusy_Private(RengaPlan plan, int stage);
/* Share of the pipeline's time in which a device of the stage waits; below 0: not known. */
double RengaPlanGetWait_Private(RengaPlan plan, int stage);
/* Of the FLOPs of all stages. */
double RengaPlanGetShare_Private(RengaPlan plan, int stage);
int RengaPlanMostReplicas_Private(RengaPlan plan);
/* Some stage is otherwise than its replicas, and whether it recomputes, say. */
bool RengaPlanHasShapes_Private(RengaPlan plan);
bool RengaPlanKnowsParts_Private(RengaPlan plan);
bool RengaPlanKnowsSeconds_Private(RengaPlan plan);

/* One file each. */
RengaErrorCode RengaPlanViewAscii_Private(RengaPlan plan, RengaViewer viewer);
RengaErrorCode RengaPlanViewJson_Private(RengaPlan plan, RengaViewer viewer);
RengaErrorCode RengaPlanViewDraw_Private(RengaPlan plan, RengaViewer viewer);

/* The seven categories of memory, in the order of their struct. */
enum { RENGA_PLAN_PARTS = 7 };
extern const char *const RengaPlanPartNames_Private[RENGA_PLAN_PARTS];
void RengaPlanGetParts_Private(const RengaPlanMemory *memory, int64_t parts[RENGA_PLAN_PARTS]);
