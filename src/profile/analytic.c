/* Costs from a machine's description: a call takes the longer of its arithmetic and its traffic
   (Williams, Waterman, Patterson: "Roofline", CACM 52, 2009), each at the rate that is reached, and
   the time to launch a kernel. */
#include "profileimpl.h"
#include "renga/private/cost.h"
#include <math.h>
#include <string.h>

static RengaErrorCode GetDevice(RengaProfile profile, const RengaMachineDevice **device)
{
  RengaCheck(profile->machine, profile->hdr.comm, RENGA_ERR_ORDER,
             "analytic costs need a machine: give -machine_file, or RengaProfileSetMachine");
  RengaCall(RengaMachineGetDevice(profile->machine, device));
  return RENGA_SUCCESS;
}

/* What its factors are rounded to, or their type. */
static const char *NameOfFactors(const RengaOpCall *call)
{
  if (RengaOpCallRounds_Private(call, RENGA_PRECISION_FP8)) return "fp8";
  const bool tf32 = RengaOpCallRounds_Private(call, RENGA_PRECISION_TF32);
  return tf32 && call->in[0].type == RENGA_FLOAT32 ? "tf32" : RengaDataTypeName(call->in[0].type);
}

/* Of products; 0: the machine does not say. Integers have the rate of float32, as machine files
   know no other. */
static double MatrixRate(const RengaMachineDevice *device, const RengaOpCall *call)
{
  const RengaDataType type = call->in[0].type;
  if (RengaOpCallRounds_Private(call, RENGA_PRECISION_FP8)) return device->matrix_rate_fp8;
  if (type == RENGA_FLOAT64) return device->matrix_rate_float64;
  if (type == RENGA_BFLOAT16) return device->matrix_rate_bfloat16;
  if (type == RENGA_FLOAT16) return device->matrix_rate_float16;
  return strcmp(NameOfFactors(call), "tf32") == 0 ? device->matrix_rate_tf32 : device->matrix_rate;
}

static RengaErrorCode CheckRate(RengaProfile profile, const RengaMachineDevice *device,
                                const RengaOpCall *call)
{
  RengaCheck(!RengaProfileIsMatrix_Private(call) || MatrixRate(device, call) > 0, profile->hdr.comm,
             RENGA_ERR_SUPPORT,
             "the network has a %s of %s values, and machine %s does not say at which rate it "
             "computes them: give it a matrix_rate_%s",
             call->op->name, NameOfFactors(call), device->name, NameOfFactors(call));
  return RENGA_SUCCESS;
}

/* Scores of an attention, [rows of queries, rows of keys]; 0: the call is none. */
static double CountScores(const RengaOpCall *call)
{
  const bool backward = strcmp(call->op->name, "AttentionGrad") == 0;
  if (!backward && strcmp(call->op->name, "Attention") != 0) return 0;
  const RengaTensorSpec *q = &call->in[backward ? 1 : 0], *k = q + 1;
  double rows = 1;
  for (int d = 0; d < q->ndim - 1; d++) rows *= (double)q->dim[d];
  return rows * (double)k->dim[k->ndim - 2];
}

/* Kernels that are not fused go through all scores, one after the other. Backward has those of
   forward, which fused ones make again by one product of its five, and goes through them once
   more. */
static void AddPasses(const RengaMachineDevice *device, const RengaOpCall *call, double *work,
                      double *passes)
{
  const double scores = CountScores(call);
  const bool backward = strcmp(call->op->name, "AttentionGrad") == 0;
  *passes = 0;
  if (device->attention_passes <= 0 || scores <= 0) return;
  *passes = (device->attention_passes + (backward ? 1 : 0)) * scores *
            (double)RengaDataTypeSize(call->in[0].type);
  if (backward) *work *= 4.0 / 5.0;
}

enum { TILE = 128 }; /* rows and columns that a block of a product computes */

/* The last tiles of a product leave processors idle: of 1.2 rounds of tiles two are waited for.
   Where there are fewer tiles than processors kernels take smaller ones, or cut the sum. */
static double ShareOfRounds(const RengaMachineDevice *device, double rows, double columns)
{
  const double rounds = ceil(rows / TILE) * ceil(columns / TILE) / (double)device->processors;
  return device->processors <= 0 || rounds < 1 ? 1 : rounds / ceil(rounds);
}

