/* Costs from measurements on the device. Each distinct call is timed once, by one rank; the ranks
   share the calls, longest first, each to the one with the least work. What a file knows already is
   not measured again. */
#include "measured.h"
#include "renga/private/sums.h"
#include <stdlib.h>
#include <string.h>

static const char what[] = "ranks to measure costs";

/* A guess, to share work out: only its proportions matter. */
static double GuessSeconds(const ProfileCall *call)
{
  const RengaOpCall op = RengaProfileOpCall_Private(call);
  return RengaOperatorFlops(&op) / 50e9 + RengaOperatorBytes(&op) / 5e9 + 1e-5;
}

typedef struct {
  int call, worker;
  double guess;
} Task;

static int CompareTasks(const void *a, const void *b)
{
  const Task *x = a, *y = b;
  if (x->guess != y->guess) return x->guess > y->guess ? -1 : 1;
  return (x->call > y->call) - (x->call < y->call);
}

static RengaErrorCode ShareOut(int count, Task task[], int workers)
{
  double *load = NULL;
  RengaCall(RengaMalloc(workers, &load));
  qsort(task, (size_t)count, sizeof *task, CompareTasks);
  for (int t = 0; t < count; t++) {
    int least = 0;
    for (int w = 1; w < workers; w++)
      if (load[w] < load[least]) least = w;
    task[t].worker = least;
    load[least] += 0.05 + 8 * task[t].guess;
  }
  RengaFree(&load);
  return RENGA_SUCCESS;
}

int64_t RengaProfileColdBytes_Private(RengaProfile profile, int64_t samples)
{
  const int64_t smallest = 4 << 20, largest = 256 << 20;
  int64_t bytes = 0, cold = smallest;
  for (int v = 0; v < RengaGraphGetValueCount(profile->graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(profile->graph, v);
    const RengaTensorSpec spec = RengaGraphStoredAt(value, samples);
    bytes += (int64_t)RengaTensorSpecBytes(&spec) * (value->kind == RENGA_VALUE_PARAMETER ? 2 : 1);
  }
  while (cold < largest && cold < bytes) cold *= 4;
  return cold;
}

static void RowName(const ProfileCall *call, int64_t cold, size_t size, char name[])
{
  char text[1024];
  RengaProfileCallText_Private(call, sizeof text, text);
  snprintf(name, size, "%s of %lld MiB", text, (long long)(cold >> 20));
}

static RengaErrorCode RunTasks(RengaProfile profile, int64_t cold, int count, const Task task[],
                               int worker, double seconds[])
{
  ProfileBench bench;
  RengaCall(RengaProfileBenchCreate_Private(RengaMeasuredDevice_Private(profile), cold, &bench));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int t = 0; t < count && code == RENGA_SUCCESS; t++)
    if (task[t].worker == worker)
      code = RengaProfileTimeCall_Private(&bench, &profile->call[task[t].call], &seconds[t]);
  const RengaErrorCode freed = RengaProfileBenchFree_Private(&bench);
  RengaCall(code ? code : freed);
  return RENGA_SUCCESS;
}

/* Calls that nobody has measured, and who does. */
typedef struct {
  int64_t cold;
  int worker, count;
  Task *task;      /* [count] */
  double *seconds; /* [count] */
} MissingCalls;

static RengaErrorCode FindMissingCalls(RengaProfile profile, int first, MissingCalls *missing)
{
  Measured *measured = profile->data;
  int workers;
  missing->cold = RengaProfileColdBytes_Private(profile, profile->call[first].samples);
  RengaCall(RengaMeasuredSetUp_Private(profile));
  RengaCall(RengaMalloc(profile->n_calls - first, &missing->task));
  RengaCall(RengaMalloc(profile->n_calls - first, &missing->seconds));
  for (int c = first; c < profile->n_calls; c++) {
    char name[1200];
    RowName(&profile->call[c], missing->cold, sizeof name, name);
    if (!RengaProfileRowsFind_Private(&measured->rows, name, &profile->call[c].seconds))
      missing->task[missing->count++] = (Task){.call = c, .guess = GuessSeconds(&profile->call[c])};
  }
  RengaCall(RengaMeasuredWorkers_Private(profile, &missing->worker, &workers));
  RengaCall(ShareOut(missing->count, missing->task, workers));
  return RENGA_SUCCESS;
}

