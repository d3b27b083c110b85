/* What the commands of the renga program share. */
#pragma once
#include "renga.h"

typedef struct {
  RengaComm comm;
  int n_words; /* words of the command line after the command that are no options */
  char **words;
  int *exit_code; /* of the program; 0 where nothing sets it */
} App;

/* The ranks of an object, of which the first prints, and which are told of its errors. */
static inline MPI_Comm AppPrinter(void *object)
{
  MPI_Comm ranks = MPI_COMM_SELF;
  (void)RengaObjectGetComm(object, &ranks);
  return ranks;
}

/* One file each. */
RengaErrorCode AppTrain(const App *app);
RengaErrorCode AppInfo(const App *app);
RengaErrorCode AppPlan(const App *app);
RengaErrorCode AppProfile(const App *app);
RengaErrorCode AppData(const App *app);
RengaErrorCode AppGenerate(const App *app);
RengaErrorCode AppEval(const App *app);
RengaErrorCode AppPredict(const App *app);
RengaErrorCode AppExport(const App *app);
RengaErrorCode AppOptions(const App *app);
RengaErrorCode AppWatch(const App *app);
RengaErrorCode AppSuperviseMisplaced(const App *app); /* an error: "run" has to come first */
int AppSupervise(int argc, char **argv); /* supervisor/: without MPI and options; the exit code */

/* devices.c: what computes here, for renga info. Collective. */
RengaErrorCode AppPrintDevices(const App *app);
/* parameters.c: a table of what is trained, for renga info. */
RengaErrorCode AppPrintParameters(MPI_Comm printer, RengaGraph graph);

/* files.c: no file is read and written. writes_last: the last word names what is written, those
   before it are read. Collective. */
RengaErrorCode AppCheckFiles(const App *app, bool writes_last);
/* A file that a command makes is not there yet, or -overwrite is given. Collective. */
RengaErrorCode AppCheckNewFile(RengaComm comm, const char *file);

/* data.c: the options of renga data, which other commands refuse. */
RengaErrorCode AppDataRegister(void);
RengaErrorCode AppDataRefuseOptions(RengaComm comm, const char *command);
RengaErrorCode AppFolderFile(const char *network, const char *name, char **path); /* network.c */
/* network.c: the network of -graph, set up. Where the options say that a batch is one micro-batch
   on one replica, also one that cannot be cut, which is said. */
typedef struct {
  RengaErrorCode (*set)(RengaGraph graph, const char *outputs);
  const char *outputs;
} AppEnds; /* other ends than the network's own */
RengaErrorCode AppLoadGraph(RengaComm comm, const AppEnds *ends, RengaGraph *graph);
/* Before it is loaded: lanes that options leave to Renga; and again, after a plan. */
typedef struct {
  bool heads, tokens;
} AppLanes;
RengaErrorCode AppFindOpenLanes(AppLanes *open);
RengaErrorCode AppReopenLanes(const AppLanes *open);
RengaErrorCode AppLoadTrained(RengaComm comm, RengaGraph *graph); /* it has a loss */
RengaErrorCode AppKeepPlannedLanes(RengaGraph graph); /* in checkpoints, as if they were given */
/* Value of a string option that must be given; purpose: what for. */
RengaErrorCode AppNeedOption(RengaComm comm, const char *name, const char *purpose,
                             const char **value);
/* The partition of the options; batch and replicas where the user gives none, 0: chosen. */
RengaErrorCode AppHasChunks(RengaComm comm, bool *several); /* collective: -layout_chunks */
RengaErrorCode AppMakePartition(RengaComm comm, RengaGraph graph, int64_t batch, int replicas,
                                RengaPartition *partition);

/* nodes.c: a plan for the machine of -machine_file with so many nodes (0: the file's), by type auto
   unless an option says another. An error is returned, not passed on. */
RengaErrorCode AppPlanMachine(RengaComm comm, RengaGraph graph, int64_t nodes, RengaPlan *plan);
/* The same, as far as options are read: is one refused? */
RengaErrorCode AppCheckMachinePlanning(RengaComm comm);
/* A plan in a table of several: for one number of nodes, or values of options. */
enum { APP_SWEPT = 4, APP_SWEPT_VALUE = 64 };
typedef struct {
  char value[APP_SWEPT][APP_SWEPT_VALUE]; /* of what the rows differ in */
  double place;                           /* of the row along the picture; 0: none */
  int curve;                              /* of the picture, from 0 */
  int64_t nodes, devices, batch, microbatches, memory;
  bool fits, front;        /* front: no other row is better without being worse in something */
  int used, recomputed;    /* devices, stages */
  double rate, efficiency; /* samples/s; of a device, beside the first, or the best, that fits */
  double flops, peak;      /* FLOP/s of a device: of the network; of the machine, 0: not known */
  RengaPlanPrediction prediction;
  RengaErrorCode code; /* of what was not planned, and its sentence */
  char shape[32], refusal[512];
} AppPlanRow;
/* Collective: a plan is made, for so many nodes (0: as the options say). An error of the planning
   is the row's. */
