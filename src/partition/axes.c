/* What each axis of a layout is worth (-plan_explain): the plan is made once more without it. */
#include "partitionimpl.h"
#include "renga/private/graph.h"
#include "renga/private/layout.h"
#include "renga/private/number.h"
#include "renga/private/plan.h"
#include "renga/private/quiet.h"
#include "rengacomm.h"

enum { PROBLEM_MOST = 200000 }; /* ranks times nodes: of larger ones each search takes long */

/* What is asked for, as it was. */
typedef struct {
  int stages, replicas, tensor, sequence, chunks;
  RengaShard shard;
  RengaRecompute recompute;
  RengaGraph graph;
} AxisWishes;

typedef struct {
  RengaPartition partition;
  RengaSettings settings;
  int ranks;
  int64_t batch, microbatch;
  AxisWishes was;
} AxisTask;

static RengaErrorCode FindWishes(AxisTask *task)
{
  const RengaPartition partition = task->partition;
  AxisWishes *was = &task->was;
  *was = (AxisWishes){.stages = partition->stages,
                      .replicas = partition->replicas,
                      .tensor = partition->tensor,
                      .sequence = partition->sequence,
                      .graph = partition->graph};
  RengaCall(RengaSettingsGetChunks(task->settings, &was->chunks));
  RengaCall(RengaSettingsGetShard(task->settings, &was->shard));
  RengaCall(RengaSettingsGetRecompute(task->settings, &was->recompute));
  return RENGA_SUCCESS;
}

/* Nobody fixed it, so that the plan might do without. */
static bool IsAxisOpen(const AxisWishes *was, RengaAxisNumber axis)
{
  const bool open[RENGA_AXES] = {[RENGA_AXIS_STAGES] = was->stages == 0,
                                 [RENGA_AXIS_CHUNKS] = was->chunks == 0,
                                 [RENGA_AXIS_REPLICAS] = was->replicas == 0,
                                 [RENGA_AXIS_TENSOR] = was->tensor <= 0,
                                 [RENGA_AXIS_CONTEXT] = was->sequence <= 0,
                                 [RENGA_AXIS_SHARD] = was->shard == RENGA_SHARD_AUTO,
                                 [RENGA_AXIS_SAVED] = was->recompute == RENGA_RECOMPUTE_AUTO};
  return open[axis];
}

static RengaErrorCode LeaveAxisOut(const AxisTask *task, RengaAxisNumber axis)
{
  RengaPartition partition = task->partition;
  if (axis == RENGA_AXIS_STAGES) partition->stages = 1;
  if (axis == RENGA_AXIS_REPLICAS) partition->replicas = 1;
  if (axis == RENGA_AXIS_TENSOR) partition->tensor = 1;
  if (axis == RENGA_AXIS_CONTEXT) partition->sequence = 1;
  if (axis == RENGA_AXIS_CHUNKS) RengaCall(RengaSettingsSetChunks(task->settings, 1));
  if (axis == RENGA_AXIS_SHARD)
    RengaCall(RengaSettingsSetShard(task->settings, RENGA_SHARD_NOTHING));
  if (axis == RENGA_AXIS_SAVED)
    RengaCall(RengaSettingsSetRecompute(task->settings, RENGA_RECOMPUTE_NONE));
  return RENGA_SUCCESS;
}

static RengaErrorCode RestoreWishes(const AxisTask *task)
{
  RengaPartition partition = task->partition;
  const AxisWishes *was = &task->was;
  partition->stages = was->stages;
  partition->replicas = was->replicas;
  partition->tensor = was->tensor;
  partition->sequence = was->sequence;
  partition->graph = was->graph;
  RengaCall(RengaSettingsSetChunks(task->settings, was->chunks));
  RengaCall(RengaSettingsSetShard(task->settings, was->shard));
  RengaCall(RengaSettingsSetRecompute(task->settings, was->recompute));
  return RENGA_SUCCESS;
}

