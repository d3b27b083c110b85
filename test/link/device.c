/* TEST ranks: 1 */
/* A type of device from outside, in one file: memory that the host cannot touch, one operator of
   its own, all else computed on the host from copies. A network trains on it to the bits of the ref
   device, and what cannot be is refused. */
#include "../check.h"
#include "wave.h"

enum { SAMPLES = 24, STEPS = 4 };

/* What the box counts. */
typedef struct {
  int64_t blocks, copies, computed;
} Box;
static Box box;

/* A pointer of the box is one that no processor follows: the host's with bit 47 set. */
static const uintptr_t far_bit = (uintptr_t)1 << 47;

static void *Inside(const void *pointer)
{
  return (void *)((uintptr_t)pointer & ~far_bit);
}

static RengaErrorCode AllocateInBox(size_t bytes, void **pointer, void *user)
{
  void *made = aligned_alloc(64, (bytes + 63) / 64 * 64);
  RengaCheck(made, MPI_COMM_SELF, RENGA_ERR_MEMORY, "the box has no %zu bytes", bytes);
  memset(made, 0xff, bytes);
  *pointer = (void *)((uintptr_t)made | far_bit);
  ((Box *)user)->blocks++;
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeInBox(size_t bytes, void **pointer, void *user)
{
  (void)bytes;
  free(Inside(*pointer));
  *pointer = NULL;
  ((Box *)user)->blocks--;
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyOfBox(RengaStream stream, RengaCopyKind kind, void *to, const void *from,
                                size_t bytes, void *user)
{
  (void)stream;
  if (kind != RENGA_HOST_TO_DEVICE) from = Inside(from);
  if (kind != RENGA_DEVICE_TO_HOST) to = Inside(to);
  memcpy(to, from, bytes);
  ((Box *)user)->copies++;
  return RENGA_SUCCESS;
}

static RengaErrorCode FillBox(RengaStream stream, void *to, int byte, size_t bytes, void *user)
{
  (void)stream;
  (void)user;
  memset(Inside(to), byte, bytes);
  return RENGA_SUCCESS;
}

static bool BoxKnows(const RengaOpCall *call, void *user)
{
  (void)user;
  return strcmp(call->op->name, "Relu") == 0 && call->in[0].type == RENGA_FLOAT32 &&
         call->out[0].type == RENGA_FLOAT32;
}

static RengaErrorCode ComputeInBox(RengaStream stream, const RengaOpCall *call,
                                   const RengaKernelContext *context, const void *const in[],
                                   void *const out[], void *user)
{
  const float *x = Inside(in[0]);
  float *y = Inside(out[0]);
  (void)stream;
  (void)context;
  for (int64_t i = 0; i < RengaTensorSpecCount(&call->in[0]); i++) y[i] = x[i] > 0 ? x[i] : 0;
  ((Box *)user)->computed++;
  return RENGA_SUCCESS;
}

static RengaErrorCode TrainOn(RengaComm comm, RengaGraph graph, const char *type, double loss[],
                              uint64_t *digest)
{
  const RengaBatch batch = {.samples = SAMPLES, .read = ReadWave};
  RengaPartition partition;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaDevice device;
  const char *found;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, SAMPLES, 5));
  RengaCall(RengaPartitionSolve(partition, &plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineGetDevice(pipeline, &device));
  RengaCall(RengaOptionsSetValue("device_type", type));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaDeviceGetType(device, &found));
  Expect(strcmp(found, type) == 0);
  RengaCall(RengaPipelineSetUp(pipeline));
  Expect(RengaDeviceIsHost(device) == (strcmp(type, "box") != 0));
  for (int step = 0; step < STEPS; step++)
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss[step]));
  RengaCall(RengaPipelineGetDigest(pipeline, digest));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestTraining(void)
{
  RengaComm comm;
  RengaGraph graph;
  double expected[STEPS], loss[STEPS];
  uint64_t expected_digest, digest;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=4-16-16-3"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(TrainOn(comm, graph, RENGA_DEVICE_REF, expected, &expected_digest));
  Expect(box.copies == 0);
  RengaCall(TrainOn(comm, graph, "box", loss, &digest));
  Expect(box.blocks == 0 && box.copies > 0 && box.computed > 0);
  for (int step = 0; step < STEPS; step++) Expect(loss[step] == expected[step]);
  Expect(digest == expected_digest);
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode SynchronizeBox(RengaStream stream, void *user)
{
  (void)stream;
  (void)user;
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRefused(const RengaDeviceRule *rule)
{
  static RengaDeviceRule taken, nothing, halfway, mute;
  taken = nothing = halfway = mute = *rule;
  taken.name = "cpu";
  nothing.name = "nothing";
  nothing.copy = NULL;
  halfway.name = "halfway";
  halfway.streamsynchronize = SynchronizeBox;
  mute.name = "mute";
  mute.compute = NULL;
  ExpectError(RengaDeviceRegister(&taken), RENGA_ERR_ARGUMENT, "has a type cpu already");
  ExpectError(RengaDeviceRegister(&nothing), RENGA_ERR_ARGUMENT,
              "the device nothing needs malloc, free, copy and setbytes");
  ExpectError(RengaDeviceRegister(&halfway), RENGA_ERR_ARGUMENT, "give all nine, or none");
  ExpectError(RengaDeviceRegister(&mute), RENGA_ERR_ARGUMENT, "both knows and compute");
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  static const RengaDeviceRule rule = {.name = "box",
                                       .malloc = AllocateInBox,
                                       .free = FreeInBox,
                                       .copy = CopyOfBox,
                                       .setbytes = FillBox,
                                       .knows = BoxKnows,
                                       .compute = ComputeInBox,
                                       .user = &box};
  (void)argc;
  RengaCallAbort(RengaDeviceRegister(&rule));
  RengaCallAbort(TestRefused(&rule));
  char *words[] = {argv[0], (char[]){"-device_type"}, (char[]){"box"}, NULL};
  char **given = words;
  int n_words = 3;
  RengaCallAbort(RengaInitialize(&n_words, &given, NULL)); /* the option knows it */
  RengaCallAbort(TestTraining());
  RengaCallAbort(RengaFinalize());
  return 0;
}