RengaErrorCode AppMakePlanRow(RengaComm comm, RengaGraph graph, int64_t nodes, AppPlanRow *row);
/* faster.c: a sentence each, where a plan in bfloat16 or in smaller micro-batches is worth one;
   lanes: that Renga chooses. */
RengaErrorCode AppSayFaster(RengaComm comm, RengaGraph graph, RengaMachine machine,
                            const AppLanes *lanes, RengaPlan plan);
RengaErrorCode AppPlanNodes(RengaComm comm, RengaGraph graph, RengaMachine machine);
/* sweep.c: -plan_sweep, for the values of options. */
RengaErrorCode AppPlanSweep(const App *app);
/* curve.c: along: what the rows of a curve differ in; words: by values that are no numbers; ideal:
   with a line of what every device as good as those of the first row would give. */
typedef struct {
  const char *title, *along;
  bool ideal, words;
  int n_curves;
  char (*names)[256]; /* [n_curves] of the curves, where there are several */
} AppCurve;
RengaErrorCode AppDrawRows(RengaViewer viewer, const AppCurve *curve, int count,
                           const AppPlanRow rows[]);

/* budget.c: what -plan_tokens or -plan_samples take. */
typedef struct {
  double samples;    /* 0: not asked */
  double per_sample; /* tokens; 0: a sample has none */
  bool tokens;       /* they are counted, not samples */
} AppBudget;
RengaErrorCode AppReadBudget(RengaComm comm, RengaGraph graph, AppBudget *budget);
/* Seconds of all its steps, the last of which may be short; steps: their number. */
double AppTrainingTime(const AppBudget *budget, int64_t batch, double step, double *steps);
void AppFormatDays(double seconds, size_t size, char text[]);  /* "12.3 days" */
void AppFormatHours(double seconds, size_t size, char text[]); /* "295:12", minutes rounded up */
/* A sentence; nodes 0: the plan's devices are counted, else all of so many nodes. */
RengaErrorCode AppPrintBudget(RengaComm comm, const AppBudget *budget, RengaPlan plan,
                              int64_t nodes, int64_t devices);

/* plantable.c: rows of plans. */
typedef struct {
  const char *subject; /* plans for what */
  int n_along;
  const char *along[APP_SWEPT]; /* what the rows differ in */
  const char *compared;         /* title of the column of efficiencies */
  int *order;                   /* [count] rows as they are printed, with a column that says which
                                   are of the front; NULL: as they stand, without it */
  AppBudget budget;
  int count;
  AppPlanRow *rows;
} AppPlanTable;
RengaErrorCode AppRefuseOfOnePlan(RengaComm comm); /* options for one plan, before it is long */
/* view: of -plan_view, NULL where it is not given; the viewer shows the table, not the picture. */
RengaErrorCode AppOpenPlanTable(RengaComm comm, const char **view, RengaViewer *viewer);
RengaErrorCode AppPrintPlanTable(RengaViewer viewer, const AppPlanTable *table);
RengaErrorCode AppDrawPlanTable(RengaComm comm, const char *view, const AppCurve *curve,
                                const AppPlanTable *table);

/* reading.c: what reading the fields takes, for the planner. */
RengaErrorCode AppSetReading(RengaPartition partition, const RengaDataFields *fields,
                             RengaData data);
/* accuracy.c: how often the likeliest class is the label. */
typedef struct {
  char *scores;    /* name of an output of the network; NULL: it has no scores of classes */
  bool likelihood; /* the loss is the mean of a cross-entropy */
  int field;       /* the input with the labels */
  int64_t labels, classes, inner; /* scores of a sample are [labels / inner, classes, inner] */
  RengaDataType type;             /* of the labels */
  int64_t ignored;
  /* On rank 0 */
  float *buffer;
  char *label;
  int64_t room; /* samples */
  double right, counted;
} AppAccuracy;
/* Finds the scores and makes them an output; before the plan is made. */
RengaErrorCode AppAccuracyCreate(RengaGraph graph, const RengaDataFields *fields,
                                 AppAccuracy *accuracy);
void AppAccuracyBegin(AppAccuracy *accuracy);
/* Collective: counts one batch in. */
RengaErrorCode AppAccuracyAdd(AppAccuracy *accuracy, RengaComm comm, RengaPipeline pipeline,
                              const RengaBatch *batch);
void AppAccuracyDestroy(AppAccuracy *accuracy);

/* monitor.c, see below */
typedef struct _AppMonitor *AppMonitor;

