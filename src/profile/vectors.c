/* Flat vectors: updates of parameters, sums of gradients, norms. Their time per element depends on
   where the vectors lie: those of a small network stay in a cache from step to step, others come
   from memory. All ranks that may compute measure at the same time, as they share memory then as
   they do in a step. */
#include "measured.h"
#include <math.h>
#include <string.h>

enum {
  CHUNK = 1 << 16,      /* elements of one call */
  WARM_BYTES = 1 << 20, /* of all vectors together */
  COLD_BYTES = 256 << 20,
  ROUNDS = 9,
  VECTORS = 4
};

typedef struct {
  RengaDevice device;
  float *vector[VECTORS];
} Vectors;

static RengaErrorCode UpdateSgd(const Vectors *v, bool momentum)
{
  const RengaSgdStep step = {.learning_rate = 1e-9, .momentum = momentum ? 0.9 : 0};
  RengaCall(RengaDeviceUpdateSgd(v->device, NULL, &step, 1, CHUNK, v->vector[0], v->vector[1],
                                 momentum ? v->vector[2] : NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode Sgd(const Vectors *v)
{
  RengaCall(UpdateSgd(v, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode Momentum(const Vectors *v)
{
  RengaCall(UpdateSgd(v, true));
  return RENGA_SUCCESS;
}

static RengaErrorCode Adam(const Vectors *v)
{
  const RengaAdamStep step = {1e-9, 0.9, 0.999, 1e-8, 0.01, true, 3};
  RengaCall(RengaDeviceUpdateAdam(v->device, NULL, &step, 1, CHUNK, v->vector[0], v->vector[1],
                                  v->vector[2], v->vector[3]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Accumulate(const Vectors *v)
{
  RengaCall(RengaDeviceAdd(v->device, NULL, CHUNK, v->vector[0], v->vector[1]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Norm(const Vectors *v)
{
  double sum;
  RengaCall(RengaDeviceSumOfSquares(v->device, NULL, CHUNK, v->vector[0], &sum));
  return RENGA_SUCCESS;
}

static const struct {
  const char *name;
  int vectors; /* that one call uses */
  RengaErrorCode (*run)(const Vectors *v);
} kinds[] = {
    {"update sgd", 2, Sgd},        {"update sgd with momentum", 3, Momentum},
    {"update adam", 4, Adam},      {"update adamw", 4, Adam},
    {"accumulate", 2, Accumulate}, {"norm", 1, Norm},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Seconds per element, where the vectors together take that many bytes. */
static RengaErrorCode Time(RengaDevice device, int kind, int64_t bytes, double *seconds)
{
  ProfileBench bench;
  Vectors v = {.device = device};
  const int64_t chunks = bytes / kinds[kind].vectors / (CHUNK * (int64_t)sizeof(float));
  const int64_t per_round = chunks > 64 ? chunks / 4 : 16;
  double value[ROUNDS];
  float *base = NULL;
  int64_t at = 0;
  RengaCall(RengaProfileBenchCreate_Private(device, bytes, &bench));
  RengaCall(RengaDeviceMalloc(device, (size_t)bytes, &base));
  RengaErrorCode code = RengaDeviceSetBytes(device, NULL, base, 0, (size_t)bytes);
  for (int round = -1; round < ROUNDS && code == RENGA_SUCCESS; round++) {
    const double begin = RengaProfileClock_Private(&bench);
    for (int64_t i = 0; i < per_round && code == RENGA_SUCCESS; i++, at = (at + 1) % chunks) {
      for (int k = 0; k < kinds[kind].vectors; k++) v.vector[k] = base + (k * chunks + at) * CHUNK;
      code = kinds[kind].run(&v);
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
static RengaErrorCode TimeTogether(RengaProfile profile, int kind, int64_t bytes, double *seconds)
{
  RengaComm comm = profile->hdr.owner;
  const char *what = "ranks to measure vectors";
  int worker, workers;
  double *all = NULL;
  RengaCall(RengaMeasuredWorkers_Private(profile, &worker, &workers));
  RengaCall(RengaMalloc(workers, &all));
  RengaErrorCode code = RengaCommBarrier(comm, what);
  if (code == RENGA_SUCCESS && worker >= 0)
    code = Time(RengaMeasuredDevice_Private(profile), kind, bytes, &all[worker]);
  code = RengaErrorAgree(profile->hdr.comm, code);
  if (code == RENGA_SUCCESS) code = RengaCommSumExact(comm, workers, all, what);
  *seconds = 0;
  for (int w = 0; w < workers; w++) *seconds += all[w] / workers;
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PerElement(RengaProfile profile, int kind, bool cold, double *seconds)
{
  Measured *measured = profile->data;
  char name[128];
  snprintf(name, sizeof name, "%s of an element, %s", kinds[kind].name, cold ? "cold" : "warm");
  RengaCall(RengaMeasuredSetUp_Private(profile));
  if (RengaProfileRowsFind_Private(&measured->rows, name, seconds)) return RENGA_SUCCESS;
  RengaCall(TimeTogether(profile, kind, cold ? COLD_BYTES : WARM_BYTES, seconds));
  RengaCall(RengaProfileRowsAdd_Private(&measured->rows, name, *seconds));
  measured->measured++;
  RengaCall(RengaMeasuredSave_Private(profile));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMeasuredVector_Private(RengaProfile profile, const char *kind, int64_t count,
                                           double *seconds)
{
  double warm, cold;
  int number = 0;
  while (number < KINDS && strcmp(kinds[number].name, kind) != 0) number++;
  RengaCheck(number < KINDS, profile->hdr.comm, RENGA_ERR_SUPPORT,
             "the time of \"%s\" cannot be measured", kind);
  RengaCall(PerElement(profile, number, false, &warm));
  RengaCall(PerElement(profile, number, true, &cold));
  /* From a cache below 1 MiB, from memory above 32 MiB; in between by the logarithm. */
  const double bytes = (double)count * kinds[number].vectors * sizeof(float);
  double share = bytes > 0 ? log2(bytes / (1 << 20)) / 5 : 0;
  share = share < 0 ? 0 : share > 1 ? 1 : share;
  *seconds = (double)count * (warm + share * (cold - warm));
  return RENGA_SUCCESS;
}
