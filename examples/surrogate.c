/* A simulation that trains a surrogate of itself while it runs.

   The first ranks of the job solve the heat equation u_t = k u_xx on [0, 1] with u = 0 at both
   ends, for random diffusivities k and random first temperatures, a sum of three sines. The
   last ranks are Renga's: they learn to map (k, the three amplitudes) to the temperature at
   time 0.1, from the solver's results, which never touch a disk. At the end the network is
   asked for cases that it has not seen, and compared with the solver.

     mpiexec -n 4 ./surrogate                            2 ranks solve, 2 learn
     mpiexec -n 6 ./surrogate -surrogate_trainers 4 -layout_pipeline 2
     mpiexec -n 4 ./surrogate -surrogate_rounds 400 -optimizer_learning_rate 1e-3

   What to look at: only the trainers call Renga (RengaSetWorld gives it their communicator); a
   batch is a piece of memory that the simulation filled (Read); the solver's own communication
   is MPI's, beside Renga's. */
#include <math.h>
#include <renga.h>
#include <stdlib.h>
#include <string.h>

enum { N_IN = 4, GRID = 32, SAMPLES_PER_SOLVER = 16, SEED = 20 };

typedef struct {
  float in[N_IN];  /* diffusivity, scaled to [0, 1), and three amplitudes */
  float out[GRID]; /* temperature inside, at time 0.1 */
} Sample;

/* ---- the simulation: knows nothing of Renga ---- */

static double Uniform(uint64_t *state)
{
  *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (double)(*state >> 11) / 9007199254740992.0;
}

/* Explicit steps in time, as long as they are stable. */
static void Solve(Sample *sample)
{
  const double diffusivity = 0.05 + 0.45 * (double)sample->in[0], dx = 1.0 / (GRID + 1), end = 0.1;
  const int steps = (int)ceil(end * diffusivity / (0.4 * dx * dx));
  const double factor = diffusivity * end / steps / (dx * dx), pi = acos(-1);
  double u[GRID + 2] = {0}, next[GRID + 2] = {0};
  for (int i = 1; i <= GRID; i++)
    for (int k = 0; k < 3; k++) u[i] += (double)sample->in[1 + k] * sin((k + 1) * pi * i * dx);
  for (int s = 0; s < steps; s++) {
    for (int i = 1; i <= GRID; i++) next[i] = u[i] + factor * (u[i - 1] - 2 * u[i] + u[i + 1]);
    memcpy(u, next, sizeof u);
  }
  for (int i = 0; i < GRID; i++) sample->out[i] = (float)u[i + 1];
}

static void MakeSample(uint64_t *state, Sample *sample)
{
  sample->in[0] = (float)Uniform(state);
  for (int k = 0; k < 3; k++) sample->in[1 + k] = (float)(2 * Uniform(state) - 1);
  Solve(sample);
}

/* One round: each solver makes its samples; all trainers get those of all solvers, in the
   order of the solvers. solvers: how many the other side has (on a trainer), else 0. */
static RengaErrorCode Exchange(MPI_Comm between, int n_mine, const Sample mine[], Sample all[])
{
  const int bytes = n_mine * (int)sizeof(Sample);
  const int arriving = all ? SAMPLES_PER_SOLVER * (int)sizeof(Sample) : 0;
  RengaCallMPI(MPI_Allgather(mine, bytes, MPI_BYTE, all, arriving, MPI_BYTE, between));
  return RENGA_SUCCESS;
}

static RengaErrorCode Simulate(MPI_Comm between, int solver, int rounds)
{
  uint64_t state = SEED + 1000003ULL * (uint64_t)solver;
  Sample mine[SAMPLES_PER_SOLVER];
  for (int round = 0; round <= rounds; round++) { /* the last one is for the comparison */
    for (int i = 0; i < SAMPLES_PER_SOLVER; i++) MakeSample(&state, &mine[i]);
    RengaCall(Exchange(between, SAMPLES_PER_SOLVER, mine, NULL));
  }
  return RENGA_SUCCESS;
}

/* ---- the surrogate ---- */

/* The batch's memory: field 0 is what goes in, field 1 what should come out. */
static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Sample *sample = (const Sample *)user + first;
  for (int64_t i = 0; i < count; i++) {
    if (field == 0) memcpy((float *)buffer + i * N_IN, sample[i].in, sizeof sample[i].in);
    if (field == 1) memcpy((float *)buffer + i * GRID, sample[i].out, sizeof sample[i].out);
  }
  return RENGA_SUCCESS;
}

