/* The plan for people (a table) and for programs (JSON). */
#include "planimpl.h"
#include <json-c/json.h>
#include <string.h>

enum { NAME_WIDTH = 32 };

static double TotalFlops(RengaPlan plan)
{
  double total = 0;
  for (int s = 0; s < plan->count; s++) total += plan->stage[s].forward_flops;
  return total;
}

static double Share(RengaPlan plan, int stage)
{
  double total = TotalFlops(plan);
  return total > 0 ? plan->stage[stage].forward_flops / total : 0;
}

/* "0-3, 7": runs of numbers as ranges; a list that is too long ends in "…". */
static void FormatRanks(int count, const int ranks[], size_t size, char text[])
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

static void CountReplicas(RengaPlan plan, int *least, int *most)
{
  *least = *most = plan->stage[0].replicas;
  for (int s = 1; s < plan->count; s++) {
    if (plan->stage[s].replicas < *least) *least = plan->stage[s].replicas;
    if (plan->stage[s].replicas > *most) *most = plan->stage[s].replicas;
  }
}

/* "3 stages x 2 replicas", or "3 stages of 1 to 4 replicas". */
static void FormatShape(RengaPlan plan, size_t size, char text[])
{
  int least, most;
  CountReplicas(plan, &least, &most);
  const char *stages = plan->count == 1 ? "" : "s", *replicas = most == 1 ? "" : "s";
  if (least == most)
    snprintf(text, size, "%d stage%s x %d replica%s", plan->count, stages, most, replicas);
  else
    snprintf(text, size, "%d stages of %d to %d replicas", plan->count, least, most);
}

