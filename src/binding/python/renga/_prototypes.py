"""What this package calls of librenga, as the headers say it.

The texts are C, word for word as in include/*.h (a test compares them), and are read by _library.py.
"""

STRUCTS = """
typedef struct {
  RengaDataType type;
  int ndim; /* -1: an optional input that is absent */
  int64_t dim[RENGA_MAX_DIM];
} RengaTensorSpec;
typedef struct {
  RengaInitKind kind;
  double a, b;           /* constant a; normal mean a deviation b; uniform in [a, b) */
  char *file;            /* RENGA_INIT_FILE: raw little-endian data, owned */
  int64_t offset, bytes; /* in file; bytes 0: from offset to what the shape needs */
  RengaDataType type;    /* as stored in the file */
  double (*map)(double); /* of each number of the file, to which a is added; NULL: the number */
} RengaInit;
typedef struct {
  char *name;
  RengaValueKind kind;
  RengaTensorSpec spec; /* symbolic: -c is c times the batch; its type is the network's */
  RengaDataType stored; /* the type that its elements are kept in while the network runs */
  RengaDataType stored_gradient; /* and those of its gradient, where it has samples */
  int producer;         /* node, -1 where none */
  int output;           /* which output of the producer */
  bool prepared;        /* depends on no parameter, state or random number: cloned into stages */
  bool differentiable;  /* floating and depends on a parameter that is not frozen */
  bool frozen;          /* a parameter that is not updated */
  bool cache;           /* a state that is written before it is read, and that no file holds */
  bool in_order;        /* in the dimension of the batch one sample follows another, once through */
  RengaInit init;
  void *data; /* of a constant, owned */
  RengaValue whole;     /* of a state that a lane has: the state that it is a part of; else NONE */
  int64_t first;        /* and the element of that with which it begins */
  RengaAdapterKind adapter; /* of a parameter */
} RengaGraphValue;
typedef struct {
  int64_t rank;        /* 0: none */
  double alpha;        /* factors count alpha / rank times; 0: the rank */
  double dropout;      /* share of the inputs of the factors that training sets to zero */
  const char *targets; /* patterns of names, or of their ends behind a point: "q_proj,v_proj" */
} RengaGraphLora;
typedef struct {
  int64_t parts; /* 1: one network */
  double weight; /* of the Jensen-Shannon divergence of their probabilities, in the loss */
} RengaGraphDivision;
typedef struct {
  int64_t parameters;      /* elements */
  double forward_flops;    /* per sample */
  double activation_bytes; /* per sample, outputs of all forward nodes */
} RengaGraphTotals;
typedef struct {
  int64_t samples; /* in this step, over all replicas */
  RengaErrorCode (*read)(void *user, int field, int64_t first, int64_t count, void *buffer);
  void *user;
} RengaBatch;
typedef struct {
  const char *name;
  RengaTensorSpec spec; /* whole logical shape */
  bool frozen, state;   /* state: not trained, running statistics */
  RengaAdapterKind adapter;
} RengaPipelineParameter;
typedef struct {
  int64_t step, samples; /* number, from 0; samples over all replicas */
  double loss, norm;     /* of the whole batch; norm of the gradient before clipping */
  double learning_rate;  /* before the scales of groups */
  double seconds;        /* on this rank */
  bool finite;           /* loss and norm are; otherwise nothing was changed */
  bool counts;           /* the number of steps has grown */
} RengaPipelineStepInfo;
typedef struct {
  RengaErrorCode code;
  int depth, rank;     /* in MPI_COMM_WORLD */
  const char *message; /* the sentence, at every depth */
  const char *function, *file;
  int line;
} RengaErrorReport;
typedef struct {
  int64_t step;       /* of the file */
  int taken, network; /* tensors: taken from the file, there are in the network */
} RengaCheckpointInitial;
typedef struct {
  RengaDataType type; /* of its numbers: float32, bfloat16, float16 */
  int64_t file_bytes; /* of a file at most, where it has several tensors; 0: 5 GB */
  const char *like;   /* the folder whose config.json and tokenizer are copied; NULL: none */
  bool merged;        /* adapters are added to their weights; else they are all that is written */
} RengaCheckpointExportSettings;
typedef struct {
  RengaErrorCode (*begin_step)(void *user, int64_t step); /* before a step that trains */
  RengaErrorCode (*step)(void *user, const RengaTrainerRow *row); /* after it */
  RengaErrorCode (*evaluating)(void *user,
                               const RengaTrainerProgress *progress); /* around its batches */
  /* The loss over so many samples of the validation part, after so many steps. */
  RengaErrorCode (*evaluated)(void *user, double loss, int64_t step, int64_t samples);
  RengaErrorCode (*say)(void *user, const char *sentence); /* ends with a newline */
  void *user;                                              /* handed to each of them */
} RengaTrainerMonitor;
typedef struct {
  int64_t step;         /* done so far, those before a resume included */
  int64_t timed_steps;  /* of this run without the first, which warms up */
  double timed_seconds; /* of these */
  double best;          /* the least validation loss, HUGE_VAL: there was none */
  int64_t best_step;    /* after which step */
  bool stopped;         /* asked to leave, or the time is up, before the last step */
  bool time_is_up;      /* of -time_limit */
  bool unsaved;         /* the last checkpoint is missing */
  bool failed;          /* after an error: all ranks have it, and may destroy the checkpoint */
} RengaTrainerStatus;
"""