/* The mean of the squared difference over all samples of the batch and all points. */
static RengaErrorCode AddSquaredError(RengaGraph graph, RengaValue a, RengaValue b)
{
  const int64_t axes[] = {0, 1};
  RengaAttributes attributes = {0};
  RengaValue pair[2] = {a, b}, difference, loss;
  RengaCall(RengaGraphAddNode(graph, "Sub", NULL, NULL, 2, pair, 1, NULL, &difference));
  pair[0] = pair[1] = difference;
  RengaCall(RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, pair, 1, NULL, &difference));
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 2, axes));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaErrorCode code =
      RengaGraphAddNode(graph, "ReduceMean", "loss", &attributes, 1, &difference, 1, NULL, &loss);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildNetwork(RengaGraph graph)
{
  const RengaTensorSpec in = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, N_IN}};
  const RengaTensorSpec out = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, GRID}};
  RengaValue x, target, y;
  RengaCall(RengaGraphAddInput(graph, "in", &in, &x));
  RengaCall(RengaGraphAddInput(graph, "temperature", &out, &target));
  RengaCall(RengaGraphAddLinear(graph, "up", x, 64, true, 0.5, &x));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", x, &x));
  RengaCall(RengaGraphAddLinear(graph, "middle", x, 64, true, 0.15, &x));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", x, &x));
  RengaCall(RengaGraphAddLinear(graph, "answer", x, GRID, true, 0.1, &y));
  RengaCall(RengaGraphAddUnary(graph, "Identity", y, &y));
  RengaCall(RengaGraphAddOutput(graph, y));
  RengaCall(AddSquaredError(graph, y, target));
  RengaCall(RengaGraphSetUp(graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePipeline(RengaComm comm, RengaGraph graph, int64_t batch,
                                   RengaPipeline *pipeline)
{
  RengaPartition partition;
  RengaPlan plan;
  RengaOptimizer optimizer;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, batch, SAMPLES_PER_SOLVER / 2));
  RengaCall(RengaPartitionSetFromOptions(partition)); /* default: a stage per trainer or replicas */
  RengaCall(RengaPartitionSolve(partition, &plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPipelineCreate(comm, pipeline));
  RengaCall(RengaPipelineSetPlan(*pipeline, graph, plan));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_ADAM));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 3e-3));
  RengaCall(RengaPipelineSetFromOptions(*pipeline));
  RengaCall(RengaPipelineSetUp(*pipeline));
  return RENGA_SUCCESS;
}

/* Samples of the last round were not learned from. */
static RengaErrorCode CompareWithSolver(RengaPipeline pipeline, RengaGraph graph, MPI_Comm trainers,
                                        int64_t count, Sample sample[])
{
  const RengaValue *outputs;
  int n_outputs;
  float *answer;
  double difference = 0, size = 0;
  const RengaBatch batch = {.samples = count, .read = Read, .user = sample};
  RengaCall(RengaGraphGetOutputs(graph, &n_outputs, &outputs));
  RengaCall(RengaMalloc(count * GRID, &answer));
  RengaErrorCode code =
      RengaPipelineForward(pipeline, &batch, RengaGraphGetValue(graph, outputs[0])->name, answer);
  for (int64_t i = 0; i < count * GRID; i++) {
    const double wanted = (double)sample[i / GRID].out[i % GRID];
    difference += pow((double)answer[i] - wanted, 2);
    size += wanted * wanted;
  }
  RengaFree(&answer);
  RengaCall(code);
  RengaCall(RengaPrintf(
      trainers, "on %lld new cases the surrogate is off by %.1f %% of the solver's temperature\n",
      (long long)count, 100 * sqrt(difference / size)));
  return RENGA_SUCCESS;
}

static RengaErrorCode Learn(RengaComm comm, MPI_Comm trainers, MPI_Comm between, int rounds)
{
  RengaGraph graph;
  RengaPipeline pipeline;
  Sample *sample;
  int solvers;
  double first = 0, loss = 0;
  RengaCallMPI(MPI_Comm_remote_size(between, &solvers));
  const int64_t count = (int64_t)solvers * SAMPLES_PER_SOLVER;
  RengaCall(RengaMalloc(count, &sample));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(BuildNetwork(graph));
  RengaCall(MakePipeline(comm, graph, count, &pipeline));
  for (int round = 0; round < rounds; round++) {
    const RengaBatch batch = {.samples = count, .read = Read, .user = sample};
    RengaCall(Exchange(between, 0, NULL, sample));
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
    if (round == 0) first = loss;
    if (round % 50 == 0)
      RengaCall(RengaPrintf(trainers, "round %4d  squared error %.3e\n", round, loss));
  }
  RengaCall(Exchange(between, 0, NULL, sample));
  RengaCall(CompareWithSolver(pipeline, graph, trainers, count, sample));
  RengaCheck(loss < 0.5 * first, MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "the squared error only fell from %g to %g", first, loss);
  RengaFree(&sample);
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTrainers(MPI_Comm trainers, MPI_Comm between, int rounds)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(trainers, &comm));
  RengaCall(Learn(comm, trainers, between, rounds));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

/* ---- both ---- */

/* A flag of the simulation, taken out of its arguments: the rest is Renga's. */
static int TakeFlag(int *argc, char **argv, const char *name, int value)
{
  for (int i = 1; i + 1 < *argc; i++) {
    if (strcmp(argv[i], name) != 0) continue;
    value = atoi(argv[i + 1]);
    for (int k = i; k + 2 <= *argc; k++) argv[k] = argv[k + 2];
    *argc -= 2;
  }
  return value;
}

int main(int argc, char **argv)
{
  int rank, size;
  MPI_Comm side, between;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int trainers = TakeFlag(&argc, argv, "-surrogate_trainers", size / 2);
  const int rounds = TakeFlag(&argc, argv, "-surrogate_rounds", 150);
  if (trainers < 1 || trainers >= size || rounds < 1) {
    if (rank == 0)
      fprintf(stderr,
              "surrogate: %d ranks with %d trainers and %d rounds: there must be a solver, a "
              "trainer and a round\n",
              size, trainers, rounds);
    MPI_Finalize();
    return 2;
  }
  const bool learns = rank >= size - trainers;
  MPI_Comm_split(MPI_COMM_WORLD, learns, rank, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, learns ? 0 : size - trainers, 0, &between);
  if (learns) {
    RengaCallAbort(RengaSetWorld(side)); /* Renga's world: the trainers */
    RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
    RengaCallAbort(RunTrainers(side, between, rounds));
    RengaCallAbort(RengaFinalize());
  } else if (Simulate(between, rank, rounds)) {
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Comm_free(&between);
  MPI_Comm_free(&side);
  MPI_Finalize();
  return 0;
}