/* Seconds of a step of the best plan without it; 0: there is none. */
static RengaErrorCode SolveWithout(const AxisTask *task, RengaAxisNumber axis, double *step)
{
  RengaPartition partition = task->partition;
  RengaPlanPrediction prediction = {0};
  RengaPlan made = NULL;
  RengaGraph graph = NULL; /* one that lanes may be chosen of */
  RengaErrorCode code = RENGA_SUCCESS;
  RengaQuiet quiet;
  RengaQuietBegin_Private(&quiet);
  if (RengaPartitionChoosesLanes_Private(partition))
    code = RengaGraphInLanes_Private(task->was.graph, 1, 1, &graph);
  if (!code && graph) partition->graph = graph;
  if (!code) code = LeaveAxisOut(task, axis);
  if (!code) code = RengaPlanCreate(partition->hdr.owner, &made);
  code = RengaErrorAgree(partition->hdr.comm, code);
  if (!code)
    code =
        RengaPartitionSearch_Private(partition, task->ranks, task->batch, task->microbatch, &made);
  code = RengaErrorAgree(partition->hdr.comm, code);
  if (!code) code = RengaPlanGetPrediction(made, &prediction);
  const RengaErrorCode restored = RestoreWishes(task);
  if (made) RengaPlanDestroy(&made);
  if (graph) RengaGraphDestroy(&graph);
  RengaQuietEnd_Private(&quiet);
  code = RengaPartitionTellFailure_Private(code);
  RengaCall(restored);
  if (code && !RengaPartitionIsRefusal_Private(code)) RengaCall(code);
  *step = code ? 0 : prediction.step; /* what cannot be planned is told, and no error */
  return RENGA_SUCCESS;
}

static RengaErrorCode SayWithout(RengaAxisNumber axis, double step, RengaPlan plan)
{
  const RengaAxis *row = &RengaAxes_Private[axis];
  RengaPlanPrediction prediction;
  char sentence[240], seconds[32];
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaFormatSeconds(step, sizeof seconds, seconds);
  if (step > 0)
    RengaTextFormat(sentence, sizeof sentence, "without %s (%s %s) %s per step, %.1f %% more",
                    row->name, row->option, row->none, seconds, 100 * (step / prediction.step - 1));
  else
    snprintf(sentence, sizeof sentence, "without %s (%s %s) no plan was found", row->name,
             row->option, row->none);
  RengaCall(RengaPlanAddReason(plan, "axis", sentence));
  return RENGA_SUCCESS;
}

static RengaErrorCode ExplainEach(AxisTask *task, RengaPlan plan)
{
  RengaLayout layout;
  RengaCall(FindWishes(task));
  RengaCall(RengaPlanGetLayout(plan, &layout));
  for (int axis = 0; axis < RENGA_AXES; axis++) {
    double step = 0;
    if (!RengaLayoutUses_Private(&layout, (RengaAxisNumber)axis) ||
        !IsAxisOpen(&task->was, (RengaAxisNumber)axis))
      continue;
    RengaErrorCode code = SolveWithout(task, (RengaAxisNumber)axis, &step);
    if (!code) code = SayWithout((RengaAxisNumber)axis, step, plan);
    RengaCall(RengaErrorAgree(task->partition->hdr.comm, code));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionExplainAxes_Private(RengaPartition partition, int ranks, int64_t batch,
                                                 int64_t microbatch, RengaPlan plan)
{
  AxisTask task = {
      .partition = partition, .ranks = ranks, .batch = batch, .microbatch = microbatch};
  const int64_t problem = (int64_t)ranks * RengaGraphGetNodeCount(partition->graph);
  bool explains = partition->explains;
  RengaCall(RengaCommBroadcast(partition->hdr.owner, &explains, sizeof explains, 0,
                               "whether axes of the plan are explained"));
  if (!explains || ranks < 2) return RENGA_SUCCESS;
  if (problem > PROBLEM_MOST) {
    RengaCall(RengaPlanAddReason(plan, "axis",
                                 "the problem is too large to plan it again without each axis: "
                                 "leave one out by its option to see what it is worth"));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaPartitionGetSettings(partition, &task.settings));
  partition->explains = false;
  const RengaErrorCode code = ExplainEach(&task, plan);
  partition->explains = explains;
  RengaCall(code);
  return RENGA_SUCCESS;
}
