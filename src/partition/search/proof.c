/* What a plan's lower bound is one of, and which plans it leaves out. */
#include "parts.h"
#include "renga/private/graph.h"
#include "renga/private/number.h"
#include "solution.h"
#include <stdarg.h>

RengaErrorCode RengaSolutionSay_Private(SearchAnswer *answer, const char *topic, const char *format,
                                        ...)
{
  va_list arguments;
  RengaCall(RengaRealloc(answer->n_reasons + 1, &answer->reason));
  SearchReason *reason = &answer->reason[answer->n_reasons++];
  snprintf(reason->topic, sizeof reason->topic, "%s", topic);
  va_start(arguments, format);
  RengaTextFormatList(reason->sentence, sizeof reason->sentence, format, arguments);
  va_end(arguments);
  return RENGA_SUCCESS;
}

void RengaSearchNameNumbers_Private(int count, const int64_t numbers[], size_t size, char text[])
{
  size_t used = 0;
  for (int i = 0; i < count && used + 24 < size; i++) {
    bool seen = false;
    for (int j = 0; j < i; j++) seen = seen || numbers[j] == numbers[i];
    if (!seen)
      used += (size_t)snprintf(text + used, size - used, "%s%lld", used ? ", " : "",
                               (long long)numbers[i]);
  }
}

static void NameWish(const char *what, int wish, size_t size, char text[])
{
  if (wish)
    snprintf(text, size, "%d %s", wish, what);
  else
    snprintf(text, size, "any %s", what);
}

/* Under which a plan was looked for. */
static const char *SchedulesOf(const SearchTask *task)
{
  if (!task->any_schedule) return "under the schedule that is asked for";
  return task->whole ? "under gpipe and 1f1b with any warm-up (so large a problem is tried with "
                       "zb-h1 and zb-h2 after the search alone)"
                     : "under gpipe, 1f1b with any warm-up, zb-h1 and zb-h2";
}

/* What replicas may have a share of in these. */
static const char *ShardsOfBound(const SearchTask *task, const Solution *solution)
{
  static const char *const words[] = {
      [RENGA_SHARD_NOTHING] = "",
      [RENGA_SHARD_OPTIMIZER] = "with a sharded optimizer, ",
      [RENGA_SHARD_GRADIENTS] = "with sharded gradients and optimizer on equal replicas, ",
      [RENGA_SHARD_PARAMETERS] = "with sharded parameters and all else on equal replicas, "};
  if (solution->folds_too)
    return "with or without a sharded optimizer, or, with equal replicas, sharded gradients or "
           "parameters, ";
  return solution->shards_too ? "with or without a sharded optimizer, " : words[task->shards.least];
}

/* Of replicas, where nobody said what they share. */
static const char *ShardsLeftOut(const SearchTask *task, const Solution *solution)
{
  if (task->wanted.replicas == 1) return "";
  if (solution->leaves_shards)
    return task->folds
               ? ", and plans with a sharded optimizer, sharded gradients or parameters "
                 "(-layout_zero), which in large problems are looked at where memory is short "
                 "or sums and updates take long"
               : ", and plans with a sharded optimizer (-layout_zero 1), which in large "
                 "problems are looked at where memory is short or sums and updates take long";
  if (task->folds && !solution->tried_folds && !solution->folds_too)
    return ", and plans with sharded gradients or parameters (-layout_zero), which in large "
           "problems are looked at where memory is short, or sums and updates take long, with a "
           "sharded optimizer, too";
  if (solution->tried_folds && !solution->folds_too)
    return ", and plans with sharded gradients or parameters (-layout_zero), of which none was "
           "found that is faster";
  return "";
}

/* Of plans with tensor ranks, whose costs are those of a rank, and memory an estimate. */
static RengaErrorCode ExplainTensorProof(const SearchTask *task, const Solution *solution,
                                         const char *sizes, const char *leaves,
                                         SearchAnswer *answer)
{
  char stages[24], replicas[24];
  NameWish("stages", task->wanted.stages, sizeof stages, stages);
  NameWish("replicas", task->wanted.replicas, sizeof replicas, replicas);
  if (solution->bound > 0)
    RengaCall(RengaSolutionSay_Private(
        answer, task->exact ? "covered" : "proof",
        "no plan%s with %d %s ranks side by side for each replica has a faster step "
        "than %.4g s, whatever exchanges take and the memory is, in micro-batches of %s and leaves "
        "of %s: %s that are intervals of the nodes' order, with %s, %s%s",
        solution->chunks.taken ? " with one stage per rank" : "", task->unit,
        RengaSearchKindOfRanks_Private(task), solution->bound, sizes, leaves, stages, replicas,
        ShardsOfBound(task, solution), SchedulesOf(task)));
  else
    RengaCall(RengaSolutionSay_Private(
        answer, "proof",
        "of plans with %d %s ranks for each replica%s no other lower bound is known "
        "than that of the work",
        task->unit, RengaSearchKindOfRanks_Private(task),
        solution->folds_too ? " with sharded gradients or parameters" : ""));
  return RENGA_SUCCESS;
}

