/* Pipeline: compile this rank's stages, run the actions, keep the parameters. */
#pragma once
#include "rengadata.h"
#include "rengapersistent.h"
#include "rengaplan.h"
#include "rengaschedule.h"
#include "rengasettings.h"

RENGA_BEGIN_DECLS

/* A network that trains by a plan: the stages of this rank, their parameters and their memory. */
typedef struct _p_RengaPipeline *RengaPipeline;
RengaErrorCode RengaPipelineCreate(RengaComm comm, RengaPipeline *pipeline);
RengaErrorCode RengaPipelineSetPlan(RengaPipeline pipeline, RengaGraph graph, RengaPlan plan);
RengaErrorCode RengaPipelineGetGraph(RengaPipeline pipeline, RengaGraph *graph); /* lent */
RengaErrorCode RengaPipelineSetSettings(RengaPipeline pipeline, RengaSettings settings);
RengaErrorCode RengaPipelineGetSettings(RengaPipeline pipeline, RengaSettings *settings); /* lent */
RengaErrorCode RengaPipelineGetStepSchedule(RengaPipeline pipeline, RengaSchedule *schedule);
RengaErrorCode RengaPipelineSetDataShortBatch(RengaPipeline pipeline,
                                              int64_t samples); /* a step may be this short */
RengaErrorCode RengaPipelineSetFromOptions(RengaPipeline pipeline);
RengaErrorCode RengaPipelineGetDevice(RengaPipeline pipeline, RengaDevice *device); /* lent */
RengaErrorCode RengaPipelineGetOptimizer(RengaPipeline pipeline,
                                         RengaOptimizer *optimizer); /* lent */
RengaErrorCode RengaPipelineSetUp(RengaPipeline pipeline);
RengaErrorCode RengaPipelineReset(RengaPipeline pipeline);
RengaErrorCode RengaPipelineView(RengaPipeline pipeline, RengaViewer viewer);
RengaErrorCode RengaPipelineDestroy(RengaPipeline *pipeline);

/* Where a micro-batch's inputs come from: fill buffer with field (index of the graph's inputs) of
   samples [first, first+count) of the step's batch. Called only on ranks that need the field. */
typedef struct {
  int64_t samples; /* in this step, over all replicas */
  /* Fills the buffer with so many samples of one input. */
  RengaErrorCode (*read)(void *user, int field, int64_t first, int64_t count, void *buffer);
  void *user; /* handed to read */
} RengaBatch;
RengaErrorCode RengaPipelineStep(RengaPipeline pipeline, const RengaBatch *batch, double *loss);
RengaErrorCode RengaPipelineEvaluate(RengaPipeline pipeline, const RengaBatch *batch, double *loss);
RengaErrorCode RengaPipelineCount(RengaPipeline pipeline, const RengaBatch *batch, bool *even);
RengaErrorCode RengaPipelineForgetCounts(RengaPipeline pipeline);
RengaErrorCode RengaPipelineForward(RengaPipeline pipeline, const RengaBatch *batch,
                                    const char *output, float *buffer);
/* The same of any type, to any rank, to all of them, or left on the ranks that make it. */
#define RENGA_TO_ALL (-1)
#define RENGA_TO_NONE (-2)
RengaErrorCode RengaPipelineForwardTo(RengaPipeline pipeline, const RengaBatch *batch,
                                      const char *output, int to, void *buffer);
RengaErrorCode RengaPipelineGetOutputRows(RengaPipeline pipeline, const char *output,
                                          int64_t samples, int64_t *first, int64_t *count);
int64_t RengaPipelineGetStepNumber(RengaPipeline pipeline);
RengaErrorCode RengaPipelineSetStepNumber(RengaPipeline pipeline, int64_t step);
/* What a step does whose loss or gradient is not finite. */
typedef enum {
  RENGA_NONFINITE_STOP,    /* it is an error */
  RENGA_NONFINITE_SKIP,    /* it counts, and changes nothing */
  RENGA_NONFINITE_ROLLBACK /* it does not count, for who goes back to a checkpoint */
} RengaNonfinite;
RengaErrorCode RengaPipelineSetOnNonfinite(RengaPipeline pipeline, RengaNonfinite manner);
RengaErrorCode RengaPipelineGetOnNonfinite(RengaPipeline pipeline, RengaNonfinite *manner);
RengaErrorCode RengaPipelineGetNonfiniteCount(RengaPipeline pipeline, int64_t *count);
RengaErrorCode RengaPipelineSetLossScale(RengaPipeline pipeline, double scale, int64_t steps);
RengaErrorCode RengaPipelineGetLossScale(RengaPipeline pipeline, double *scale, int64_t *steps,
                                         bool *used);
