/* What the files of the profile's room share. */
#pragma once
#include "renga/private/object.h"
#include "rengacomm.h"
#include "rengaprofile.h"

/* A distinct call: operator, attributes and concrete shapes. Nodes that share it cost the same. */
typedef struct {
  const RengaGraphNode *node; /* the first that has it; lent by the differentiated network */
  RengaTensorSpec *spec;      /* [n_in + n_out] */
  uint64_t hash;
  double seconds; /* negative: not known yet */
} ProfileCall;

typedef enum { PROFILE_PART_NONE = -1, PROFILE_PART_FORWARD, PROFILE_PART_BACKWARD } ProfilePart;

struct _RengaProfileOps {
  RengaErrorCode (*setfromoptions)(RengaProfile profile);
  RengaErrorCode (*costs)(RengaProfile profile, int64_t samples, RengaProfileCost costs[]);
  /* Seconds of calls [first, n_calls) that are not known. */
  RengaErrorCode (*price)(RengaProfile profile, int first);
  RengaErrorCode (*update)(RengaProfile profile, int64_t parameters, double *seconds);
  RengaErrorCode (*accumulate)(RengaProfile profile, int64_t parameters, double *seconds);
  RengaErrorCode (*machine)(RengaProfile profile, RengaMachine *machine);
  RengaErrorCode (*view)(RengaProfile profile, RengaViewer viewer);
  RengaErrorCode (*destroy)(RengaProfile profile);
};

struct _p_RengaProfile {
  RENGAHEADER(struct _RengaProfileOps);
  RengaGraph graph;     /* borrowed */
  RengaMachine machine; /* borrowed; NULL: none set */
  RengaDevice device;   /* borrowed; NULL: none set */
  /* the network as one stage, differentiated; NULL before costs are asked for */
  RengaGraph whole;
  ProfilePart *part; /* [nodes of whole] when it runs in a training step; NONE: it costs nothing */
  int largest;       /* most inputs and outputs of a node */
  /* distinct calls */
  int n_calls, n_slots;
  ProfileCall *call;
  int *slot;  /* open addressing: call + 1, 0 where free */
  void *data; /* of the type */
};

/* whole.c: differentiates once. */
RengaErrorCode RengaProfileDifferentiate_Private(RengaProfile profile);
/* calls.c: the call of each node of whole (-1: costs nothing) for that many samples; new ones are
   appended to the table. */
RengaErrorCode RengaProfileFindCalls_Private(RengaProfile profile, int64_t samples, int number[]);
void RengaProfileFreeCalls_Private(RengaProfile profile);
RengaOpCall RengaProfileOpCall_Private(const ProfileCall *call);
/* Costs as sums over calls: of types that price calls. */
RengaErrorCode RengaProfileSumCalls_Private(RengaProfile profile, int64_t samples,
                                            RengaProfileCost costs[]);
/* Bytes that a call must move: of a table only what is looked up. */
double RengaProfileBytes_Private(const RengaOpCall *call);
bool RengaProfileIsMatrix_Private(const RengaOpCall *call);
/* Bytes that updating one parameter moves, with the optimizer of the options. */
RengaErrorCode RengaProfileUpdateBytes_Private(double *bytes);

RengaErrorCode RengaProfileCreate_Analytic(void *profile);
