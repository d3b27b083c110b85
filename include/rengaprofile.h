/* Profile: seconds of each node of a graph on a device, forward and backward. */
#pragma once
#include "rengadevice.h"
#include "rengagraph.h"
#include "rengamachine.h"
#include "rengasettings.h"

RENGA_BEGIN_DECLS

/* What each node of a network costs on a device, in seconds. */
typedef struct _p_RengaProfile *RengaProfile;
/* Where costs come from, for RengaProfileSetType and -profile_type. */
#define RENGA_PROFILE_MEASURED "measured" /* each kernel is run and timed */
#define RENGA_PROFILE_ANALYTIC "analytic" /* worked out from the rates of a machine file */
#define RENGA_PROFILE_FILE "file"         /* read from a file of RengaProfileSave */

/* Of one node on one micro-batch. backward: all gradients that training needs of it. Prepared
   nodes cost nothing here: they are computed once and kept. */
typedef struct {
  double forward, backward; /* seconds */
} RengaProfileCost;

/* A type from outside: who knows seconds, of calls or of nodes, by a model, a simulator, a table.
   Seconds are not negative. Rank 0 is asked, and all have the answers. */
typedef struct {
  size_t size;      /* sizeof(RengaProfileRule), by which later versions know what it has */
  const char *name; /* of the type, as -profile_type takes it */
  /* Of one call, forward or backward, with the shapes of a micro-batch. NULL: costs knows them. */
  RengaErrorCode (*price)(RengaProfile profile, const RengaOpCall *call, double *seconds,
                          void *user);
  /* Of all nodes of the profile's network on a micro-batch of so many samples: fills the costs.
     NULL: price knows them. */
  RengaErrorCode (*costs)(RengaProfile profile, int64_t samples, RengaProfileCost costs[],
                          void *user);
  /* To update so many parameters, and to add one gradient of theirs to another; NULL: what the
     memory of the machine needs, as of type analytic. */
  RengaErrorCode (*update)(RengaProfile profile, int64_t parameters, double *seconds, void *user);
  RengaErrorCode (*accumulate)(RengaProfile profile, int64_t parameters, double *seconds,
                               void *user); /* see update */
  void *user;                               /* handed to each of them */
} RengaProfileRule;
RengaErrorCode RengaProfileRegister(const RengaProfileRule *rule);

RengaErrorCode RengaProfileCreate(RengaComm comm, RengaProfile *profile);
RengaErrorCode RengaProfileSetGraph(RengaProfile profile, RengaGraph graph);
RengaErrorCode RengaProfileGetGraph(RengaProfile profile, RengaGraph *graph); /* lent; NULL: none */
RengaErrorCode RengaProfileSetMachine(RengaProfile profile, RengaMachine machine);
RengaErrorCode RengaProfileSetDevice(RengaProfile profile, RengaDevice device); /* measured */
RengaErrorCode RengaProfileGetDevice(RengaProfile profile, RengaDevice *device);
RengaErrorCode RengaProfileSetSettings(RengaProfile profile, RengaSettings settings);
RengaErrorCode RengaProfileGetSettings(RengaProfile profile, RengaSettings *settings);
RengaErrorCode RengaProfileSetType(RengaProfile profile, const char *type);
RengaErrorCode RengaProfileGetType(RengaProfile profile, const char **type);
RengaErrorCode RengaProfileSetFromOptions(RengaProfile profile); /* -profile_type, -profile_file */
RengaErrorCode RengaProfileGetCosts(RengaProfile profile, int64_t samples,
                                    RengaProfileCost costs[]);
RengaErrorCode RengaProfileGetUpdateSeconds(RengaProfile profile, int64_t parameters,
                                            double *seconds);
RengaErrorCode RengaProfileGetAccumulateSeconds(RengaProfile profile, int64_t parameters,
                                                double *seconds);
RengaErrorCode RengaProfileGetMachine(RengaProfile profile, RengaMachine *machine);
RengaErrorCode RengaProfileSave(RengaProfile profile, const char *file, int count,
                                const int64_t samples[]);
RengaErrorCode RengaProfileGetMeasured(RengaProfile profile, int64_t *count);
RengaErrorCode RengaProfileView(RengaProfile profile, RengaViewer viewer);
RengaErrorCode RengaProfileDestroy(RengaProfile *profile);

RENGA_END_DECLS