/* What came of a step. */
typedef struct {
  int64_t step, samples; /* number, from 0; samples over all replicas */
  double loss, norm;     /* of the whole batch; norm of the gradient before clipping */
  double learning_rate;  /* before the scales of groups */
  double seconds;        /* on this rank */
  bool finite;           /* loss and norm are; otherwise nothing was changed */
  bool counts;           /* the number of steps has grown */
} RengaPipelineStepInfo;
RengaErrorCode RengaPipelineGetLastStep(RengaPipeline pipeline, RengaPipelineStepInfo *info);
/* Called on every rank after each step. */
typedef void (*RengaPipelineMonitor)(RengaPipeline pipeline, const RengaPipelineStepInfo *info,
                                     void *context);
RengaErrorCode RengaPipelineSetMonitor(RengaPipeline pipeline, RengaPipelineMonitor monitor,
                                       void *context);
RengaErrorCode RengaPipelineGetMonitor(RengaPipeline pipeline, RengaPipelineMonitor *monitor,
                                       void **context);
RengaErrorCode RengaPipelineGetSampleLosses(RengaPipeline pipeline, int64_t *samples,
                                            int64_t *columns, const double **values);
RengaErrorCode RengaPipelineGetReads(RengaPipeline pipeline, int fields, int64_t first[],
                                     int64_t last[]);
RengaErrorCode RengaPipelineGetGradientNorm(RengaPipeline pipeline, double *norm);
RengaErrorCode RengaPipelineGetGradient(RengaPipeline pipeline, const char *parameter,
                                        float *buffer);

RengaErrorCode RengaPipelineGetRows(RengaPipeline pipeline, const char *parameter, int64_t *rows);

RengaErrorCode RengaPipelineGetPersistents(RengaPipeline pipeline, int *count,
                                           const RengaPersistent **tensors);     /* lent */
RengaErrorCode RengaPipelineGetDigest(RengaPipeline pipeline, uint64_t *digest); /* collective */
RengaErrorCode RengaPipelineGetParameter(RengaPipeline pipeline, const char *name, int to,
                                         float buffer[]);
RengaErrorCode RengaPipelineSetParameter(RengaPipeline pipeline, const char *name, int from,
                                         const float buffer[]);
RengaErrorCode RengaPipelineSetMemory(RengaPipeline pipeline, int64_t text, int from,
                                      const float buffer[]);
/* One parameter or state of the network, whichever rank has it. */
typedef struct {
  const char *name;         /* in the network, lent */
  RengaTensorSpec spec;     /* whole logical shape */
  bool frozen, state;       /* state: not trained, running statistics */
  RengaAdapterKind adapter; /* of which kind it is a factor */
} RengaPipelineParameter;
RengaErrorCode RengaPipelineListParameters(RengaPipeline pipeline, int *count,
                                           const RengaPipelineParameter **list);
/* What the memory of this rank's device is for, in bytes, as planned and as used. */
typedef struct {
  int64_t parameters, gradients, optimizer, saved, temporary, messages, inputs; /* bytes */
  int64_t forecast,
      measured; /* whole arena: planned, and what the device says was used at the most */
} RengaPipelineMemory;
RengaErrorCode RengaPipelineGetMemory(RengaPipeline pipeline, RengaPipelineMemory *memory);
RengaErrorCode RengaPipelineForecast(RengaGraph graph, RengaPlan plan, int stage,
                                     RengaPipelineMemory *memory);
RengaErrorCode RengaPipelineForecastStage(RengaPipeline pipeline, int stage,
                                          RengaPipelineMemory *memory);
RengaErrorCode RengaPipelineForecastStages(RengaPipeline pipeline, RengaPipelineMemory memory[]);

RENGA_END_DECLS
