/* What the files of the profile's room share. */
#pragma once
#include "renga/private/object.h"
#include "renga/private/op.h"
#include "rengacomm.h"
#include "rengaprofile.h"

/* A distinct call: operator, attributes, concrete shapes, and which tensors lie in a cache. Nodes
   that share it cost the same. */
typedef struct {
  const RengaGraphNode *node; /* the first that has it; lent by the differentiated network */
  RengaTensorSpec *spec;      /* [n_in + n_out] */
  uint32_t warm;              /* bit i: input i, or output i - n_in, was used just before */
  int64_t samples;
  uint64_t hash;  /* the same in every run */
  double seconds; /* negative: not known yet */
} ProfileCall;

typedef enum { PROFILE_PART_NONE = -1, PROFILE_PART_FORWARD, PROFILE_PART_BACKWARD } ProfilePart;

/* What a node has to do with a sum over tensor ranks: it cuts or adds terms, or makes the sum. */
typedef enum { PROFILE_SUM_NONE, PROFILE_SUM_TERMS, PROFILE_SUM_WHOLE } ProfileSum;

struct _RengaProfileOps {
  RengaErrorCode (*setfromoptions)(RengaProfile profile);
  RengaErrorCode (*costs)(RengaProfile profile, int64_t samples, RengaProfileCost costs[]);
  /* Seconds of calls [first, n_calls) that are not known. */
  RengaErrorCode (*price)(RengaProfile profile, int first);
  bool together; /* price is collective */
  RengaErrorCode (*update)(RengaProfile profile, int64_t parameters, double *seconds);
  RengaErrorCode (*accumulate)(RengaProfile profile, int64_t parameters, double *seconds);
  RengaErrorCode (*keep)(RengaProfile profile, const char *name, double *seconds); /* or NULL */
  RengaErrorCode (*machine)(RengaProfile profile, RengaMachine *machine);
  RengaErrorCode (*forget)(RengaProfile profile); /* another network comes; may be NULL */
  RengaErrorCode (*view)(RengaProfile profile, RengaViewer viewer);
  RengaErrorCode (*destroy)(RengaProfile profile);
};

struct _p_RengaProfile {
  RENGAHEADER(struct _RengaProfileOps);
  RengaGraph graph;             /* a reference */
  RengaMachine machine;         /* a reference; NULL: none set */
  RengaDevice device;           /* likewise */
  int64_t devices;              /* that a step waits for; 0: all of the machine */
  RengaSettings settings;       /* NULL: none set */
  const RengaProfileRule *rule; /* of a type from outside; else NULL */
  /* the network as one stage, differentiated; NULL before costs are asked for */
  RengaGraph whole;
  ProfilePart *part; /* [nodes of whole] when it runs in a training step; NONE: it costs nothing */
  uint32_t *warm;    /* [nodes of whole] as in a call */
  ProfileSum *sum;   /* [nodes of whole] */
  bool sums_in_one;  /* nodes of sums are no calls, but each sum takes sum_seconds */
  double sum_seconds;
  double host; /* seconds between products that a host issues; 0: devices wait for none */
  int *number; /* [nodes of whole] call of the last question; -1: none; NULL: none asked */
  int largest; /* most inputs and outputs of a node */
  /* distinct calls */
  int n_calls, n_slots;
  ProfileCall *call;
  int *slot;  /* open addressing: call + 1, 0 where free */
  void *data; /* of the type */
};

/* whole.c: differentiates once. */
RengaErrorCode RengaProfileDifferentiate_Private(RengaProfile profile);
/* The value whose memory a view shows. */
RengaValue RengaProfileRoot_Private(RengaGraph whole, RengaValue value);
/* calls.c: the call of each node of whole (-1: costs nothing) for that many samples; new ones are
   appended to the table. */
