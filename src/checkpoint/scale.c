/* The loss scale of fp16 in checkpoints, an attribute as "65536 17": the scale, and the steps since
   it changed. Files of runs in other precisions have none. */
#include "checkpointimpl.h"
#include "renga/private/number.h"

RengaErrorCode RengaCheckpointKeepScale_Private(RengaCheckpoint checkpoint,
                                                RengaCheckpointTable *table)
{
  char text[64];
  double scale;
  int64_t steps;
  bool used;
  RengaCall(RengaPipelineGetLossScale(checkpoint->pipeline, &scale, &steps, &used));
  if (!used) return RENGA_SUCCESS;
  RengaTextFormat(text, sizeof text, "%.17g %lld", scale, (long long)steps);
  RengaCall(RengaCheckpointTableSetAttribute(table, "loss_scale", text));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointAdoptScale_Private(RengaCheckpoint checkpoint,
                                                 const RengaCheckpointTable *table)
{
  const char *text = RengaCheckpointTableGetAttribute(table, "loss_scale");
  char *end;
  long long steps;
  if (!text) return RENGA_SUCCESS;
  const double scale = RengaReadReal(text, &end);
  RengaCheck(end != text && sscanf(end, "%lld", &steps) == 1, checkpoint->hdr.comm,
             RENGA_ERR_FILE_FORMAT, "the checkpoint's loss_scale is \"%s\", not two numbers", text);
  RengaCall(RengaPipelineSetLossScale(checkpoint->pipeline, scale, steps));
  return RENGA_SUCCESS;
}