FUNCTIONS = """
const char *RengaErrorText(RengaErrorCode code);
void RengaErrorSetHandler(RengaErrorHandler report, void *user);
const char *RengaErrorGetMessage(void);
RengaErrorCode RengaErrorAgree(MPI_Comm comm, RengaErrorCode mine);
void RengaErrorAbort(RengaErrorCode code);
RengaErrorCode RengaSetWorld(MPI_Comm comm);
RengaErrorCode RengaInitialize(int *argc, char ***argv, const char help[]);
RengaErrorCode RengaFinalize(void);
void RengaGetVersion(int *major, int *minor, int *patch, const char **text);
RengaErrorCode RengaObjectGetComm(void *object, MPI_Comm *comm);
RengaErrorCode RengaOptionsGetString(const char *name, const char **value, bool *given);
RengaErrorCode RengaOptionsSetValue(const char *name, const char *value);
RengaErrorCode RengaOptionsClearValue(const char *name);
RengaErrorCode RengaViewerCreate(RengaComm comm, const char *specification, RengaViewer *viewer);
RengaErrorCode RengaViewerDestroy(RengaViewer *viewer);
size_t RengaDataTypeSize(RengaDataType type);
const char *RengaDataTypeName(RengaDataType type);
RengaErrorCode RengaCommCreate(MPI_Comm user, RengaComm *comm);
RengaErrorCode RengaCommSetFromOptions(RengaComm comm);
RengaErrorCode RengaCommDestroy(RengaComm *comm);
int RengaCommGetRank(RengaComm comm);
int RengaCommGetSize(RengaComm comm);
RengaErrorCode RengaCommGetNode(RengaComm comm, int *node, int *nodes, int *local_rank,
                                int *local_size);
RengaErrorCode RengaCommSplit(RengaComm comm, int color, int key, RengaComm *group);
RengaErrorCode RengaCommWait(RengaComm comm, RengaRequest *request, const char *what);
RengaErrorCode RengaCommBarrier(RengaComm comm, const char *what);
RengaErrorCode RengaCommBroadcast(RengaComm comm, void *buffer, size_t bytes, int root,
                                  const char *what);
RengaErrorCode RengaCommStartLargest(RengaComm comm, int count, int64_t values[],
                                     RengaRequest *request);
RengaErrorCode RengaGraphCreate(RengaComm comm, RengaGraph *graph);
RengaErrorCode RengaGraphLoad(RengaGraph graph, const char *what);
RengaErrorCode RengaGraphSetFrozen(RengaGraph graph, const char *patterns);
RengaErrorCode RengaGraphSetTrained(RengaGraph graph, const char *patterns);
RengaErrorCode RengaGraphSetLora(RengaGraph graph, const RengaGraphLora *lora);
RengaErrorCode RengaGraphSetDivision(RengaGraph graph, const RengaGraphDivision *division);
RengaErrorCode RengaGraphSetWholeBatch(RengaGraph graph, int64_t samples);
RengaErrorCode RengaGraphSetLanes(RengaGraph graph, int lanes);
RengaErrorCode RengaGraphSetTokenLanes(RengaGraph graph, int lanes);
RengaErrorCode RengaGraphSetPrecision(RengaGraph graph, RengaPrecision precision, const char *keep);
RengaErrorCode RengaGraphSetDimension(RengaGraph graph, const char *dimensions);
RengaErrorCode RengaGraphSetBatchInputs(RengaGraph graph, const char *inputs);
RengaErrorCode RengaGraphSetUp(RengaGraph graph);
RengaErrorCode RengaGraphView(RengaGraph graph, RengaViewer viewer);
RengaErrorCode RengaGraphDestroy(RengaGraph *graph);
RengaErrorCode RengaGraphKeepOutputs(RengaGraph graph, int count, const char *const names[]);
int RengaGraphGetNodeCount(RengaGraph graph);
int RengaGraphGetValueCount(RengaGraph graph);
const RengaGraphValue *RengaGraphGetValue(RengaGraph graph, RengaValue value);
RengaErrorCode RengaGraphGetOutputs(RengaGraph graph, int *count, const RengaValue **values);
RengaErrorCode RengaGraphGetLoss(RengaGraph graph, RengaValue *value);
RengaErrorCode RengaGraphGetTotals(RengaGraph graph, RengaGraphTotals *totals);
uint64_t RengaGraphGetDigest(RengaGraph graph);
RengaErrorCode RengaDataCreate(RengaComm comm, RengaData *data);
RengaErrorCode RengaDataSetFromOptions(RengaData data);
RengaErrorCode RengaDataSetValidationFile(RengaData data, const char *file);
RengaErrorCode RengaDataSetSeed(RengaData data, uint64_t seed);
RengaErrorCode RengaDataSetGraph(RengaData data, RengaGraph graph);
RengaErrorCode RengaDataSetUp(RengaData data);
RengaErrorCode RengaDataDestroy(RengaData *data);
RengaErrorCode RengaDataGetCount(RengaData data, RengaDataPart part, int64_t *samples);
RengaErrorCode RengaDataGetStep(RengaData data, RengaDataPart part, int64_t batch, int64_t step,
                                int64_t *first, int64_t *count, int64_t *epoch);
RengaErrorCode RengaDataSetBatch(RengaData data, int64_t batch);
RengaErrorCode RengaDataRead(RengaData data, RengaDataPart part, int field, int64_t epoch,
                             int64_t first, int64_t count, void *buffer);
RengaErrorCode RengaDataFindSample(RengaData data, int64_t epoch, int64_t place, int64_t *sample);
RengaErrorCode RengaMachineCreate(RengaComm comm, RengaMachine *machine);
RengaErrorCode RengaMachineLoad(RengaMachine machine, const char *file);
RengaErrorCode RengaMachineSetNodes(RengaMachine machine, int64_t nodes);
RengaErrorCode RengaMachineSetMemory(RengaMachine machine, int64_t bytes);
RengaErrorCode RengaMachineGetDeviceCount(RengaMachine machine, int64_t *devices);
RengaErrorCode RengaMachineDestroy(RengaMachine *machine);
RengaErrorCode RengaProfileCreate(RengaComm comm, RengaProfile *profile);
RengaErrorCode RengaProfileSetMachine(RengaProfile profile, RengaMachine machine);
RengaErrorCode RengaProfileSetType(RengaProfile profile, const char *type);
RengaErrorCode RengaProfileSetFromOptions(RengaProfile profile);
RengaErrorCode RengaProfileDestroy(RengaProfile *profile);
RengaErrorCode RengaPartitionCreate(RengaComm comm, RengaPartition *partition);
RengaErrorCode RengaPartitionSetGraph(RengaPartition partition, RengaGraph graph);
RengaErrorCode RengaPartitionSetSettings(RengaPartition partition, RengaSettings settings);
RengaErrorCode RengaPartitionSetMachine(RengaPartition partition, RengaMachine machine);
RengaErrorCode RengaPartitionSetProfile(RengaPartition partition, RengaProfile profile);
RengaErrorCode RengaPartitionSetType(RengaPartition partition, const char *type);
RengaErrorCode RengaPartitionSetStages(RengaPartition partition, int stages);
RengaErrorCode RengaPartitionSetReplicas(RengaPartition partition, int replicas);
RengaErrorCode RengaPartitionSetRanks(RengaPartition partition, int ranks);
RengaErrorCode RengaPartitionSetBatch(RengaPartition partition, int64_t batch, int64_t microbatch);
RengaErrorCode RengaPartitionAddDataPass(RengaPartition partition, int64_t samples);
RengaErrorCode RengaPartitionSetFromOptions(RengaPartition partition);
RengaErrorCode RengaPartitionSolve(RengaPartition partition, RengaPlan *plan);
RengaErrorCode RengaPartitionDestroy(RengaPartition *partition);
RengaErrorCode RengaPlanCreate(RengaComm comm, RengaPlan *plan);
RengaErrorCode RengaPlanSetAvailableRanks(RengaPlan plan, int ranks);
RengaErrorCode RengaPlanGetBatch(RengaPlan plan, int64_t *batch, int64_t *microbatch);
RengaErrorCode RengaPlanGetReason(RengaPlan plan, int number, const char **topic,
                                  const char **sentence);
RengaErrorCode RengaPlanView(RengaPlan plan, RengaViewer viewer);
RengaErrorCode RengaPlanExplain(RengaPlan plan, RengaViewer viewer);
RengaErrorCode RengaPlanCompare(RengaPlan plan, RengaPlan other, RengaViewer viewer);
RengaErrorCode RengaPlanSave(RengaPlan plan, const char *file);
RengaErrorCode RengaPlanLoad(RengaPlan plan, RengaGraph graph, const char *file);
RengaErrorCode RengaPlanDestroy(RengaPlan *plan);
RengaErrorCode RengaPipelineCreate(RengaComm comm, RengaPipeline *pipeline);
RengaErrorCode RengaPipelineSetPlan(RengaPipeline pipeline, RengaGraph graph, RengaPlan plan);
RengaErrorCode RengaPipelineGetSettings(RengaPipeline pipeline, RengaSettings *settings);
RengaErrorCode RengaSettingsSetSeed(RengaSettings settings, uint64_t seed);
RengaErrorCode RengaPipelineSetDataShortBatch(RengaPipeline pipeline,
                                              int64_t samples);
RengaErrorCode RengaPipelineSetFromOptions(RengaPipeline pipeline);
RengaErrorCode RengaPipelineGetOptimizer(RengaPipeline pipeline,
                                         RengaOptimizer *optimizer);
RengaErrorCode RengaPipelineSetUp(RengaPipeline pipeline);
RengaErrorCode RengaPipelineReset(RengaPipeline pipeline);
RengaErrorCode RengaPipelineView(RengaPipeline pipeline, RengaViewer viewer);
RengaErrorCode RengaPipelineDestroy(RengaPipeline *pipeline);
RengaErrorCode RengaPipelineStep(RengaPipeline pipeline, const RengaBatch *batch, double *loss);
RengaErrorCode RengaPipelineEvaluate(RengaPipeline pipeline, const RengaBatch *batch, double *loss);
RengaErrorCode RengaPipelineCount(RengaPipeline pipeline, const RengaBatch *batch, bool *even);
RengaErrorCode RengaPipelineForgetCounts(RengaPipeline pipeline);
RengaErrorCode RengaPipelineForwardTo(RengaPipeline pipeline, const RengaBatch *batch,
                                      const char *output, int to, void *buffer);
int64_t RengaPipelineGetStepNumber(RengaPipeline pipeline);
RengaErrorCode RengaPipelineSetStepNumber(RengaPipeline pipeline, int64_t step);
RengaErrorCode RengaPipelineGetLastStep(RengaPipeline pipeline, RengaPipelineStepInfo *info);
RengaErrorCode RengaPipelineGetDigest(RengaPipeline pipeline, uint64_t *digest);
RengaErrorCode RengaPipelineGetParameter(RengaPipeline pipeline, const char *name, int to,
                                         float buffer[]);
RengaErrorCode RengaPipelineSetParameter(RengaPipeline pipeline, const char *name, int from,
                                         const float buffer[]);
RengaErrorCode RengaPipelineListParameters(RengaPipeline pipeline, int *count,
                                           const RengaPipelineParameter **list);
RengaErrorCode RengaOptimizerSetTotalSteps(RengaOptimizer optimizer, int64_t steps);
RengaErrorCode RengaOptimizerSetLearningRate(RengaOptimizer optimizer, double rate);
RengaErrorCode RengaOptimizerGetMoments(RengaOptimizer optimizer, int *count,
                                        const char *const **names);
RengaErrorCode RengaCheckpointCreate(RengaComm comm, RengaCheckpoint *checkpoint);
RengaErrorCode RengaCheckpointSetPipeline(RengaCheckpoint checkpoint, RengaPipeline pipeline);
RengaErrorCode RengaCheckpointSetDirectory(RengaCheckpoint checkpoint, const char *directory);
RengaErrorCode RengaCheckpointSetSubset(RengaCheckpoint checkpoint, bool subset);
RengaErrorCode RengaCheckpointSetFromOptions(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointSetUp(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointWrite(RengaCheckpoint checkpoint, char **file);
RengaErrorCode RengaCheckpointStep(RengaCheckpoint checkpoint, bool *wrote, bool *stop);
RengaErrorCode RengaCheckpointResume(RengaCheckpoint checkpoint, bool *found, int64_t *step);
RengaErrorCode RengaCheckpointRead(RengaCheckpoint checkpoint, const char *file);
RengaErrorCode RengaCheckpointReadInitial(RengaCheckpoint checkpoint, const char *path,
                                          bool partial, RengaCheckpointInitial *initial);
RengaErrorCode RengaCheckpointReadAdapter(RengaCheckpoint checkpoint, const char *path,
                                          RengaCheckpointInitial *initial);
RengaErrorCode RengaCheckpointSetAttribute(RengaCheckpoint checkpoint, const char *name,
                                           const char *value);
RengaErrorCode RengaCheckpointGetNewest(RengaCheckpoint checkpoint, bool *found, int64_t *step);
RengaErrorCode RengaCheckpointCheckFresh(RengaCheckpoint checkpoint);
RengaErrorCode RengaCheckpointExport(RengaComm comm, const char *path, const char *folder,
                                     const RengaCheckpointExportSettings *settings);
RengaErrorCode RengaCheckpointDestroy(RengaCheckpoint *checkpoint);
RengaErrorCode RengaTrainerCreate(RengaComm comm, RengaTrainer *trainer);
RengaErrorCode RengaTrainerSetFromOptions(RengaTrainer trainer);
RengaErrorCode RengaTrainerAddMonitor(RengaTrainer trainer, const RengaTrainerMonitor *monitor);
RengaErrorCode RengaTrainerSetData(RengaTrainer trainer, RengaGraph graph, RengaData data);
RengaErrorCode RengaTrainerSetReader(RengaTrainer trainer, RengaTrainerReader reader, void *user);
RengaErrorCode RengaTrainerSetPipeline(RengaTrainer trainer, RengaPipeline pipeline, int64_t batch);
RengaErrorCode RengaTrainerSetUp(RengaTrainer trainer);
RengaErrorCode RengaTrainerSetCheckpoint(RengaTrainer trainer, RengaCheckpoint checkpoint);
RengaErrorCode RengaTrainerResume(RengaTrainer trainer, bool *found, int64_t *step);
RengaErrorCode RengaTrainerRun(RengaTrainer trainer);
RengaErrorCode RengaTrainerStep(RengaTrainer trainer);
RengaErrorCode RengaTrainerEvaluate(RengaTrainer trainer, const int64_t samples[2], double *loss);
RengaErrorCode RengaTrainerGetStatus(RengaTrainer trainer, RengaTrainerStatus *status);
RengaErrorCode RengaTrainerDestroy(RengaTrainer *trainer);
void RengaMemoryFree(void *pointer_to_pointer);
"""

# RENGA_TYPE_MAP and RENGA_ERROR_MAP, in the order of the headers.
TYPES = ("float32", "float64", "bfloat16", "float16", "int8", "uint8", "int16", "uint16", "int32",
         "uint32", "int64", "uint64", "bool")
ERRORS = ("MEMORY", "SUPPORT", "ORDER", "ARGUMENT", "OPTION", "SHAPE", "GRAPH", "FILE_OPEN",
          "FILE_FORMAT", "FILE_WRITE", "PLAN", "NUMERIC", "TIMEOUT", "LIBRARY", "INTERNAL")
PRECISIONS = ("fp32", "bf16", "fp16", "tf32", "fp8")
CONSTANTS = {"RENGA_MAX_DIM": 8, "RENGA_TO_ALL": -1, "RENGA_TO_NONE": -2}
# Types that are numbers: enums, but for RengaValue.
ENUMS = ("RengaErrorCode", "RengaDataType", "RengaPrecision", "RengaInitKind", "RengaValueKind", "RengaAdapterKind", "RengaDataPart",
         "RengaValue")
