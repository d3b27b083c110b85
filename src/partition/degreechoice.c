/* The choice between numbers of tensor ranks: the fastest plan, and what is said of the others. */
#include "degrees.h"
#include "renga/private/graph.h"
#include "renga/private/plan.h"
#include <math.h>
#include <string.h>

static void NameLayout(RengaPlan plan, size_t size, char text[])
{
  const int stages = RengaPlanGetStageCount(plan);
  const int group = RengaShapeGroup_Private(&RengaPlanGetStage(plan, 0)->shape);
  const char *several = stages > 1 ? "s" : "";
  int64_t batch = 0, microbatch = 0;
  RengaPlanGetBatch(plan, &batch, &microbatch);
  const int n =
      group > 1 ? snprintf(text, size, "%d stage%s, %d ranks in groups of %d", stages, several,
                           RengaPlanGetRankCount(plan), group)
                : snprintf(text, size, "%d stage%s, %d rank%s", stages, several,
                           RengaPlanGetRankCount(plan), RengaPlanGetRankCount(plan) > 1 ? "s" : "");
  snprintf(text + n, size - (size_t)n, ", micro-batches of %lld", (long long)microbatch);
}

static void SayDegree(const DegreeTask *task, const Degree *degree, size_t size, char text[])
{
  char number[32], bound[32], layout[96];
  const int at = snprintf(text, size, "%d: ", degree->tensor);
  text += at;
  size -= (size_t)at;
  if (degree->beaten) {
    RengaFormatSeconds(task->beat, sizeof number, number);
    snprintf(text, size, "no plan below %s was found", number);
  } else if (degree->plan) {
    NameLayout(degree->plan, sizeof layout, layout);
    RengaFormatSeconds(degree->step, sizeof number, number);
    snprintf(text, size, "%s (%s)%s", number, layout,
             degree->late ? ", given up before another number's plan" : "");
  } else if (isfinite(degree->least)) {
    RengaFormatBytes(degree->least, sizeof number, number);
    RengaFormatBytes(task->memory, sizeof bound, bound);
    snprintf(text, size, "does not fit (%s of the %s of a device)", number, bound);
  } else {
    snprintf(text, size, "none (%.200s)", degree->why);
  }
}

/* Of two that take as long that with fewer tensor ranks is taken; one tensor rank must be beaten by
   the gain. */
static bool IsBetterDegree(const DegreeTask *task, const Degree *degree, const Degree *best)
{
  if (!best->plan) return true;
  if (best->tensor == 1) return degree->step < best->step * (1 - task->gain);
  if (degree->tensor == 1) return degree->step * (1 - task->gain) <= best->step;
  return degree->step < best->step || (degree->step <= best->step && degree->tensor < best->tensor);
}

RengaErrorCode RengaDegreeFree_Private(Degree *degree)
{
  if (degree->plan) RengaCall(RengaPlanDestroy(&degree->plan));
  if (degree->graph) RengaCall(RengaGraphDestroy(&degree->graph));
  return RENGA_SUCCESS;
}

static void TakeBound(const Degree *degree, DegreeChoice *choice)
{
  const size_t used = strlen(choice->bounded);
  if (!isfinite(degree->bound)) return;
  choice->bound = choice->n_bounded ? fmin(choice->bound, degree->bound) : degree->bound;
  choice->n_bounded++;
  snprintf(choice->bounded + used, sizeof choice->bounded - used, "%s%d", used ? ", " : "",
           degree->tensor);
}

RengaErrorCode RengaDegreeTake_Private(const DegreeTask *task, Degree *degree, DegreeChoice *choice)
{
  SayDegree(task, degree, DEGREE_TEXT, choice->said[degree->tensor]);
  TakeBound(degree, choice);
  if (!degree->plan && degree->tensor > 1 && degree->tensor >= choice->last) {
    choice->last = degree->tensor;
    snprintf(choice->why, sizeof choice->why, "%s", degree->why);
  }
  if (!degree->plan && degree->least < choice->least) {
    choice->least = degree->least;
    choice->smallest = degree->tensor;
  }
  if (degree->plan && !degree->late && IsBetterDegree(task, degree, &choice->best)) {
    const Degree slower = choice->best;
    choice->best = *degree;
    *degree = slower;
  }
  RengaCall(RengaDegreeFree_Private(degree));
  return RENGA_SUCCESS;
}

int RengaDegreesMost_Private(const DegreeTask *task)
{
  return task->lanes < task->ranks ? task->lanes : task->ranks;
}

/* Of the plan that was chosen it becomes the bound, and what is said of its own is left out. */
static RengaErrorCode SayBound(RengaPartition partition, const DegreeChoice *choice)
{
  RengaPlan plan = choice->best.plan;
  RengaPlanPrediction prediction;
  char sentence[240];
  if (choice->n_bounded < 2) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  if (choice->bound < prediction.bound * (1 - 1e-9)) {
    prediction.bound = choice->bound;
    RengaPlanDropReasons_Private(plan, RENGA_PLAN_BOUND);
    RengaCall(RengaPlanSetPrediction(plan, &prediction));
  }
  snprintf(sentence, sizeof sentence,
           "the lower bound is the least of those of plans with %s %s ranks for each replica",
           choice->bounded,
           RengaLaneWords_Private[RengaPartitionChosenKind_Private(partition)].ranks);
  RengaCall(RengaPlanAddReason(plan, "covered", sentence));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDegreesSay_Private(const DegreeTask *task, const DegreeChoice *choice)
{
  char text[4 * DEGREE_TEXT] = "", topic[32];
  size_t used = 0;
  for (int tensor = 1; tensor <= RengaDegreesMost_Private(task) && used < sizeof text; tensor++)
    if (choice->said[tensor][0])
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? "; " : "",
                               choice->said[tensor]);
  snprintf(topic, sizeof topic, "%s degrees",
           RengaLaneWords_Private[RengaPartitionChosenKind_Private(task->partition)].ranks);
  if (used) RengaCall(RengaPlanAddReason(choice->best.plan, topic, text));
  RengaCall(SayBound(task->partition, choice));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDegreesRefuse_Private(const DegreeTask *task, const Degree *one,
                                          const DegreeChoice *choice)
{
  MPI_Comm comm = task->partition->hdr.comm;
  const RengaLaneWords *words =
      &RengaLaneWords_Private[RengaPartitionChosenKind_Private(task->partition)];
  char bytes[32];
  const bool fitting = task->searches || choice->smallest == 0;
  RengaCheck(!fitting || !choice->why[0], comm, one->code,
             "%s; nor is there a plan with %s ranks (%s auto): %s", one->why, words->ranks,
             words->share, choice->why);
  RengaFormatBytes(choice->least, sizeof bytes, bytes);
  RengaCheck(choice->smallest == 0, comm, RENGA_ERR_MEMORY,
             "%s; of the plans with %s ranks (%s) the smallest has %d, and needs %s of a "
             "device",
             one->why, words->ranks, words->share, choice->smallest, bytes);
  RengaCheck(!task->partition->leaves && !task->sizes, comm, one->code,
             "%s; plans with %s ranks (%s auto) were not looked at, for which %s is not "
             "chosen: give %s",
             one->why, words->ranks, words->share,
             task->sizes ? "a micro-batch of -partition_microbatch_sizes" : "a leaf",
             task->sizes ? "-microbatch_size" : "-partition_leaf");
  RengaRaise(comm, one->code, "%s", one->why);
}
