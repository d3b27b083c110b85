/* What a way costs, and what it costs to have a value in another state.

   Backward goes as forward: a rank computes the gradients of what it has computed, so that its
   share of a node's backward is its share of the forward. The gradient of what a rank has a part of
   is that part; of what is whole in a node that is split, each rank has a term of a sum; of what is
   a sum, each has the whole. So a conversion has its own on the way back: an all-gather a
   reduce-scatter, a reduce-scatter an all-gather, and a value that all have and split nodes read
   an all-reduce. What is needed again in backward (a gathered input) is taken to be gathered while
   other gradients are computed. */
#include "renga/private/cost.h"
#include "tensorimpl.h"
#include <string.h>

static bool IsAttention(const TensorCall *made)
{
  return strcmp(made->node->op->name, "Attention") == 0;
}

/* Backward shares what forward shares; recomputation is within backward. */
static void ShareNodeCost(const TensorStage *stage, const TensorCall *made, double part,
                          double whole, TensorSeconds *seconds)
{
  const double share = whole > 0 ? part / whole : 1;
  const RengaProfileCost *cost = &stage->cost[made->node->id];
  const RengaMachineDevice *device = NULL;
  RengaMachineGetDevice(stage->machine, &device);
  *seconds = (TensorSeconds){cost->forward * share, cost->backward * share, 0};
  if (stage->recompute == RENGA_RECOMPUTE_FULL) seconds->again = seconds->forward;
  if (stage->recompute == RENGA_RECOMPUTE_SELECTIVE && IsAttention(made) && device &&
      device->attention_passes > 0)
    seconds->again = seconds->forward;
}

RengaErrorCode RengaTensorPriceWay_Private(const TensorStage *stage, const TensorCall *made,
                                           const RengaSplitWay *way, TensorSeconds *seconds)
{
  RengaTensorSpec in[TENSOR_ARITY], out[TENSOR_ARITY];
  RengaAttributes attributes = {0};
  RengaOpCall lane;
  const RengaMachineDevice *device;
  RengaCall(RengaMachineGetDevice(stage->machine, &device));
  const double whole = RengaCostSeconds_Private(device, &made->call);
  double part = whole;
  if (way) {
    RengaCall(RengaSplitCall(&made->call, way, stage->ranks - 1, stage->ranks, in, out, &attributes,
                             &lane));
    part = RengaCostSeconds_Private(device, &lane);
    RengaCall(RengaAttributesFree(&attributes));
  }
  ShareNodeCost(stage, made, part, whole, seconds);
  return RENGA_SUCCESS;
}

/* Of `ranks` devices, stride apart, how many share a group of the level. */
static int64_t CountInGroup(const RengaMachineLevel *level, int64_t stride, int64_t ranks)
{
  const int64_t most = level->devices / stride;
  return most < 1 ? 1 : most < ranks ? most : ranks;
}

double RengaTensorGatherSeconds_Private(RengaMachine machine, int64_t stride, int64_t ranks,
                                        double bytes)
{
  const RengaMachineLevel *levels = NULL;
  int count = 0;
  double seconds = 0;
  int64_t below = 1;
  if (ranks < 2) return 0;
  RengaMachineGetLevels(machine, &count, &levels);
  for (int l = 0; l < count; l++) {
    const int64_t within = l == count - 1 ? ranks : CountInGroup(&levels[l], stride, ranks);
    if (within > below)
      seconds += levels[l].latency +
                 (double)(within - below) * bytes / (double)ranks / levels[l].bandwidth;
    below = within;
  }
  return seconds;
}

int64_t RengaTensorBytesOf_Private(const TensorStage *stage, RengaValue value,
                                   const RengaSplit *split)
{
  const RengaTensorSpec spec =
      RengaGraphStoredAt(RengaGraphGetValue(stage->graph, value), stage->samples);
  const RengaTensorSpec part = RengaSplitSpec(&spec, split, stage->ranks - 1, stage->ranks);
  return (int64_t)RengaTensorSpecBytes(&part);
}

/* Forward, in gathers of the whole: 1 of a gather or a reduce-scatter, 2 of an all-reduce. */
static double ForwardGathers(int ranks, const RengaSplit *from, const RengaSplit *to)
{
  const bool whole = !to || to->kind == RENGA_SPLIT_WHOLE;
  if (from->kind == RENGA_SPLIT_WHOLE) return 0;
  if (from->kind == RENGA_SPLIT_SUM) return whole ? 2 : to->kind == RENGA_SPLIT_SUM ? 0 : 1;
  if (!whole && to->kind == RENGA_SPLIT_SUM) return -1;
  if (whole) return 1;
  return RengaSplitEqual(from, to) ? 0 : 1.0 / ranks;
}

/* The gradient, from how it comes to how the maker takes it. */
static double BackwardGathers(int ranks, const RengaSplit *from, const RengaSplit *to)
{
  const bool takes_part = from->kind == RENGA_SPLIT_ALONG;
  if (!to) return takes_part ? 1 : 2;
  if (to->kind != RENGA_SPLIT_ALONG) return 0;
  if (!takes_part) return 1;
  return RengaSplitEqual(from, to) ? 0 : 1.0 / ranks;
}

TensorSeconds RengaTensorPriceConversion_Private(const TensorStage *stage, RengaValue value,
                                                 const RengaSplit *from, const RengaSplit *to)
{
  const RengaGraphValue *what = RengaGraphGetValue(stage->graph, value);
  const RengaTensorSpec spec = RengaGraphStoredAt(what, stage->samples);
  const bool parameter = what->kind == RENGA_VALUE_PARAMETER;
  const bool gradient = parameter || what->producer >= 0;
  const double one = RengaTensorGatherSeconds_Private(stage->machine, 1, stage->ranks,
                                                      (double)RengaTensorSpecBytes(&spec));
  const double forward = ForwardGathers(stage->ranks, from, to);
  if (forward < 0) return (TensorSeconds){-1, 0, 0};
  TensorSeconds seconds = {forward * one, 0, 0};
  if (gradient && RengaDataTypeIsFloating(spec.type))
    seconds.backward = BackwardGathers(stage->ranks, from, to) * one;
  if (parameter && from->kind == RENGA_SPLIT_WHOLE) seconds.backward /= (double)stage->rounds;
  if (!parameter && stage->recompute == RENGA_RECOMPUTE_FULL) seconds.again = seconds.forward;
  return seconds;
}