/* samples.c: samples of one step as the data set has them; to be the user of a RengaBatch. */
typedef struct {
  RengaData data;
  RengaDataPart part;
  int64_t first, epoch;
} AppWindow;
RengaErrorCode AppReadWindow(void *user, int field, int64_t first, int64_t count, void *buffer);
/* -data and -eval, set up; in_order: training samples as the files have them. */
RengaErrorCode AppOpenData(RengaComm comm, RengaGraph graph, bool in_order, RengaData *data);
RengaErrorCode AppOpenFields(RengaComm comm, const RengaDataFields *fields, bool in_order,
                             RengaData *data);
/* Samples are tokens where an input of [batch, sequence] indexes a table; else 0. */
int64_t AppTokensPerSample(const RengaDataFields *fields);
/* Of tokens that a cross-entropy is the mean of; 0 where there is none. */
double AppPerplexity(const RengaDataFields *fields, const AppAccuracy *accuracy, double loss);

/* forward.c: a network that is run forward over a data set, with the parameters of -initial. */
typedef struct {
  RengaComm comm;   /* lent */
  MPI_Comm printer; /* lent */
  RengaGraph graph;
  RengaDataFields fields;
  RengaData data;
  RengaPlan plan;
  RengaPipeline pipeline;
  int64_t batch, step;                        /* step: of the parameters; -1: the network's own */
  bool subset;                                /* the file may hold more than the network */
  const char *part;                           /* "validation", "training" or "all" */
  int64_t samples[RENGA_DATA_VALIDATION + 1]; /* of each part that is used; 0: it is not */
} AppForward;
/* Collective. With the outputs alone where needs_loss is false, named with commas or (NULL) all. */
RengaErrorCode AppForwardOpen(RengaComm comm, bool needs_loss, const char *outputs,
                              AppForward *forward);
/* Collective, after the outputs are known: plan, pipeline and parameters. */
RengaErrorCode AppForwardSetUp(AppForward *forward);
RengaErrorCode AppForwardDestroy(AppForward *forward);

/* unused.c: an error where an option is given that nothing of this run looks at. */
RengaErrorCode AppRefuseUnused(MPI_Comm printer, const char *name, const char *why);
/* token.c: -monitor_token, -monitor_token_file or RENGA_MONITOR_TOKEN, NULL: none; an error where
   one of the two options is given. */
RengaErrorCode AppTokenFind(char **token);
RengaErrorCode AppTokenRefuse(MPI_Comm printer, const char *why);

/* hiding.c: of -data_hide. */
extern const AppEnds AppHidingEnds; /* asks the network for the losses of its samples */
RengaErrorCode AppCheckHiding(MPI_Comm printer, RengaGraph graph);

/* placement.c: what ranks hold, and what was sent. Collective. */
RengaErrorCode AppPrintTraffic(RengaComm comm, RengaData data, AppMonitor monitor);

/* origin.c: what a checkpoint tells about its run; a table of what differs when one is read, which
   -resume_strict makes an error. */
typedef struct {
  RengaGraph graph;
  RengaData data;
  RengaPlan plan;
  RengaOptimizer optimizer;
  int64_t seed, steps, batch;
} AppOrigin;
RengaErrorCode AppSetOrigin(RengaCheckpoint checkpoint, const AppOrigin *origin);
RengaErrorCode AppCompareOrigin(RengaComm comm, RengaCheckpoint checkpoint,
                                const AppOrigin *origin);
/* Collective, before the plan is made: sizes that were chosen for the run and are not given. */
RengaErrorCode AppKeepChoices(RengaCheckpoint checkpoint);

/* initial.c. Collective, before any work: is there a file of -initial? */
RengaErrorCode AppPeekInitial(RengaComm comm);
/* Collective, of a run whose pipeline is set up: what -initial and -initial_adapter say, unless it
   goes on from its own checkpoint. Of learners the first takes it. */
RengaErrorCode AppTakeInitial(RengaComm comm, const RengaTrainerParts *parts, bool resumes);
/* Collective: for a pipeline that is set up; step -1: not given; subset: the file may hold more. */
RengaErrorCode AppReadInitial(RengaComm comm, RengaPipeline pipeline, bool subset,
                              RengaCheckpointInitial *initial);
/* Collective: -initial_adapter; says: what was read. */
RengaErrorCode AppReadAdapter(RengaComm comm, RengaPipeline pipeline, bool says);
/* Collective: those of a file, or of the newest in a folder. */
RengaErrorCode AppReadParameters(RengaComm comm, RengaPipeline pipeline, const char *path,
                                 bool partial, bool subset, RengaCheckpointInitial *initial);

/* checkpoint.c. Collective, before any work: a wrong option or a folder that cannot be written is
   found early. */
