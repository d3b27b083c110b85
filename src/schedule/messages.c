/* What crosses between stages, from graph and plan. An activation goes from the stage that makes it
   straight to each stage that uses it. Its gradient begins in the last stage with a use that leads
   to the loss, goes down the chain of such stages, each adding its own part, and ends where the
   value was made: the sum has the order that it has in one stage. */
#include "renga/private/graph.h"
#include "renga/private/object.h"
#include "rengaschedule.h"
#include <stdlib.h>

/* A value is used in a stage that does not make it. */
typedef struct {
  RengaValue value;
  int stage;
  bool leads; /* some use there leads to the loss, and the value has a gradient */
} MessageUse;

typedef struct {
  RengaPlan plan;
  RengaGraph graph;
  const RengaGraphRows *rows; /* lent by the graph */
  bool *leads;                /* [value] the loss depends on it, differentiably */
  int *last_use;              /* [value] its newest place in use[], -1: none */
  int count, capacity;
  MessageUse *use;
} UseTable;

static bool MayCross(const RengaGraphSource *value)
{
  return value->kind == RENGA_VALUE_ACTIVATION && !value->prepared && value->producer >= 0;
}

static bool NodeLeads(const UseTable *table, const RengaGraphRow *node)
{
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0 && table->leads[node->out[o]]) return true;
  return false;
}

static void MarkLeading(UseTable *table, RengaValue loss)
{
  if (loss >= 0) table->leads[loss] = true;
  for (int n = RengaGraphGetNodeCount(table->graph) - 1; n >= 0; n--) {
    const RengaGraphRow *node = &table->rows->node[n];
    const bool leads = NodeLeads(table, node);
    for (int i = 0; leads && i < node->n_in; i++)
      if (node->in[i] >= 0 && table->rows->source[node->in[i]].differentiable)
        table->leads[node->in[i]] = true;
  }
}

static RengaErrorCode AddMessageUse(UseTable *table, RengaValue value, int stage, bool leads)
{
  int last = table->last_use[value];
  if (last >= 0 && table->use[last].stage == stage) {
    table->use[last].leads = table->use[last].leads || leads;
    return RENGA_SUCCESS;
  }
  if (table->count == table->capacity) {
    table->capacity = 2 * table->capacity + 16;
    RengaCall(RengaRealloc(table->capacity, &table->use));
  }
  table->last_use[value] = table->count;
  table->use[table->count++] = (MessageUse){value, stage, leads};
  return RENGA_SUCCESS;
}

/* Nodes come in order, so that the stages of each value's uses ascend. */
static RengaErrorCode FindUses(UseTable *table)
{
  const RengaPlanStage *row = NULL;
  for (int n = 0, stage = -1; n < RengaGraphGetNodeCount(table->graph); n++) {
    const RengaGraphRow *node = &table->rows->node[n];
    while (!row || n >= row->last) row = RengaPlanGetStage(table->plan, ++stage);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] < 0) continue;
      const RengaGraphSource *value = &table->rows->source[node->in[i]];
      if (!MayCross(value) || (value->producer >= row->first && value->producer < row->last))
        continue;
      RengaCall(AddMessageUse(table, node->in[i], stage,
                              value->differentiable && NodeLeads(table, node)));
    }
  }
  return RENGA_SUCCESS;
}

static int CompareMessageUses(const void *a, const void *b)
{
  const MessageUse *x = a, *y = b;
  return x->value != y->value ? (x->value > y->value) - (x->value < y->value)
                              : (x->stage > y->stage) - (x->stage < y->stage);
}

/* The rows of one value, whose uses are use[0 … count-1] by ascending stage. Returns how many. */
static int WriteMessageRows(const UseTable *table, const MessageUse use[], int count,
                            int64_t microbatch, RengaMessage rows[])
{
  const RengaGraphValue *value = RengaGraphGetValue(table->graph, use[0].value);
  const RengaTensorSpec spec = RengaGraphStoredAt(value, microbatch);
  int64_t bytes = (int64_t)RengaTensorSpecBytes(&spec);
  int producer = RengaPlanStageOfNode(table->plan, value->producer), n = 0, from = -1;
  for (int i = 0; i < count; i++)
    rows[n++] = (RengaMessage){value->name, producer, use[i].stage, false, bytes};
  for (int i = count - 1; i >= 0; i--) {
    if (!use[i].leads) continue;
    if (from >= 0) rows[n++] = (RengaMessage){value->name, from, use[i].stage, true, bytes};
    from = use[i].stage;
  }
  if (from >= 0) rows[n++] = (RengaMessage){value->name, from, producer, true, bytes};
  return n;
}

static RengaErrorCode BuildMessages(UseTable *table, int *count, RengaMessage **messages)
{
  int n = 0;
  int64_t batch, microbatch;
  RengaValue loss = RENGA_VALUE_NONE;
  RengaCall(RengaGraphGetLoss(table->graph, &loss));
  RengaCall(RengaPlanGetBatch(table->plan, &batch, &microbatch));
  RengaCall(RengaGraphGetRows_Private(table->graph, &table->rows));
  RengaCall(RengaMalloc(RengaGraphGetValueCount(table->graph) + 1, &table->leads));
  RengaCall(RengaMalloc(RengaGraphGetValueCount(table->graph) + 1, &table->last_use));
  for (int v = 0; v < RengaGraphGetValueCount(table->graph); v++) table->last_use[v] = -1;
  MarkLeading(table, loss);
  RengaCall(FindUses(table));
  if (table->count) qsort(table->use, (size_t)table->count, sizeof *table->use, CompareMessageUses);
  RengaCall(RengaMalloc(2 * table->count + 1, messages));
  for (int i = 0, j; i < table->count; i = j) {
    for (j = i + 1; j < table->count && table->use[j].value == table->use[i].value; j++) continue;
    n += WriteMessageRows(table, table->use + i, j - i, microbatch, *messages + n);
  }
  *count = n;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetMessages - what crosses between the stages of a plan for every micro-batch

   Input:
   . plan - the plan, with its stages and batch
   . graph - its network

   Output:
   . count - the number of rows, at least 0
   . messages - the rows, by value; the names are the graph's; to be freed with RengaFree

   Errors: RENGA_ERR_ORDER where the plan has no stages; RENGA_ERR_PLAN for a plan of another
   network.

   Notes: prepared values, parameters, and inputs do not cross. Gradients go back only for values on
   which the loss depends differentiably, along the chain of the stages with such a use.

   See also: RengaScheduleSetPlan()
@*/
RengaErrorCode RengaPlanGetMessages(RengaPlan plan, RengaGraph graph, int *count,
                                    RengaMessage **messages)
{
  UseTable table = {.plan = plan, .graph = graph};
  RengaMessage *rows = NULL;
  int n_rows = 0;
  RengaCheckPointers(plan, graph, count, messages);
  RengaCall(RengaPlanCheck(plan, graph, 0));
  RengaErrorCode code = BuildMessages(&table, &n_rows, &rows);
  RengaFree(&table.use);
  RengaFree(&table.last_use);
  RengaFree(&table.leads);
  if (code) RengaFree(&rows);
  RengaCall(code);
  *count = n_rows;
  *messages = rows;
  return RENGA_SUCCESS;
}
