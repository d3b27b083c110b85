/* Flat vectors: updates of parameters, sums of gradients, norms. Their time per element depends on
   where the vectors lie: those of a small network stay in a cache from step to step, others come
   from memory. All ranks that may compute measure at the same time, as they share memory then as
   they do in a step. */
#include "measured.h"
#include "renga/private/kernel.h"
#include "renga/private/optimizer.h"
#include "renga/private/sums.h"
#include <math.h>

enum {
  CHUNK = 1 << 16,      /* elements of one call */
  WARM_BYTES = 1 << 20, /* of all vectors together */
  COLD_BYTES = 256 << 20,
  ROUNDS = 9,
  VECTORS = 10
};

/* Of what is measured: masters, gradients and moments, in all precisions. */
static const RengaDataType vector_type = RENGA_FLOAT32;

/* One way to go through vectors of CHUNK elements. */
typedef struct VectorKind VectorKind;
struct VectorKind {
  char name[96];
  int vectors; /* that one call uses */
  RengaErrorCode (*run)(const VectorKind *kind, RengaDevice device, const RengaVector vector[]);
  RengaOptimizer optimizer; /* of an update */
};

static RengaErrorCode RunUpdate(const VectorKind *kind, RengaDevice device,
                                const RengaVector vector[])
{
  RengaParameterUpdate update = {.parameter = vector[0], .gradient = vector[1]};
  for (int m = 0; m < kind->vectors - 2; m++) update.moment[m] = vector[2 + m];
  RengaCall(RengaOptimizerRehearse_Private(kind->optimizer, device, &update));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAccumulate(const VectorKind *kind, RengaDevice device,
                                    const RengaVector vector[])
{
  (void)kind;
  RengaCall(RengaDeviceAdd(device, NULL, vector_type, CHUNK, vector[0].data, vector[1].data));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunNorm(const VectorKind *kind, RengaDevice device,
                              const RengaVector vector[])
{
  double squares[CHUNK / RENGA_VECTOR_PIECE];
  (void)kind;
  RengaCall(RengaDeviceSumsOfSquares(device, NULL, 1, vector, squares));
  RengaCall(RengaStreamSynchronize(device, NULL));
  return RENGA_SUCCESS;
}

static const VectorKind accumulate = {"accumulate", 2, RunAccumulate, NULL};
static const VectorKind norm = {"norm", 1, RunNorm, NULL};

/* Seconds per element, where the vectors together take that many bytes. */
static RengaErrorCode Time(RengaDevice device, const VectorKind *kind, int64_t bytes,
                           double *seconds)
{
  ProfileBench bench;
  RengaVector vector[VECTORS];
  const int64_t chunk_bytes = CHUNK * (int64_t)RengaDataTypeSize(vector_type);
  const int64_t chunks = bytes / kind->vectors / chunk_bytes;
  const int64_t per_round = chunks > 64 ? chunks / 4 : 16;
  double value[ROUNDS];
  char *base = NULL;
  int64_t at = 0;
  RengaCall(RengaProfileBenchCreate_Private(device, bytes, &bench));
  RengaCall(RengaDeviceMalloc(device, (size_t)bytes, &base));
  RengaErrorCode code = RengaDeviceSetBytes(device, NULL, base, 0, (size_t)bytes);
  for (int round = -1; round < ROUNDS && code == RENGA_SUCCESS; round++) {
    const double begin = RengaProfileClock_Private(&bench);
    for (int64_t i = 0; i < per_round && code == RENGA_SUCCESS; i++, at = (at + 1) % chunks) {
      for (int k = 0; k < kind->vectors; k++)
        vector[k] = (RengaVector){base + (k * chunks + at) * chunk_bytes, vector_type, CHUNK};
      code = kind->run(kind, device, vector);
    }
    if (code == RENGA_SUCCESS) code = RengaStreamSynchronize(device, NULL);
    if (round >= 0)
      value[round] = (RengaProfileClock_Private(&bench) - begin) / (double)(per_round * CHUNK);
  }
  const RengaErrorCode freed = RengaDeviceFree(device, &base);
  RengaCall(code ? code : freed);
  *seconds = RengaProfileMedian_Private(ROUNDS, value);
  return RENGA_SUCCESS;
}

/* The mean of all that measure, the same on all ranks. */
static RengaErrorCode TimeTogether(RengaProfile profile, const VectorKind *kind, int64_t bytes,
                                   double *seconds)
{
  RengaComm comm = profile->hdr.owner;
  const char *what = "ranks to measure vectors";
  int worker, workers;
  double *all = NULL;
  RengaCall(RengaMeasuredWorkers_Private(profile, &worker, &workers));
  RengaErrorCode code = RengaErrorAgree(profile->hdr.comm, RengaMalloc(workers, &all));
  if (code == RENGA_SUCCESS) code = RengaCommBarrier(comm, what);
  if (code == RENGA_SUCCESS && worker >= 0)
    code = Time(RengaMeasuredDevice_Private(profile), kind, bytes, &all[worker]);
  code = RengaErrorAgree(profile->hdr.comm, code);
  if (code == RENGA_SUCCESS) code = RengaCommSumExact(comm, workers, all, what);
  *seconds = 0;
  for (int w = 0; w < workers && !code; w++) *seconds += all[w] / workers;
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PerElement(RengaProfile profile, const VectorKind *kind, bool cold,
                                 double *seconds)
{
  Measured *measured = profile->data;
  char name[128];
  snprintf(name, sizeof name, "%s of an element, %s", kind->name, cold ? "cold" : "warm");
  RengaCall(RengaMeasuredSetUp_Private(profile));
  if (RengaProfileRowsFind_Private(&measured->rows, name, seconds)) return RENGA_SUCCESS;
  RengaCall(TimeTogether(profile, kind, cold ? COLD_BYTES : WARM_BYTES, seconds));
  RengaCall(RengaProfileRowsAdd_Private(&measured->rows, name, *seconds));
  measured->measured++;
  RengaCall(RengaMeasuredSave_Private(profile));
  return RENGA_SUCCESS;
}

static RengaErrorCode VectorSeconds(RengaProfile profile, const VectorKind *kind, int64_t count,
                                    double *seconds)
{
  double warm, cold;
  RengaCall(PerElement(profile, kind, false, &warm));
  RengaCall(PerElement(profile, kind, true, &cold));
  /* From a cache below 1 MiB, from memory above 32 MiB; in between by the logarithm. */
  const double bytes = (double)count * kind->vectors * (double)RengaDataTypeSize(vector_type);
  double share = bytes > 0 ? log2(bytes / (1 << 20)) / 5 : 0;
  share = share < 0 ? 0 : share > 1 ? 1 : share;
  *seconds = (double)count * (warm + share * (cold - warm));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMeasuredAccumulate_Private(RengaProfile profile, int64_t count, double *seconds)
{
  RengaCall(RengaMeasuredAgree_Private(profile, count, accumulate.name));
  RengaCall(VectorSeconds(profile, &accumulate, count, seconds));
  return RENGA_SUCCESS;
}

/* Any optimizer's own update is timed, and the norm of the gradient that goes before it. */
RengaErrorCode RengaMeasuredUpdate_Private(RengaProfile profile, int64_t count, double *seconds)
{
  RengaSettings settings;
  VectorKind update = {.run = RunUpdate};
  int moments = 0;
  const char *const *names, *type;
  double before;
  RengaCall(RengaProfileNeedSettings_Private(profile, &settings));
  RengaCall(RengaMeasuredAgree_Private(profile, count, "update"));
  RengaCall(RengaSettingsGetOptimizer(settings, &update.optimizer));
  RengaCall(RengaOptimizerGetType(update.optimizer, &type));
  RengaCall(RengaOptimizerGetMoments(update.optimizer, &moments, &names));
  RengaCheck(moments <= VECTORS - 2, profile->hdr.comm, RENGA_ERR_SUPPORT,
             "an optimizer of %d moments cannot be measured: %d at the most", moments, VECTORS - 2);
  update.vectors = 2 + moments;
  snprintf(update.name, sizeof update.name, "update %.60s, %d moments", type, moments);
  RengaCall(VectorSeconds(profile, &update, count, seconds));
  RengaCall(VectorSeconds(profile, &norm, count, &before));
  *seconds += before;
  return RENGA_SUCCESS;
}
