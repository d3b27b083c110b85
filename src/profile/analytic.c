/* Costs from a machine's description: a call takes the longer of its arithmetic and its traffic
   (Williams, Waterman, Patterson: "Roofline", CACM 52, 2009), each at the rate that is reached, and
   the time to launch a kernel. */
#include "profileimpl.h"
#include "rengaplan.h"
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
  const bool tf32 = call->in[0].type == RENGA_FLOAT32 && RengaOpCallInt(call, "tf32");
  return tf32 ? "tf32" : RengaDataTypeName(call->in[0].type);
}

/* Of products; 0: the machine does not say. Integers have the rate of float32, as machine files
   know no other. */
static double MatrixRate(const RengaMachineDevice *device, const RengaOpCall *call)
{
  const RengaDataType type = call->in[0].type;
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

static double Seconds(const RengaMachineDevice *device, const RengaOpCall *call)
{
  const double rate = RengaProfileIsMatrix_Private(call)
                          ? MatrixRate(device, call) * device->matrix_efficiency
                          : device->vector_rate * device->vector_efficiency;
  const double work = RengaOperatorFlops(call) / rate;
  const double traffic =
      RengaProfileBytes_Private(call) / (device->memory_bandwidth * device->bandwidth_efficiency);
  return (work > traffic ? work : traffic) + device->launch;
}

static RengaErrorCode Price(RengaProfile profile, int first)
{
  const RengaMachineDevice *device;
  RengaCall(GetDevice(profile, &device));
  for (int c = first; c < profile->n_calls; c++) {
    const RengaOpCall call = RengaProfileOpCall_Private(&profile->call[c]);
    RengaCall(CheckRate(profile, device, &call));
    profile->call[c].seconds = Seconds(device, &call);
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

static RengaErrorCode Update(RengaProfile profile, int64_t parameters, double *seconds)
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
static RengaErrorCode Accumulate(RengaProfile profile, int64_t parameters, double *seconds)
{
  RengaStorage storage;
  RengaCall(FindStorage(profile, &storage));
  const double bytes = 3 * (double)RengaDataTypeSize(storage.gradient);
  RengaCall(Stream(profile, bytes * (double)parameters, seconds));
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
  profile->ops->costs = RengaProfileSumCalls_Private;
  profile->ops->price = Price;
  profile->ops->update = Update;
  profile->ops->accumulate = Accumulate;
  profile->ops->machine = Machine;
  return RENGA_SUCCESS;
}