/* Each tile begins with loads that nothing hides and ends with stores: the longer its sums are the
   less of its time. */
static double ShareOfShape(const RengaMachineDevice *device, const RengaOpCall *call)
{
  const RengaTensorSpec *out = &call->out[0];
  if (strncmp(call->op->name, "Linear", 6) != 0 || out->ndim < 2) return 1;
  const double columns = (double)out->dim[out->ndim - 1];
  const double elements = (double)RengaTensorSpecCount(out);
  const double depth = fmax(1, RengaOperatorFlops(call) / (2 * elements));
  return ShareOfRounds(device, elements / columns, columns) * depth / (depth + device->half_depth);
}

/* Kernels of products read 16 bytes at a time, and single elements of 16 bits where rows do not
   begin at a multiple of 4. */
static bool HasUnalignedRows(const RengaOpCall *call)
{
  if (strncmp(call->op->name, "Linear", 6) != 0 && strcmp(call->op->name, "MatMul") != 0)
    return false;
  for (int i = 0; i < call->n_in + call->n_out; i++) {
    const RengaTensorSpec *spec = i < call->n_in ? &call->in[i] : &call->out[i - call->n_in];
    if (spec->ndim >= 2 &&
        (size_t)spec->dim[spec->ndim - 1] * RengaDataTypeSize(spec->type) % 4 != 0)
      return true;
  }
  return false;
}

/* FLOP/s that products reach. */
static double ReachedRate(const RengaMachineDevice *device, const RengaOpCall *call)
{
  const bool attention = CountScores(call) > 0 && device->attention_efficiency > 0;
  if (device->unaligned_efficiency > 0 && HasUnalignedRows(call))
    return MatrixRate(device, call) * device->unaligned_efficiency;
  return MatrixRate(device, call) * (attention
                                         ? device->attention_efficiency
                                         : ShareOfShape(device, call) * device->matrix_efficiency);
}

/* Gradients of rows that are looked up are added one after the other where tokens share a row. */
static double TrafficSeconds(const RengaMachineDevice *device, const RengaOpCall *call)
{
  const double seconds =
      RengaProfileBytes_Private(call) / (device->memory_bandwidth * device->bandwidth_efficiency);
  if (device->scatter_efficiency <= 0 || strcmp(call->op->name, "GatherGrad") != 0) return seconds;
  return seconds + (double)RengaTensorSpecBytes(&call->in[0]) /
                       (device->memory_bandwidth * device->scatter_efficiency);
}

/* Two factors are rounded to 8 bits: a kernel reads one to find its largest number, another one
   reads it again and writes the copy, which the product reads. */
static double RoundingSeconds(const RengaMachineDevice *device, const RengaOpCall *call)
{
  double bytes = 0;
  if (!RengaOpCallRounds_Private(call, RENGA_PRECISION_FP8)) return 0;
  for (int i = 0; i < 2; i++)
    bytes +=
        2 * (double)RengaTensorSpecBytes(&call->in[i]) + (double)RengaTensorSpecCount(&call->in[i]);
  return bytes / (device->memory_bandwidth * device->bandwidth_efficiency) + 4 * device->launch;
}

static double CostSeconds(const RengaMachineDevice *device, const RengaOpCall *call)
{
  if (call->op->flags & RENGA_OP_RESHAPE) return 0;
  const bool matrix = RengaProfileIsMatrix_Private(call);
  const double rate =
      matrix ? ReachedRate(device, call) : device->vector_rate * device->vector_efficiency;
  const double bandwidth = device->memory_bandwidth * device->bandwidth_efficiency;
  double work = RengaOperatorFlops(call) / rate, passes;
  const double traffic = TrafficSeconds(device, call);
  AddPasses(device, call, &work, &passes);
  return (work > traffic ? work : traffic) + passes / bandwidth + RoundingSeconds(device, call) +
         device->launch;
}