/* The plans that the bound is one of. What type exact covers is shown whether or not anybody asks
   why. */
static RengaErrorCode ExplainProof(const SearchTask *task, const Solution *solution,
                                   SearchAnswer *answer)
{
  const char *shards = ShardsOfBound(task, solution);
  char sizes[128] = "", leaves[96] = "", stages[24], replicas[24];
  if (!RengaSearchIsBounded_Private(&task->schedule)) {
    RengaCall(RengaSolutionSay_Private(answer, "proof",
                                       "under schedule %s no other lower bound is known than that "
                                       "of the work: those of the search "
                                       "are of gpipe, 1f1b, zb-h1 and zb-h2",
                                       task->schedule.type));
    return RENGA_SUCCESS;
  }
  RengaSearchNameNumbers_Private(task->n_sizes, task->size, sizeof sizes, sizes);
  RengaSearchNameNumbers_Private(task->n_sizes, task->leaf, sizeof leaves, leaves);
  if (task->unit > 1) {
    RengaCall(ExplainTensorProof(task, solution, sizes, leaves, answer));
    return RENGA_SUCCESS;
  }
  NameWish("stages", task->wanted.stages, sizeof stages, stages);
  NameWish("replicas", task->wanted.replicas, sizeof replicas, replicas);
  RengaCall(RengaSolutionSay_Private(
      answer, task->exact ? "covered" : "proof",
      "no plan%s has a faster step than %.4g s, in micro-batches of %s and leaves of %s: %s "
      "that are intervals of the nodes' order, with %s, any ranks and recomputation, %s%s%s",
      solution->chunks.taken ? " with one stage per rank" : "", solution->bound, sizes, leaves,
      stages, replicas, shards, SchedulesOf(task),
      solution->proved ? "; every one that may be faster was simulated" : ""));
  return RENGA_SUCCESS;
}

/* How far plans of several stages for each rank were looked at. */
static void NameChunksLeft(const SolutionChunks *chunks, double gain, size_t size, char text[])
{
  static const char kinds[] = SOLUTION_CHUNK_KINDS;
  if (!chunks->looked)
    snprintf(text, size, " (-layout_chunks)");
  else if (chunks->tried)
    RengaTextFormat(
        text, size,
        ", of which %d of equal work under %s were simulated: none that was found to fit is "
        "more than %g %% faster",
        chunks->tried, kinds, 100 * gain);
  else
    RengaTextFormat(
        text, size,
        ", of which none of equal work under %s promised, as far as was looked, to fit and be "
        "more than %g %% faster",
        kinds, 100 * gain);
}

static const char *TensorLeftOut(const SearchTask *task, int nodes)
{
  if (task->compares) return ""; /* the plan says what they take */
  if (task->unit > 1)
    return ", plans of other numbers of ranks for each replica (-layout_tensor auto and "
           "-layout_context auto look at them)";
  return nodes > 0 ? ", plans of several tensor- or context-parallel ranks for each replica "
                     "(-layout_tensor, -layout_context)"
                   : "";
}

static const char *SchedulesLeftOut(const Solution *solution)
{
  if (!solution->task->any_schedule) return "";
  return RengaSolutionMayOrder_Private(solution)
             ? ", and orders of other stages than these that -schedule_type auto finds"
             : ", and orders that -schedule_type auto finds";
}

/* What is known and not in the space of the bound, so that a plan of it may be faster. */
static RengaErrorCode ExplainLeftOut(const Solution *solution, SearchAnswer *answer)
{
  const SearchTask *task = solution->task;
  char chunks[256];
  int lanes, nodes = 0;
  if (solution->bound <= 0 || (task->ranks == 1 && task->unit <= 1)) return RENGA_SUCCESS;
  for (int k = RENGA_LANE_KINDS - 1; k >= 0 && nodes == 0; k--)
    RengaGraphCountLanes_Private(task->graph, (RengaLaneKind)k, &lanes, &nodes);
  NameChunksLeft(&solution->chunks, task->chunk_gain, sizeof chunks, chunks);
  RengaCall(RengaSolutionSay_Private(
      answer, "left out", "plans of several virtual stages per rank%s%s%s%s", chunks,
      TensorLeftOut(task, nodes), ShardsLeftOut(task, solution), SchedulesLeftOut(solution)));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionExplainProof_Private(const Solution *solution, SearchAnswer *answer)
{
  SearchTask task = *solution->task;
  if (!solution->chunks.taken) task.schedule = answer->schedule;
  RengaCall(ExplainProof(&task, solution, answer));
  if (!solution->chunks.taken) RengaCall(ExplainLeftOut(solution, answer));
  return RENGA_SUCCESS;
}