RengaErrorCode RengaProfileFindCalls_Private(RengaProfile profile, int64_t samples, int number[]);
void RengaProfileFreeCalls_Private(RengaProfile profile);
RengaOpCall RengaProfileOpCall_Private(const ProfileCall *call);
/* What a file knows the call by. */
void RengaProfileCallText_Private(const ProfileCall *call, size_t size, char text[]);
/* Costs as sums over calls: of types that price calls. */
RengaErrorCode RengaProfileSumCalls_Private(RengaProfile profile, int64_t samples,
                                            RengaProfileCost costs[]);
/* Bytes that a call must move: of a table only what is looked up. */
double RengaProfileBytes_Private(const RengaOpCall *call);
bool RengaProfileIsMatrix_Private(const RengaOpCall *call);
/* The settings, made as they are where nothing is said if none were set; lent. */
RengaErrorCode RengaProfileNeedSettings_Private(RengaProfile profile, RengaSettings *settings);

/* store.c: seconds by name, of one device, in a file that other runs may write too. */
typedef struct {
  char *name;
  double seconds;
} ProfileRow;
typedef struct {
  int count;
  ProfileRow *row; /* sorted by name */
} ProfileRows;
RengaErrorCode RengaProfileRowsAdd_Private(ProfileRows *rows, const char *name, double seconds);
bool RengaProfileRowsFind_Private(const ProfileRows *rows, const char *name, double *seconds);
void RengaProfileRowsFree_Private(ProfileRows *rows);
/* Rank 0 reads and writes, all have the rows. required: a file that is there must be good. */
RengaErrorCode RengaProfileStoreRead_Private(RengaComm comm, const char *file, const char *device,
                                             bool required, ProfileRows *rows);
RengaErrorCode RengaProfileStoreWrite_Private(RengaComm comm, const char *file, const char *device,
                                              bool required, const ProfileRows *rows);
/* The default file; empty where there is no place for it. */
void RengaProfileStoreName_Private(size_t size, char name[]);

/* measured.c: bytes of a micro-batch's step: tensors come again after that many; beyond the largest
   no cache matters. A few classes, so that networks of a kind share their costs. */
int64_t RengaProfileColdBytes_Private(RengaProfile profile, int64_t samples);

/* run.c: one call after the other on the device, with tensors as cold or warm as in a step. */
typedef struct {
  RengaDevice device;
  bool host, processor; /* memory is the host's; time is this thread's processor time */
  double overhead;      /* seconds of reading the clock */
  int64_t cold;         /* bytes between two uses of a cold tensor */
  char *pool[2];        /* float32 inputs, outputs */
  int64_t bytes[2], at[2];
} ProfileBench;
RengaErrorCode RengaProfileBenchCreate_Private(RengaDevice device, int64_t cold,
                                               ProfileBench *bench);
RengaErrorCode RengaProfileBenchFree_Private(ProfileBench *bench);
double RengaProfileClock_Private(const ProfileBench *bench);
RengaErrorCode RengaProfileTimeCall_Private(ProfileBench *bench, const ProfileCall *call,
                                            double *seconds);
double RengaProfileMedian_Private(int count, double values[]); /* sorts */
/* fill.c: values that are no float32 of the pool: indices within bounds, and other types. */
/* The input has indices, which are below the bound. */
bool RengaProfileIsIndex_Private(const RengaOpCall *call, int input, int64_t *bound);
RengaErrorCode RengaProfileFill_Private(const RengaOpCall *call, int input, void *data);

RengaErrorCode RengaProfileCreate_Analytic(void *profile);
RengaErrorCode RengaProfileCreate_Measured(void *profile);
RengaErrorCode RengaProfileCreate_File(void *profile);
RengaErrorCode RengaProfileAdopt_Private(void *profile, const void *rule);
/* By the bandwidth of the machine's memory. */
RengaErrorCode RengaProfileUpdate_Analytic(RengaProfile profile, int64_t parameters,
                                           double *seconds);
RengaErrorCode RengaProfileAccumulate_Analytic(RengaProfile profile, int64_t parameters,
                                               double *seconds);
