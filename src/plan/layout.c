/* The layout of a plan as a value with an axis for each way to share out work: a table says what
   each is called, by which option it is given, and where its value stands. */
#include "planimpl.h"
#include "renga/private/layout.h"
#include <stddef.h>
#include <string.h>

#define AXIS(member) offsetof(RengaLayout, member)
const RengaAxis RengaAxes_Private[RENGA_AXES] = {
    [RENGA_AXIS_STAGES] = {"pipeline stages", "-layout_pipeline", "1", AXIS(stages), 1},
    [RENGA_AXIS_CHUNKS] = {"virtual pipeline stages", "-layout_chunks", "1", AXIS(chunks), 1},
    [RENGA_AXIS_REPLICAS] = {"replicas", "-layout_data", "1", AXIS(replicas), 1},
    [RENGA_AXIS_TENSOR] = {"tensor-parallel ranks", "-layout_tensor", "1", AXIS(tensor), 1},
    [RENGA_AXIS_CONTEXT] = {"context-parallel ranks", "-layout_context", "1", AXIS(context), 1},
    [RENGA_AXIS_SHARD] = {"sharding over replicas (ZeRO)", "-layout_zero", "0", AXIS(shard),
                          RENGA_SHARD_NOTHING},
    [RENGA_AXIS_SAVED] = {"recomputation", "-layout_recompute", "none", AXIS(saved),
                          RENGA_SAVED_KEEP},
};

int RengaLayoutGet_Private(const RengaLayout *layout, RengaAxisNumber axis)
{
  int value;
  memcpy(&value, (const char *)layout + RengaAxes_Private[axis].offset, sizeof value);
  return value;
}

bool RengaLayoutUses_Private(const RengaLayout *layout, RengaAxisNumber axis)
{
  return RengaLayoutGet_Private(layout, axis) != RengaAxes_Private[axis].plain;
}

static int Larger(int a, int b)
{
  return a > b ? a : b;
}

/*@
   RengaPlanGetLayout - the layout of a plan as a value

   Input:
   . plan - the plan, with its stages

   Output:
   . layout - the numbers of stages, replicas and ranks of each kind, the ZeRO stage, recomputation,
     and precision. Where stages differ in one of them, it is the most

   Errors: RENGA_ERR_ORDER before RengaPlanSetStages().

   See also: RengaPlanGetStage(), RengaPlanExplain()
@*/
RengaErrorCode RengaPlanGetLayout(RengaPlan plan, RengaLayout *layout)
{
  RengaCheckPointers(plan, layout);
  RengaCheck(plan->count > 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the plan has no stages: call RengaPlanSetStages first");
  RengaLayout most = {.stages = plan->count / plan->stage[0].shape.chunks, .expert = 1};
  for (int s = 0; s < plan->count; s++) {
    const RengaStageShape *shape = &plan->stage[s].shape;
    most.chunks = Larger(most.chunks, shape->chunks);
    most.replicas = Larger(most.replicas, shape->replicas);
    most.tensor = Larger(most.tensor, shape->tensor);
    most.context = Larger(most.context, shape->sequence);
    most.shard = (RengaShard)Larger((int)most.shard, (int)shape->shard);
    most.saved = (RengaSaved)Larger((int)most.saved, (int)shape->saved);
    most.precision = shape->precision;
  }
  *layout = most;
  return RENGA_SUCCESS;
}
