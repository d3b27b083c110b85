/* What several views of a plan say, in words and shares. */
#include "planimpl.h"
#include "renga/private/number.h"

const char *const RengaPlanPartNames_Private[RENGA_PLAN_PARTS] = {
    "parameters", "gradients", "optimizer", "saved", "temporary", "messages", "inputs"};

void RengaPlanGetParts_Private(const RengaPlanMemory *memory, int64_t parts[RENGA_PLAN_PARTS])
{
  const int64_t all[RENGA_PLAN_PARTS] = {memory->parameters, memory->gradients, memory->optimizer,
                                         memory->saved,      memory->temporary, memory->messages,
                                         memory->inputs};
  for (int i = 0; i < RENGA_PLAN_PARTS; i++) parts[i] = all[i];
}

bool RengaPlanKnowsParts_Private(RengaPlan plan)
{
  for (int s = 0; s < plan->count; s++) {
    int64_t parts[RENGA_PLAN_PARTS];
    RengaPlanGetParts_Private(&plan->stage[s].parts, parts);
    for (int i = 0; i < RENGA_PLAN_PARTS; i++)
      if (parts[i]) return true;
  }
  return false;
}

bool RengaPlanKnowsSeconds_Private(RengaPlan plan)
{
  for (int s = 0; s < plan->count; s++)
    if (plan->stage[s].forward_seconds > 0 || plan->stage[s].backward_seconds > 0) return true;
  return false;
}

bool RengaPlanHasShapes_Private(RengaPlan plan)
{
  for (int s = 0; s < plan->count; s++) {
    const RengaStageShape *shape = &plan->stage[s].shape;
    RengaStageShape simple = RengaStageShapePlain(shape->replicas);
    if (shape->saved == RENGA_SAVED_RECOMPUTE) simple.saved = shape->saved;
    if (!RengaStageShapeEqual(shape, &simple)) return true;
  }
  return false;
}

double RengaPlanGetShare_Private(RengaPlan plan, int stage)
{
  double total = 0;
  for (int s = 0; s < plan->count; s++) total += plan->stage[s].forward_flops;
  return total > 0 ? plan->stage[stage].forward_flops / total : 0;
}

double RengaPlanGetBusy_Private(RengaPlan plan, int stage)
{
  const int replicas = plan->stage[stage].shape.replicas;
  const int first = RengaPlanGetFirstStage(plan, stage);
  const int64_t microbatches = RengaPlanMicrobatches(plan, plan->batch);
  int64_t most = 0;
  double seconds = 0;
  for (int r = 0; r < replicas; r++) {
    const int64_t own = RengaPlanLeafBound(microbatches, plan->leaf, replicas, r + 1) -
                        RengaPlanLeafBound(microbatches, plan->leaf, replicas, r);
    if (own > most) most = own;
  }
  for (int s = first; s < plan->count; s++)
    if (RengaPlanGetFirstStage(plan, s) == first)
      seconds += plan->stage[s].forward_seconds + plan->stage[s].backward_seconds;
  return (double)most * seconds;
}

double RengaPlanGetWait_Private(RengaPlan plan, int stage)
{
  const double busy = RengaPlanGetBusy_Private(plan, stage), all = plan->prediction.pipeline;
  if (busy <= 0 || all <= 0) return -1;
  return busy < all ? 1 - busy / all : 0;
}

static void CountStageReplicas(RengaPlan plan, int *least, int *most)
{
  *least = *most = plan->stage[0].shape.replicas;
  for (int s = 1; s < plan->count; s++) {
    if (plan->stage[s].shape.replicas < *least) *least = plan->stage[s].shape.replicas;
    if (plan->stage[s].shape.replicas > *most) *most = plan->stage[s].shape.replicas;
  }
}

int RengaPlanMostReplicas_Private(RengaPlan plan)
{
  int least, most;
  CountStageReplicas(plan, &least, &most);
  return most;
}

void RengaPlanFormatShape_Private(RengaPlan plan, size_t size, char text[])
{
  int least, most, used;
  const int chunks = plan->stage[0].shape.chunks;
  CountStageReplicas(plan, &least, &most);
  if (least == most)
    used = snprintf(text, size, "%d stage%s x %d replica%s", plan->count,
                    plan->count == 1 ? "" : "s", most, most == 1 ? "" : "s");
  else
    used = snprintf(text, size, "%d stages of %d to %d replicas", plan->count, least, most);
  if (chunks > 1 && (size_t)used < size)
    snprintf(text + used, size - (size_t)used, ", %d virtual stages per rank", chunks);
}

void RengaPlanFormatGroups_Private(RengaPlan plan, size_t size, char text[])
{
  const int tensor = plan->stage[0].shape.tensor, sequence = plan->stage[0].shape.sequence;
  int used = 0;
  text[0] = 0;
  for (int s = 1; s < plan->count; s++)
    if (plan->stage[s].shape.tensor != tensor || plan->stage[s].shape.sequence != sequence) return;
  if (sequence > 1) used = snprintf(text, size, " x %d context-parallel ranks", sequence);
  if (tensor > 1) snprintf(text + used, size - (size_t)used, " x %d tensor-parallel ranks", tensor);
}

void RengaPlanFormatRate_Private(RengaPlan plan, size_t size, char text[])
{
  const double rate = (double)plan->batch / plan->prediction.step;
  RengaTextFormat(text, size, rate < 1e4 ? "%.4g" : "%.0f", rate);
}

void RengaPlanFormatSchedule_Private(RengaPlan plan, size_t size, char text[])
{
  if (plan->eager > 0)
    RengaTextFormat(text, size, "%s, eager %g", plan->schedule ? plan->schedule : "open",
                    plan->eager);
  else
    snprintf(text, size, "%s", plan->schedule ? plan->schedule : "open");
}

void RengaPlanFormatRanks_Private(int count, const int ranks[], size_t size, char text[])
{
  size_t used = 0;
  text[0] = 0;
  for (int i = 0, j; i < count; i = j) {
    for (j = i + 1; j < count && ranks[j] == ranks[j - 1] + 1; j++) continue;
    if (used + 30 > size) {
      snprintf(text + used, size - used, ", …");
      return;
    }
    used += (size_t)snprintf(text + used, size - used, "%s%d", i ? ", " : "", ranks[i]);
    if (j - i > 1) used += (size_t)snprintf(text + used, size - used, "-%d", ranks[j - 1]);
  }
}