static RengaErrorCode ViewIdleReplicas(RengaPlan plan, RengaViewer viewer)
{
  int64_t microbatches = RengaPlanMicrobatches(plan, plan->batch);
  int least, replicas;
  CountReplicas(plan, &least, &replicas);
  if (microbatches < replicas)
    RengaCall(RengaViewerPrintf(viewer,
                                "  only %lld of %d replicas have a micro-batch: -microbatch_size "
                                "must be smaller for all to work\n",
                                (long long)microbatches, replicas));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewIdle(RengaPlan plan, RengaViewer viewer)
{
  int *idle = NULL, count = 0, stage, replica;
  char text[120];
  if (plan->available <= plan->offset[plan->count]) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(plan->available, &idle));
  for (int r = 0; r < plan->available; r++) {
    RengaCall(RengaPlanFindRank(plan, r, &stage, &replica));
    if (stage < 0) idle[count++] = r;
  }
  FormatRanks(count, idle, sizeof text, text);
  RengaFree(&idle);
  RengaCall(
      RengaViewerPrintf(viewer, "  idle: %d of %d ranks (%s)\n", count, plan->available, text));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewHead(RengaPlan plan, RengaViewer viewer)
{
  double largest = 0;
  char shape[80];
  FormatShape(plan, sizeof shape, shape);
  for (int s = 0; s < plan->count; s++)
    if (Share(plan, s) > largest) largest = Share(plan, s);
  RengaCall(RengaViewerPrintf(
      viewer, "plan: %s; steps of %lld samples in %lld micro-batches of %lld\n", shape,
      (long long)plan->batch, (long long)RengaPlanMicrobatches(plan, plan->batch),
      (long long)plan->microbatch));
  RengaCall(RengaViewerPrintf(
      viewer, "  the largest stage has %.1f %% of the FLOPs; an even share is %.1f %%\n",
      100 * largest, 100.0 / plan->count));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewAscii(RengaPlan plan, RengaViewer viewer)
{
  char parameters[32], memory[32], ranks[60];
  RengaCall(ViewHead(plan, viewer));
  RengaCall(ViewIdle(plan, viewer));
  RengaCall(ViewIdleReplicas(plan, viewer));
  RengaCall(RengaViewerPrintf(viewer, "  %5s  %-13s  %-*s  %10s  %8s  %7s  %11s  %s\n", "stage",
                              "nodes", NAME_WIDTH, "first node", "parameters", "replicas", "FLOPs",
                              "memory", "ranks"));
  for (int s = 0; s < plan->count; s++) {
    const RengaPlanStage *stage = &plan->stage[s];
    const char *name = plan->first_name[s];
    size_t length = strlen(name), skip = length > NAME_WIDTH ? length - NAME_WIDTH : 0;
    char nodes[32];
    snprintf(nodes, sizeof nodes, "%d-%d", stage->first, stage->last - 1);
    RengaFormatCount((double)stage->parameters, sizeof parameters, parameters);
    if (stage->memory)
      RengaFormatBytes((double)stage->memory, sizeof memory, memory);
    else
      snprintf(memory, sizeof memory, "not known");
    FormatRanks(stage->replicas, plan->rank + plan->offset[s], sizeof ranks, ranks);
    RengaCall(RengaViewerPrintf(viewer, "  %5d  %-13s  %-*s  %10s  %8d  %5.1f %%  %11s  %s\n", s,
                                nodes, NAME_WIDTH, name + skip, parameters, stage->replicas,
                                100 * Share(plan, s), memory, ranks));
  }
  return RENGA_SUCCESS;
}

static struct json_object *StageToJson(RengaPlan plan, int s)
{
  const RengaPlanStage *stage = &plan->stage[s];
  struct json_object *row = json_object_new_object(), *ranks = json_object_new_array();
  for (int r = plan->offset[s]; r < plan->offset[s + 1]; r++)
    json_object_array_add(ranks, json_object_new_int(plan->rank[r]));
  json_object_object_add(row, "first", json_object_new_int(stage->first));
  json_object_object_add(row, "last", json_object_new_int(stage->last));
  json_object_object_add(row, "first_node", json_object_new_string(plan->first_name[s]));
  json_object_object_add(row, "parameters", json_object_new_int64(stage->parameters));
  json_object_object_add(row, "forward_flops", json_object_new_double(stage->forward_flops));
  json_object_object_add(row, "memory", json_object_new_int64(stage->memory));
  json_object_object_add(row, "replicas", json_object_new_int(stage->replicas));
  json_object_object_add(row, "ranks", ranks);
  return row;
}

static RengaErrorCode ViewJson(RengaPlan plan, RengaViewer viewer)
{
  struct json_object *root = json_object_new_object(), *stages = json_object_new_array();
  char digest[24];
  snprintf(digest, sizeof digest, "0x%016llx", (unsigned long long)plan->digest);
  json_object_object_add(root, "graph", json_object_new_string(digest));
  json_object_object_add(root, "nodes", json_object_new_int(plan->n_nodes));
  json_object_object_add(root, "batch", json_object_new_int64(plan->batch));
  json_object_object_add(root, "microbatch", json_object_new_int64(plan->microbatch));
  for (int s = 0; s < plan->count; s++) json_object_array_add(stages, StageToJson(plan, s));
  json_object_object_add(root, "stages", stages);
  RengaErrorCode code = RengaViewerPrintf(
      viewer, "%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
  json_object_put(root);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPlanView - show a plan

   Collective

   Input:
   . plan - the plan, with its stages
   . viewer - of kind ascii (a table) or json
@*/
RengaErrorCode RengaPlanView(RengaPlan plan, RengaViewer viewer)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(viewer);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  const char *kind = RengaViewerGetKind(viewer);
  if (!strcmp(kind, "json"))
    RengaCall(ViewJson(plan, viewer));
  else if (!strcmp(kind, "ascii"))
    RengaCall(ViewAscii(plan, viewer));
  else
    RengaRaise(plan->hdr.comm, RENGA_ERR_SUPPORT, "a plan is shown as ascii or json, not as %s",
               kind);
  return RENGA_SUCCESS;
}

/*@
   RengaPlanViewFromOptions - show and save a plan as the user asked

   Collective

   Input:
   . plan - the plan, with its stages

   Options:
   . -plan_view - ascii[:FILE] or json[:FILE]
   . -plan_save - a file for RengaPlanLoad()

   Notes: called by programs once the memory of the stages is known.
@*/
RengaErrorCode RengaPlanViewFromOptions(RengaPlan plan)
{
  const char *view = NULL, *file = NULL;
  bool given = false;
  RengaViewer viewer = NULL;
  RengaCheckPointer(plan);
  RengaCall(RengaOptionsGetString("plan_view", &view, &given));
  if (given && view) {
    RengaCall(RengaViewerCreate(plan->hdr.owner, view, &viewer));
    RengaCall(RengaPlanView(plan, viewer));
    RengaCall(RengaViewerDestroy(&viewer));
  }
  RengaCall(RengaOptionsGetString("plan_save", &file, &given));
  if (given && file) RengaCall(RengaPlanSave(plan, file));
  return RENGA_SUCCESS;
}