static RengaErrorCode Price(RengaProfile profile, int first)
{
  const RengaMachineDevice *device;
  RengaCall(GetDevice(profile, &device));
  for (int c = first; c < profile->n_calls; c++) {
    const RengaOpCall call = RengaProfileOpCall_Private(&profile->call[c]);
    RengaCall(CheckRate(profile, device, &call));
    profile->call[c].seconds = CostSeconds(device, &call);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Stream(RengaProfile profile, double bytes, double *seconds)
{
  const RengaMachineDevice *device;
  RengaCall(GetDevice(profile, &device));
  *seconds =
      bytes > 0 ? bytes / (device->memory_bandwidth * device->bandwidth_efficiency) + device->launch
                : 0;
  return RENGA_SUCCESS;
}

/* Costs are those of the network's precision. */
static RengaErrorCode FindStorage(RengaProfile profile, RengaStorage *storage)
{
  RengaPrecision precision;
  RengaCall(RengaGraphGetPrecision(profile->graph, &precision));
  RengaCall(RengaPrecisionGetStorage(precision, storage));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileUpdate_Analytic(RengaProfile profile, int64_t parameters,
                                           double *seconds)
{
  RengaSettings settings;
  RengaOptimizer optimizer;
  RengaStorage storage;
  int moments;
  const char *const *names;
  int64_t bytes;
  RengaCall(FindStorage(profile, &storage));
  RengaCall(RengaProfileNeedSettings_Private(profile, &settings));
  RengaCall(RengaSettingsGetOptimizer(settings, &optimizer));
  RengaCall(RengaOptimizerGetMoments(optimizer, &moments, &names));
  RengaCall(RengaStorageCountUpdateBytes(&storage, moments, &bytes));
  RengaCall(Stream(profile, (double)bytes * (double)parameters, seconds));
  return RENGA_SUCCESS;
}

/* y += x: two vectors are read, one is written. */
RengaErrorCode RengaProfileAccumulate_Analytic(RengaProfile profile, int64_t parameters,
                                               double *seconds)
{
  const RengaMachineDevice *device;
  RengaStorage storage;
  RengaCall(GetDevice(profile, &device));
  *seconds = 0;
  if (device->accumulates) return RENGA_SUCCESS;
  RengaCall(FindStorage(profile, &storage));
  const double bytes = 3 * (double)RengaDataTypeSize(storage.gradient);
  RengaCall(Stream(profile, bytes * (double)parameters, seconds));
  return RENGA_SUCCESS;
}

void RengaProfileSetDevices_Private(RengaProfile profile, int64_t devices)
{
  profile->devices = devices;
}

/* A step waits for all its devices. Of n of a normal distribution the slowest is about sqrt(2 ln n)
   deviations behind the mean (David, Nagaraja: "Order Statistics", 2003). */
static RengaErrorCode FindSlowest(RengaProfile profile, double spread, double *slowest)
{
  int64_t devices = profile->devices;
  if (!devices) RengaCall(RengaMachineGetDeviceCount(profile->machine, &devices));
  *slowest = 1 + spread * sqrt(2 * log((double)devices));
  return RENGA_SUCCESS;
}

static RengaErrorCode Costs(RengaProfile profile, int64_t samples, RengaProfileCost costs[])
{
  const RengaMachineDevice *device;
  double slowest;
  RengaCall(GetDevice(profile, &device));
  profile->sums_in_one = device->all_reduce > 0;
  profile->sum_seconds = device->all_reduce;
  profile->host = device->host;
  RengaCall(RengaProfileSumCalls_Private(profile, samples, costs));
  RengaCall(FindSlowest(profile, device->spread, &slowest));
  for (int n = 0; n < RengaGraphGetNodeCount(profile->graph); n++) {
    costs[n].forward *= slowest;
    costs[n].backward *= slowest;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Machine(RengaProfile profile, RengaMachine *machine)
{
  const RengaMachineDevice *device;
  RengaCall(GetDevice(profile, &device));
  *machine = profile->machine;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileCreate_Analytic(void *object)
{
  RengaProfile profile = object;
  profile->ops->costs = Costs;
  profile->ops->price = Price;
  profile->ops->update = RengaProfileUpdate_Analytic;
  profile->ops->accumulate = RengaProfileAccumulate_Analytic;
  profile->ops->machine = Machine;
  return RENGA_SUCCESS;
}