typedef struct {
  RengaCheckpoint checkpoint; /* NULL: neither -checkpoint_dir nor -time_limit is given */
  bool saves, resumes;        /* it has a folder; -resume finds a checkpoint there */
} AppCheckpoint;
RengaErrorCode AppOpenCheckpoint(RengaComm comm, AppCheckpoint *kept);

/* timelimit.c: collective; seconds from now, 0: none. */
RengaErrorCode AppFindTimeLimit(RengaComm comm, double *seconds);

/* monitor.c: progress on standard output, and the places of -monitor. A run does steps first …
   steps-1. */
typedef struct {
  int64_t first, steps, tokens; /* tokens: per sample, 0 where there are none */
  RengaPlan plan;               /* lent, as the pipeline is, until the run begins */
  RengaPipeline pipeline;
} AppRun;
/* How rows of a CSV file begin. */
#define APP_ROWS_HEADER                                                                            \
  "step,loss,learning_rate,gradient_norm,samples_per_second,seconds,validation_loss,perplexity"
typedef struct {
  double loss, perplexity, accuracy; /* perplexity 0, accuracy (0 … 1) -1: there is none */
  int64_t done, samples;             /* steps before it; samples that it is the mean of */
} AppValidation;
/* Collective, before any work: can all places be written, and are they none of another run? The
   trainer then tells it of all. */
RengaErrorCode AppMonitorCreate(RengaComm comm, RengaTrainer trainer, AppMonitor *monitor);
/* Collective, before the first step. fields, accuracy: of the validation part, lent. */
RengaErrorCode AppMonitorBegin(AppMonitor monitor, const AppRun *run, const RengaDataFields *fields,
                               AppAccuracy *accuracy);
RengaErrorCode AppMonitorSay(AppMonitor monitor, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* a line of its own, past the bar */
/* Collective; an error where numbers are missing. goes_on: the run, later, so that it is a
   warning. */
RengaErrorCode AppMonitorDestroy(AppMonitor *monitor, bool goes_on);

/* ranks.c: "idle", "stage 1, replica 0", "stages 0, 2, replica 0". */
RengaErrorCode AppDescribeRank(RengaPlan plan, int rank, size_t size, char what[]);

/* summary.c: a line about the run that begins, with the schedule of a pipeline that trains (NULL:
   it does not); a table of memory over the ranks (collective). */
RengaErrorCode AppPrintStart(RengaComm comm, RengaGraph graph, RengaPlan plan,
                             RengaPipeline pipeline);
/* Collective: as -plan_view, -plan_explain and -plan_save say; names the files that it wrote. */
RengaErrorCode AppViewPlan(RengaComm comm, RengaPlan plan);
/* Collective: the forecasts of a pipeline that is set up, into its plan; says which tables are
   updated by rows. */
RengaErrorCode AppSetPlanMemory(RengaComm comm, RengaPlan plan, RengaPipeline pipeline);
RengaErrorCode AppPrintMemory(RengaComm comm, RengaPlan plan, RengaPipeline pipeline);
/* Collective: with -parameter_digest. */
RengaErrorCode AppPrintDigest(RengaPipeline pipeline, AppMonitor monitor);

/* timeline.c: -schedule_view. Collective, before any work: may its file be written? view NULL: it
   is not given. */
RengaErrorCode AppReadScheduleView(RengaComm comm, const char **view, bool *drawn);
/* Collective: one picture. */
RengaErrorCode AppDrawSchedule(RengaComm comm, RengaSchedule schedule, const char *view,
                               RengaScheduleStep *step);
/* Collective, of a pipeline that is set up: what of it is no drawing. */
RengaErrorCode AppViewSchedule(RengaComm comm, RengaPipeline pipeline);
/* Of a run, whose steps are kept to be drawn at its end; NULL: none is asked for. */
typedef struct _AppTimeline *AppTimeline;
RengaErrorCode AppTimelineCreate(RengaComm comm, RengaTrainer trainer, AppTimeline *timeline);
RengaErrorCode AppTimelineDraw(AppTimeline timeline, RengaPipeline pipeline, RengaPlan plan,
                               AppMonitor monitor); /* collective */
void AppTimelineDestroy(AppTimeline *timeline);

/* share.c: seconds of a step as they were and as the plan predicts them, and what ranks that share
   cores take at the least. Collective. */
RengaErrorCode AppPrintSpeed(RengaComm comm, RengaPlan plan, RengaPipeline pipeline,
                             AppMonitor monitor, double seconds);

/* terminal.c: does what this process prints end on a terminal, perhaps through mpiexec? output: 1
   is the standard output, 2 the standard error. */
bool AppTerminal(int output, int *columns);
void AppLetOutputFail(void); /* output.c */
RengaErrorCode AppCheckOutput(MPI_Comm printer);