/* Their seconds are then known on all ranks. */
static RengaErrorCode MeasureCalls(RengaProfile profile, const MissingCalls *missing)
{
  Measured *measured = profile->data;
  double *seconds = missing->seconds;
  RengaErrorCode code = RengaCommBarrier(profile->hdr.owner, what);
  if (code == RENGA_SUCCESS && missing->worker >= 0)
    code =
        RunTasks(profile, missing->cold, missing->count, missing->task, missing->worker, seconds);
  code = RengaErrorAgree(profile->hdr.comm, code);
  if (code == RENGA_SUCCESS)
    code = RengaCommSumExact(profile->hdr.owner, missing->count, seconds, what);
  for (int t = 0; t < missing->count && code == RENGA_SUCCESS; t++) {
    char name[1200];
    ProfileCall *call = &profile->call[missing->task[t].call];
    call->seconds = seconds[t];
    RowName(call, missing->cold, sizeof name, name);
    code = RengaProfileRowsAdd_Private(&measured->rows, name, seconds[t]);
  }
  RengaCall(code);
  measured->measured += missing->count;
  RengaCall(RengaMeasuredSave_Private(profile));
  return RENGA_SUCCESS;
}

/* All ranks have listed the same calls. What one of them finds wrong alone all learn before they
   measure together. */
