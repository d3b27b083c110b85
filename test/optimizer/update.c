/* TEST ranks: 1 */
/* Trajectories of every type on every device against PyTorch's (trajectories.h). */
#include "../check.h"
#include "renga/private/kernel.h"
#include "renga/private/optimizer.h"
#include "rengacomm.h"
#include "rengaoptimizer.h"
#include "trajectories.h"
#include <math.h>
#include <string.h>

enum { CASES = sizeof cases / sizeof *cases, COPIES = 251, COUNT = PARAMETERS * COPIES };
static const int rows[] = {0, 1, STEPS - 1};

static RengaErrorCode MakeOptimizer(RengaComm comm, int c, RengaOptimizer *optimizer)
{
  RengaCall(RengaOptimizerCreate(comm, optimizer));
  RengaCall(RengaOptimizerSetType(*optimizer, cases[c].type));
  RengaCall(RengaOptimizerSetLearningRate(*optimizer, cases[c].rate));
  RengaCall(RengaOptimizerSetWeightDecay(*optimizer, cases[c].weight_decay));
  RengaCall(RengaOptimizerSetClipNorm(*optimizer, cases[c].clip_norm));
  if (strcmp(cases[c].type, RENGA_OPTIMIZER_SGD) == 0)
    RengaCall(RengaOptimizerSetMomentum(*optimizer, cases[c].momentum, cases[c].nesterov));
  else
    RengaCall(RengaOptimizerSetBetas(*optimizer, cases[c].beta1, cases[c].beta2, cases[c].epsilon));
  RengaCall(RengaOptimizerSetUp(*optimizer));
  return RENGA_SUCCESS;
}

/* The norm is that of one copy. */
static double MakeGradient(const float parameter[], float gradient[])
{
  double squares = 0;
  for (int i = 0; i < COUNT; i++) {
    gradient[i] = curve[i % PARAMETERS] * (parameter[i] - target[i % PARAMETERS]);
    if (i < PARAMETERS) squares += (double)gradient[i] * gradient[i];
  }
  return sqrt(squares);
}

static RengaErrorCode CheckRow(int c, int row, const float parameter[])
{
  for (int i = 0; i < COUNT; i++) {
    double expected = cases[c].parameter[row][i % PARAMETERS],
           error = fabs(parameter[i] - expected);
    RengaCheck(error <= 4e-6 * (1 + fabs(expected)), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "%s: parameter %d is %.9g, not %.9g, in row %d", cases[c].name, i,
               (double)parameter[i], expected, row);
  }
  return RENGA_SUCCESS;
}

/* buffers: parameter, gradient, two moments; the device is a host one. */
static RengaErrorCode CheckCase(RengaComm comm, RengaDevice device, int c, float *const buffers[])
{
  RengaOptimizer optimizer;
  const char *const *names;
  int moments;
  RengaCall(MakeOptimizer(comm, c, &optimizer));
  RengaCall(RengaOptimizerGetMoments(optimizer, &moments, &names));
  Expect(moments == (cases[c].type[0] == 'a' ? 2 : cases[c].momentum > 0));
  for (int i = 0; i < COUNT; i++) buffers[0][i] = start[i % PARAMETERS];
  memset(buffers[2], 0, sizeof(float) * COUNT);
  memset(buffers[3], 0, sizeof(float) * COUNT);
  for (int step = 0, row = 0; step < STEPS; step++) {
    double scale, norm = MakeGradient(buffers[0], buffers[1]);
    RengaCall(RengaOptimizerGetScale(optimizer, norm, &scale));
    RengaCall(RengaOptimizerUpdate(optimizer, device, NULL, "layer.weight", step, scale, COUNT,
                                   buffers[0], buffers[1], buffers + 2));
    if (step == rows[row]) RengaCall(CheckRow(c, row++, buffers[0]));
  }
  RengaCall(RengaOptimizerDestroy(&optimizer));
  return RENGA_SUCCESS;
}

/* Two parameters in one call have the bits that each has in a call of its own. */
static RengaErrorCode CheckTogether(RengaComm comm, RengaDevice device, int c, float *const b[])
{
  enum { HALF = COUNT / 2 };
  RengaOptimizer optimizer;
  RengaParameterUpdate update[2];
  const char *const *names;
  int moments;
  float alone[PARAMETERS];
  RengaCall(MakeOptimizer(comm, c, &optimizer));
  RengaCall(RengaOptimizerGetMoments(optimizer, &moments, &names));
  for (int i = 0; i < COUNT; i++) b[0][i] = start[i % PARAMETERS];
  MakeGradient(b[0], b[1]);
  for (int m = 2; m < 4; m++) memset(b[m], 0, sizeof(float) * COUNT);
  RengaCall(RengaOptimizerUpdate(optimizer, device, NULL, "layer.weight", 0, 0.5, PARAMETERS, b[0],
                                 b[1], b + 2));
  memcpy(alone, b[0], sizeof alone);
  memcpy(b[0], start, sizeof alone);
  for (int m = 2; m < 4; m++) memset(b[m], 0, sizeof(float) * COUNT);
  for (int u = 0; u < 2; u++) {
    update[u] = (RengaParameterUpdate){.rate_scale = 1, .weight_decay = cases[c].weight_decay};
    update[u].parameter = (RengaVector){b[0] + u * HALF, RENGA_FLOAT32, u ? COUNT - HALF : HALF};
    update[u].gradient = (RengaVector){b[1] + u * HALF, RENGA_FLOAT32, u ? COUNT - HALF : HALF};
    for (int m = 0; m < moments; m++)
      update[u].moment[m] =
          (RengaVector){b[2 + m] + u * HALF, RENGA_FLOAT32, u ? COUNT - HALF : HALF};
  }
  RengaCall(RengaOptimizerUpdateAll(optimizer, device, NULL, 0, 0.5, 2, update));
  for (int i = 0; i < COUNT; i++) Expect(b[0][i] == alone[i % PARAMETERS]);
  RengaCall(RengaOptimizerDestroy(&optimizer));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckDevice(RengaComm comm, const char *type)
{
  RengaDevice device;
  float *buffers[4];
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, type));
  RengaCall(RengaDeviceSetUp(device));
  Expect(RengaDeviceIsHost(device));
  for (int i = 0; i < 4; i++)
    RengaCall(RengaDeviceMalloc(device, COUNT * sizeof(float), &buffers[i]));
  for (int c = 0; c < CASES; c++) RengaCall(CheckCase(comm, device, c, buffers));
  for (int c = 0; c < CASES; c++) RengaCall(CheckTogether(comm, device, c, buffers));
  for (int i = 0; i < 4; i++) RengaCall(RengaDeviceFree(device, &buffers[i]));
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckDevice(comm, RENGA_DEVICE_REF));
  RengaCall(CheckDevice(comm, RENGA_DEVICE_CPU));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
