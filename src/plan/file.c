/* The plan as a small text file: all that running needs to repeat a layout, and what the planner
   expected of it. Numbers survive to the last bit. Lines beginning with # are for people; read.c
   reads the others. */
#include "planimpl.h"
#include "renga/private/number.h"
#include "renga/private/output.h"
#include "renga/private/path.h"
#include "rengacomm.h"

static void WritePlanRanks(FILE *file, int count, const int ranks[])
{
  for (int i = 0, j; i < count; i = j) {
    for (j = i + 1; j < count && ranks[j] == ranks[j - 1] + 1; j++) continue;
    fprintf(file, j - i > 1 ? " %d-%d" : " %d", ranks[i], ranks[j - 1]);
  }
  fprintf(file, "\n");
}

/* A name or sentence stays on its line, whatever it holds. */
static void WriteLine(FILE *file, const char *text)
{
  for (; *text; text++) fputc(*text == '\n' || *text == '\r' ? ' ' : *text, file);
}

static void WriteReason(FILE *file, const char *topic, const char *sentence)
{
  fprintf(file, "reason ");
  WriteLine(file, topic);
  fprintf(file, ": ");
  WriteLine(file, sentence);
  fprintf(file, "\n");
}

static void WriteShape(FILE *file, const RengaStageShape *shape)
{
  char word[32];
  for (int f = 0; f < RENGA_PLAN_SHAPE_FIELDS; f++) {
    RengaPlanFormatShapeField_Private(shape, f, sizeof word, word);
    fprintf(file, " %s %s", RengaPlanShapeFieldName_Private(f), word);
  }
}

static void WriteStage(RengaPlan plan, FILE *file, int s)
{
  const RengaPlanStage *stage = &plan->stage[s];
  int64_t parts[RENGA_PLAN_PARTS];
  RengaPlanGetParts_Private(&stage->parts, parts);
  fprintf(file, "stage %d nodes %d %d", s, stage->first, stage->last);
  WriteShape(file, &stage->shape);
  fprintf(file, "\n  first ");
  WriteLine(file, plan->first_name[s] ? plan->first_name[s] : "");
  RengaFilePrint(file, "\n  size %lld %.17g %.17g %.17g\n", (long long)stage->parameters,
                 stage->forward_flops, stage->receives, stage->sends);
  RengaFilePrint(file, "  seconds %.17g %.17g\n", stage->forward_seconds, stage->backward_seconds);
  fprintf(file, "  memory %lld parts", (long long)stage->memory);
  for (int i = 0; i < RENGA_PLAN_PARTS; i++) fprintf(file, " %lld", (long long)parts[i]);
  fprintf(file, "\n");
  fprintf(file, "  ranks");
  WritePlanRanks(file, plan->offset[s + 1] - plan->offset[s], plan->rank + plan->offset[s]);
  for (int k = 0; k < RengaPlanCountKept_Private(plan, s); k++) {
    fprintf(file, "  keeps ");
    WriteLine(file, plan->kept[s].name[k]);
    fprintf(file, "\n");
  }
}

static void WritePlanText(RengaPlan plan, FILE *file)
{
  const RengaPlanPrediction *p = &plan->prediction;
  fprintf(file, "renga-plan %d\n", RENGA_PLAN_FILE_VERSION);
  fprintf(file, "graph 0x%016llx nodes %d", (unsigned long long)plan->digest, plan->n_nodes);
  for (int k = 0; k < RENGA_LANE_KINDS; k++)
    if (plan->lanes[k] > 1) fprintf(file, " %s %d", RengaPlanLaneWords_Private[k], plan->lanes[k]);
  fprintf(file, "\n");
  fprintf(file, "batch %lld microbatch %lld", (long long)plan->batch, (long long)plan->microbatch);
  if (plan->leaf > 1) fprintf(file, " leaf %lld", (long long)plan->leaf);
  fprintf(file, "\n");
  RengaFilePrint(file, "schedule %s eager %.17g\n", plan->schedule ? plan->schedule : "open",
                 plan->eager);
  fprintf(file, "costs %s memory %lld machine ", plan->costs ? plan->costs : "unknown",
          (long long)plan->device_memory);
  WriteLine(file, plan->machine ? plan->machine : "unknown");
  fprintf(file, "\n");
  fprintf(file, "# seconds of a step: all, pipeline, reduction, update; no plan is below bound\n");
  RengaFilePrint(file, "predicted %.17g %.17g %.17g %.17g bound %.17g bubble %.17g\n", p->step,
                 p->pipeline, p->reduce, p->update, p->bound, p->bubble);
  fprintf(file, "stages %d\n", plan->count);
  fprintf(file,
          "# of a stage: its first node; parameters, and per sample FLOPs forward, bytes of\n"
          "# activations that come and go; seconds forward and backward of a micro-batch; bytes\n"
          "# of a device: ");
  for (int i = 0; i < RENGA_PLAN_PARTS; i++)
    fprintf(file, "%s%s", RengaPlanPartNames_Private[i], i + 1 < RENGA_PLAN_PARTS ? ", " : "\n");
  for (int s = 0; s < plan->count; s++) WriteStage(plan, file, s);
  for (int r = 0; r < plan->n_reasons; r++)
    WriteReason(file, plan->reason[2 * r], plan->reason[2 * r + 1]);
  fprintf(file, "end\n");
}

static RengaErrorCode Save(RengaPlan plan, const char *file_name)
{
  RengaOutput output;
  RengaCall(RengaPathCheckOutput_Private(file_name));
  RengaCall(RengaOutputOpen_Private(file_name, &output));
  WritePlanText(plan, output.stream);
  RengaCall(RengaOutputClose_Private(&output, RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSave - write a plan to a text file

   Collective

   Input:
   . plan - the plan, with its stages
   . file - its name; rank 0 writes

   Errors: RENGA_ERR_ORDER before RengaPlanSetStages; RENGA_ERR_FILE_WRITE where the file cannot
   be written. All ranks have the error.

   Notes: holds the digest of the network, so that it is not used for another; what was predicted,
   and the reasons, are kept.

   See also: RengaPlanLoad(), RengaPlanViewFromOptions()
@*/
RengaErrorCode RengaPlanSave(RengaPlan plan, const char *file)
{
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheckPointers(plan, file);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  if (RengaCommGetRank(plan->hdr.owner) == 0) code = Save(plan, file);
  RengaCall(RengaErrorAgree(plan->hdr.comm, code));
  return RENGA_SUCCESS;
}