static RengaErrorCode Price_Measured(RengaProfile profile, int first)
{
  MissingCalls missing = {0};
  if (first == profile->n_calls) return RENGA_SUCCESS;
  RengaErrorCode code =
      RengaErrorAgree(profile->hdr.comm, FindMissingCalls(profile, first, &missing));
  if (!code && missing.count > 0) code = MeasureCalls(profile, &missing);
  RengaFree(&missing.task);
  RengaFree(&missing.seconds);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What the sum of costs must be multiplied with: found by all that measure at the same time, the
   mean of them. */
static RengaErrorCode FindRatio(RengaProfile profile, int64_t samples,
                                const RengaProfileCost costs[], double ratio[2])
{
  int worker, workers;
  double *all = NULL;
  RengaCall(RengaMeasuredWorkers_Private(profile, &worker, &workers));
  RengaErrorCode code = RengaErrorAgree(profile->hdr.comm, RengaMalloc(2 * workers, &all));
  if (code == RENGA_SUCCESS) code = RengaCommBarrier(profile->hdr.owner, what);
  if (code == RENGA_SUCCESS && worker >= 0)
    code = RengaMeasuredMerge_Private(profile, samples, costs, all + 2 * worker);
  code = RengaErrorAgree(profile->hdr.comm, code);
  if (code == RENGA_SUCCESS) code = RengaCommSumExact(profile->hdr.owner, 2 * workers, all, what);
  ratio[0] = ratio[1] = 0;
  for (int w = 0; w < 2 * workers && !code; w++) ratio[w % 2] += all[w] / workers;
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Costs_Measured(RengaProfile profile, int64_t samples,
                                     RengaProfileCost costs[])
{
  Measured *measured = profile->data;
  static const char *const part[] = {"forward", "backward"};
  char name[2][128];
  bool known = true;
  RengaCall(RengaMeasuredAgree_Private(profile, samples, "costs of nodes"));
  RengaCall(RengaProfileSumCalls_Private(profile, samples, costs));
  RengaCall(RengaMeasuredSetUp_Private(profile));
  for (int p = 0; p < 2; p++) {
    snprintf(name[p], sizeof name[p], "merged %s of network %016llx, %lld samples", part[p],
             (unsigned long long)RengaGraphGetDigest(profile->graph), (long long)samples);
    known = RengaProfileRowsFind_Private(&measured->rows, name[p], &measured->ratio[p]) && known;
  }
  if (!known) {
    RengaCall(FindRatio(profile, samples, costs, measured->ratio));
    for (int p = 0; p < 2; p++)
      RengaCall(RengaProfileRowsAdd_Private(&measured->rows, name[p], measured->ratio[p]));
    measured->measured += 2;
    RengaCall(RengaMeasuredSave_Private(profile));
  }
  for (int n = 0; n < RengaGraphGetNodeCount(profile->graph); n++) {
    costs[n].forward *= measured->ratio[0];
    costs[n].backward *= measured->ratio[1];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SetFromOptions_Measured(RengaProfile profile)
{
  Measured *measured = profile->data;
  const char *file;
  bool given = false;
  RengaCall(RengaOptionsGetInt64("machine_memory", &measured->memory, NULL));
  RengaCall(RengaOptionsGetString("profile_file", &file, &given));
  if (!given) return RENGA_SUCCESS;
  RengaFree(&measured->file);
  RengaCall(RengaStringCopy(file, &measured->file));
  RengaProfileRowsFree_Private(&measured->rows);
  measured->ready = false;
  return RENGA_SUCCESS;
}

static RengaErrorCode Machine_Measured(RengaProfile profile, RengaMachine *machine)
{
  Measured *measured = profile->data;
  if (profile->machine) {
    *machine = profile->machine;
    return RENGA_SUCCESS;
  }
  if (!measured->machine) RengaCall(RengaMeasuredMachine_Private(profile, &measured->machine));
  *machine = measured->machine;
  return RENGA_SUCCESS;
}

static RengaErrorCode View_Measured(RengaProfile profile, RengaViewer viewer)
{
  const Measured *measured = profile->data;
  if (!measured->ready) return RENGA_SUCCESS;
  RengaCall(RengaViewerPrintf(viewer, "  on %s\n", measured->device));
  RengaCall(RengaViewerPrintf(viewer, "  %d costs known, %lld of them measured now; kept in %s\n",
                              measured->rows.count, (long long)measured->measured,
                              measured->name[0] ? measured->name : "no file"));
  if (measured->ratio[0] > 0)
    RengaCall(RengaViewerPrintf(viewer,
                                "  nodes in turn take %.3f of the sum of their calls forward, %.3f "
                                "backward: merged, costs of nodes have it\n",
                                measured->ratio[0], measured->ratio[1]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Destroy_Measured(RengaProfile profile)
{
  Measured *measured = profile->data;
  RengaFree(&measured->file);
  RengaProfileRowsFree_Private(&measured->rows);
  if (measured->machine) RengaCall(RengaMachineDestroy(&measured->machine));
  if (measured->made) RengaCall(RengaDeviceDestroy(&measured->made));
  return RENGA_SUCCESS;
}

static RengaErrorCode Keep_Measured(RengaProfile profile, const char *name, double *seconds)
{
  Measured *measured = profile->data;
  RengaCall(RengaMeasuredAgree_Private(profile, 0, name));
  RengaCall(RengaMeasuredSetUp_Private(profile));
  if (RengaProfileRowsFind_Private(&measured->rows, name, seconds)) return RENGA_SUCCESS;
  RengaCall(RengaProfileRowsAdd_Private(&measured->rows, name, *seconds));
  measured->measured++;
  RengaCall(RengaMeasuredSave_Private(profile));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileCreate_Measured(void *object)
{
  RengaProfile profile = object;
  Measured *measured = NULL;
  RengaCall(RengaMalloc(1, &measured));
  profile->data = measured;
  profile->ops->setfromoptions = SetFromOptions_Measured;
  profile->ops->costs = Costs_Measured;
  profile->ops->price = Price_Measured;
  profile->ops->together = true;
  profile->ops->update = RengaMeasuredUpdate_Private;
  profile->ops->accumulate = RengaMeasuredAccumulate_Private;
  profile->ops->keep = Keep_Measured;
  profile->ops->machine = Machine_Measured;
  profile->ops->view = View_Measured;
  profile->ops->destroy = Destroy_Measured;
  return RENGA_SUCCESS;
}

/*@
   RengaProfileGetMeasured - how many costs were measured, not found in the profile's file

   Output:
   . count - since its type was set; 0 for other types than measured

   See also: RengaProfileGetCosts()
@*/
RengaErrorCode RengaProfileGetMeasured(RengaProfile profile, int64_t *count)
{
  RengaCheckPointers(profile, count);
  *count = 0;
  if (strcmp(profile->hdr.type_name, RENGA_PROFILE_MEASURED) == 0)
    *count = ((const Measured *)profile->data)->measured;
  return RENGA_SUCCESS;
}
