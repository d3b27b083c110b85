/* The plan for programs: JSON. Sizes are bytes, times seconds; what is not known is left out. */
#include "planimpl.h"
#include <json-c/json.h>

typedef struct json_object Json;

static void AddWhole(Json *object, const char *name, int64_t value)
{
  json_object_object_add(object, name, json_object_new_int64(value));
}

static void AddReal(Json *object, const char *name, double value)
{
  json_object_object_add(object, name, json_object_new_double(value));
}

static void AddJsonText(Json *object, const char *name, const char *text)
{
  json_object_object_add(object, name, json_object_new_string(text));
}

static Json *MemoryToJson(const RengaPlanMemory *memory)
{
  Json *row = json_object_new_object();
  int64_t parts[RENGA_PLAN_PARTS];
  RengaPlanGetParts_Private(memory, parts);
  for (int i = 0; i < RENGA_PLAN_PARTS; i++) AddWhole(row, RengaPlanPartNames_Private[i], parts[i]);
  return row;
}

static Json *ShapeToJson(const RengaStageShape *shape)
{
  Json *row = json_object_new_object();
  char word[32];
  for (int f = 0; f < RENGA_PLAN_SHAPE_FIELDS; f++) {
    RengaPlanFormatShapeField_Private(shape, f, sizeof word, word);
    AddJsonText(row, RengaPlanShapeFieldName_Private(f), word);
  }
  return row;
}

static Json *KeptToJson(RengaPlan plan, int s)
{
  Json *row = json_object_new_array();
  for (int k = 0; k < plan->kept[s].count; k++)
    json_object_array_add(row, json_object_new_string(plan->kept[s].name[k]));
  return row;
}

static Json *StageToJson(RengaPlan plan, int s)
{
  const RengaPlanStage *stage = &plan->stage[s];
  Json *row = json_object_new_object(), *ranks = json_object_new_array();
  for (int r = plan->offset[s]; r < plan->offset[s + 1]; r++)
    json_object_array_add(ranks, json_object_new_int(plan->rank[r]));
  AddWhole(row, "first", stage->first);
  AddWhole(row, "last", stage->last);
  AddJsonText(row, "first_node", plan->first_name[s]);
  AddWhole(row, "parameters", stage->parameters);
  AddReal(row, "forward_flops", stage->forward_flops);
  AddReal(row, "receives_per_sample", stage->receives);
  AddReal(row, "sends_per_sample", stage->sends);
  AddWhole(row, "replicas", stage->shape.replicas);
  json_object_object_add(row, "ranks", ranks);
  json_object_object_add(row, "recompute",
                         json_object_new_boolean(stage->shape.saved == RENGA_SAVED_RECOMPUTE));
  if (RengaPlanCountKept_Private(plan, s))
    json_object_object_add(row, "keeps", KeptToJson(plan, s));
  if (RengaPlanHasShapes_Private(plan))
    json_object_object_add(row, "shape", ShapeToJson(&stage->shape));
  if (RengaPlanKnowsSeconds_Private(plan)) {
    AddReal(row, "forward_seconds", stage->forward_seconds);
    AddReal(row, "backward_seconds", stage->backward_seconds);
  }
  if (RengaPlanGetWait_Private(plan, s) >= 0)
    AddReal(row, "waits", RengaPlanGetWait_Private(plan, s));
  AddWhole(row, "memory", stage->memory);
  if (RengaPlanKnowsParts_Private(plan))
    json_object_object_add(row, "memory_parts", MemoryToJson(&stage->parts));
  return row;
}

static Json *PredictionToJson(const RengaPlanPrediction *prediction)
{
  Json *row = json_object_new_object();
  AddReal(row, "step", prediction->step);
  AddReal(row, "pipeline", prediction->pipeline);
  AddReal(row, "reduce", prediction->reduce);
  AddReal(row, "update", prediction->update);
  AddReal(row, "bubble", prediction->bubble);
  if (prediction->bound <= 0) return row;
  AddReal(row, "bound", prediction->bound);
  AddReal(row, "gap", prediction->step / prediction->bound - 1);
  return row;
}

static Json *ReasonsToJson(RengaPlan plan)
{
  Json *rows = json_object_new_array();
  for (int r = 0; r < plan->n_reasons; r++) {
    Json *row = json_object_new_object();
    AddJsonText(row, "topic", plan->reason[2 * r]);
    AddJsonText(row, "sentence", plan->reason[2 * r + 1]);
    json_object_array_add(rows, row);
  }
  return rows;
}

static Json *PlanToJson(RengaPlan plan)
{
  Json *root = json_object_new_object(), *stages = json_object_new_array();
  char digest[24];
  snprintf(digest, sizeof digest, "0x%016llx", (unsigned long long)plan->digest);
  AddJsonText(root, "graph", digest);
  AddWhole(root, "nodes", plan->n_nodes);
  AddWhole(root, "batch", plan->batch);
  AddWhole(root, "microbatch", plan->microbatch);
  AddWhole(root, "leaf", plan->leaf);
  if (plan->schedule) AddJsonText(root, "schedule", plan->schedule);
  if (plan->eager > 0) AddReal(root, "eager", plan->eager);
  if (plan->machine) AddJsonText(root, "machine", plan->machine);
  if (plan->costs) AddJsonText(root, "costs", plan->costs);
  if (plan->device_memory) AddWhole(root, "device_memory", plan->device_memory);
  if (plan->memory_limit) AddWhole(root, "memory_limit", plan->memory_limit);
  if (plan->available) AddWhole(root, "available_ranks", plan->available);
  if (plan->prediction.step > 0)
    json_object_object_add(root, "predicted", PredictionToJson(&plan->prediction));
  for (int s = 0; s < plan->count; s++) json_object_array_add(stages, StageToJson(plan, s));
  json_object_object_add(root, "stages", stages);
  if (plan->n_reasons) json_object_object_add(root, "reasons", ReasonsToJson(plan));
  return root;
}

RengaErrorCode RengaPlanViewJson_Private(RengaPlan plan, RengaViewer viewer)
{
  Json *root = PlanToJson(plan);
  RengaErrorCode code = RengaViewerPrintf(
      viewer, "%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
  json_object_put(root);
  RengaCall(code);
  return RENGA_SUCCESS;
}
