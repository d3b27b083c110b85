/* The choice between numbers of tensor ranks: the fastest plan, and what is said of the others. */
#include "degrees.h"
#include "renga/private/number.h"
#include "renga/private/graph.h"
#include "renga/private/plan.h"
#include <math.h>
#include <stdlib.h>
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

/* "2", or "2 x 4" where numbers of both kinds are looked at; "1 in 2 lanes" of more lanes. */
static int NameDegree(const DegreeTask *task, const DegreeRanks *ranks, size_t size, char text[])
{
  char lanes[24] = "";
  if (ranks->lanes != ranks->tensor) snprintf(lanes, sizeof lanes, " in %d lanes", ranks->lanes);
  if (!task->tensor_chosen || !task->context_chosen)
    return snprintf(text, size, "%d%s", task->tensor_chosen ? ranks->tensor : ranks->context,
                    lanes);
  return snprintf(text, size, "%d x %d%s", ranks->tensor, ranks->context, lanes);
}

static DegreeRanks RanksOf(const Degree *degree)
{
  return (DegreeRanks){degree->tensor, degree->context, degree->lanes};
}

static void SayDegree(const DegreeTask *task, const Degree *degree, size_t size, char text[])
{
  char number[32], bound[32], layout[96];
  const DegreeRanks ranks = RanksOf(degree);
  int at = NameDegree(task, &ranks, size, text);
  at += snprintf(text + at, size - (size_t)at, ": ");
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

/* Of two that take as long that with fewer ranks is taken; one rank must be beaten by the gain. */
static bool IsBetterDegree(const DegreeTask *task, const Degree *degree, const Degree *best)
{
  if (!best->plan) return true;
  const int own = RengaDegreeGroup_Private(degree), other = RengaDegreeGroup_Private(best);
  if (other == 1) return degree->step < best->step * (1 - task->gain);
  if (own == 1) return degree->step * (1 - task->gain) <= best->step;
  return degree->step < best->step || (degree->step <= best->step && own < other);
}

RengaErrorCode RengaDegreeFree_Private(Degree *degree)
{
  if (degree->plan) RengaCall(RengaPlanDestroy(&degree->plan));
  if (degree->graph) RengaCall(RengaGraphDestroy(&degree->graph));
  return RENGA_SUCCESS;
}

static void TakeBound(const Degree *degree, DegreeChoice *choice)
{
  const DegreeRanks own = RanksOf(degree);
  if (!isfinite(degree->bound)) return;
  choice->bound = choice->n_bounded ? fmin(choice->bound, degree->bound) : degree->bound;
  for (int i = 0; i < choice->n_bounded && i < DEGREES_NAMED; i++)
    if (!memcmp(&choice->bounded[i], &own, sizeof own)) return;
  if (choice->n_bounded < DEGREES_NAMED) choice->bounded[choice->n_bounded] = own;
  choice->n_bounded++;
}

RengaErrorCode RengaDegreeTake_Private(const DegreeTask *task, Degree *degree, DegreeChoice *choice)
{
  const int group = RengaDegreeGroup_Private(degree);
  for (int i = 0; i < choice->n_numbers; i++)
    if (choice->number[i].tensor == degree->tensor &&
        choice->number[i].context == degree->context && choice->number[i].lanes == degree->lanes) {
      SayDegree(task, degree, DEGREE_TEXT, choice->number[i].said);
      if (degree->plan || degree->beaten)
        choice->number[i].step = degree->beaten || degree->late ? degree->first : degree->step;
    }
  if (degree->code != RENGA_ERR_SUPPORT) TakeBound(degree, choice);
  if (!degree->plan && group > 1 && group >= choice->last) {
    choice->last = group;
    snprintf(choice->why, sizeof choice->why, "%s", degree->why);
  }
  if (!degree->plan && degree->least < choice->least) {
    choice->least = degree->least;
    choice->smallest = group;
  }
  if (degree->plan && !degree->late && IsBetterDegree(task, degree, &choice->best)) {
    const Degree slower = choice->best;
    choice->best = *degree;
    *degree = slower;
  }
  RengaCall(RengaDegreeFree_Private(degree));
  return RENGA_SUCCESS;
}

/* Of the kinds that are looked at. */
static const char *WordsOf(const DegreeTask *task)
{
  if (task->tensor_chosen && task->context_chosen) return "tensor- x context-parallel";
  const RengaLaneKind kind = task->tensor_chosen ? RENGA_LANES_OF_HEADS : RENGA_LANES_OF_TOKENS;
  return RengaLaneWords_Private[kind].ranks;
}

/* Those in other lanes than ranks last. */
static int CompareDegrees(const void *a, const void *b)
{
  const DegreeRanks *x = a, *y = b;
  const int others = (x->lanes != x->tensor) - (y->lanes != y->tensor);
  if (others) return others;
  return x->context != y->context ? x->context - y->context : x->tensor - y->tensor;
}

/* "1, 2, 4, 2 x 2", whatever the order in which they were looked at. */
static void NameBounded(const DegreeTask *task, const DegreeChoice *choice, size_t size,
                        char text[])
{
  const int count = choice->n_bounded < DEGREES_NAMED ? choice->n_bounded : DEGREES_NAMED;
  DegreeRanks ranks[DEGREES_NAMED];
  size_t used = 0;
  memcpy(ranks, choice->bounded, sizeof ranks);
  qsort(ranks, (size_t)count, sizeof *ranks, CompareDegrees);
  for (int i = 0; i < count && used < size; i++) {
    char name[48];
    NameDegree(task, &ranks[i], sizeof name, name);
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", name);
  }
}

RengaErrorCode RengaDegreesTakeBound_Private(const DegreeChoice *choice)
{
  RengaPlan plan = choice->best.plan;
  RengaPlanPrediction prediction;
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  if (choice->bound >= prediction.bound * (1 - 1e-9)) return RENGA_SUCCESS;
  prediction.bound = choice->bound;
  RengaPlanDropReasons_Private(plan, RENGA_PLAN_BOUND);
  RengaCall(RengaPlanSetPrediction(plan, &prediction));
  return RENGA_SUCCESS;
}

static RengaErrorCode SayBound(const DegreeTask *task, const DegreeChoice *choice)
{
  char bounded[240] = "", settled[160] = "", sentence[500];
  if (choice->n_bounded < 2) return RENGA_SUCCESS;
  RengaCall(RengaDegreesTakeBound_Private(choice));
  NameBounded(task, choice, sizeof bounded, bounded);
  if (task->settled_microbatch)
    RengaTextFormat(settled, sizeof settled,
                    ", those of more than 1 that are over %.0f %% slower in the micro-batches of "
                    "the plan with 1 "
                    "alone",
                    100 * (RENGA_DEGREES_NEAR - 1));
  if (task->larger)
    RengaTextFormat(
        settled, sizeof settled,
        ", in micro-batches of %lld, those of them that are at most %.0f %% slower than "
        "the best in some others from %lld to %lld",
        (long long)task->settled_microbatch, 100 * (RENGA_DEGREES_NEAR_SIZES - 1),
        (long long)task->smaller, (long long)task->larger);
  snprintf(sentence, sizeof sentence,
           "the lower bound is the least of those of plans with %s %s ranks for each replica%s",
           bounded, WordsOf(task), settled);
  RengaCall(RengaPlanAddReason(choice->best.plan, "covered", sentence));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDegreesSay_Private(const DegreeTask *task, const DegreeChoice *choice)
{
  char text[4 * DEGREE_TEXT] = "", topic[48];
  size_t used = 0;
  for (int i = 0; i < choice->n_numbers && used < sizeof text; i++)
    if (choice->number[i].said[0])
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? "; " : "",
                               choice->number[i].said);
  snprintf(topic, sizeof topic, "%s degrees", WordsOf(task));
  if (used) RengaCall(RengaPlanAddReason(choice->best.plan, topic, text));
  RengaCall(SayBound(task, choice));
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
