/* Tables that are updated by rows: parameters that one node gathers rows of and nothing else reads,
   where the rows of a batch with their numbers are fewer bytes than the table
   (RengaOptimizerSetSparse). Network, settings and batch decide it: it is so in any plan. */
#include "renga/private/optimizer.h"
#include "renga/private/settings.h"
#include <string.h>

enum { TABLE_ROWS_MOST = INT32_MAX };

int64_t RengaTablePositions_Private(RengaGraph graph, const RengaGraphNode *gather, int64_t samples)
{
  const RengaTensorSpec spec =
      RengaTensorSpecAt(&RengaGraphGetValue(graph, gather->in[1])->spec, samples);
  return RengaTensorSpecCount(&spec);
}

/* The value is a parameter that is trained, of which, or of a part of which, the node has rows. */
static bool IsTableOf(RengaGraph graph, const RengaGraphNode *gather, RengaValue value)
{
  const RengaGraphValue *table = RengaGraphGetValue(graph, value);
  const RengaDataType type = RengaGraphGetValue(graph, gather->in[1])->spec.type;
  const int64_t axis = RengaAttributesInt(&gather->attributes, "axis", 0);
  return table->kind == RENGA_VALUE_PARAMETER && !table->frozen &&
         (axis == 0 || axis + table->spec.ndim == 0) &&
         (type == RENGA_INT64 || type == RENGA_INT32) && table->stored == RENGA_FLOAT32;
}

/* The node reads rows of its first input, a parameter that is trained. */
static bool GathersTableRows(RengaGraph graph, const RengaGraphNode *node)
{
  if (strcmp(node->op->name, "Gather") != 0) return false;
  return IsTableOf(graph, node, node->in[0]);
}

/* The rows that the node gathers of the table for a batch are fewer bytes than the table. */
static bool IsWorthRows(RengaGraph graph, const RengaGraphNode *gather, RengaValue value,
                        int64_t batch)
{
  const RengaTensorSpec *table = &RengaGraphGetValue(graph, value)->spec;
  const RengaDataType type = RengaGraphGetValue(graph, gather->in[1])->spec.type;
  const int64_t count = RengaTensorSpecCount(table);
  const int64_t positions = RengaTablePositions_Private(graph, gather, batch);
  const int64_t size = (int64_t)RengaDataTypeSize(RENGA_FLOAT32);
  if (count == 0 || positions > TABLE_ROWS_MOST || table->dim[0] > TABLE_ROWS_MOST) return false;
  const int64_t row = count / table->dim[0] * size + (int64_t)RengaDataTypeSize(type);
  return positions * row < count * size;
}

/* uses: [values] zero. */
static void CountTableUses(RengaGraph graph, int uses[])
{
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] != RENGA_VALUE_NONE) uses[node->in[i]]++;
  }
}

/* A table that would be updated by rows, were it not in lanes; NONE: there is none. */
static RengaValue FindTableInLanes(RengaGraph graph, const int uses[], int64_t batch)
{
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (strcmp(node->op->name, "Gather") != 0 || !node->lane) continue;
    const int maker = RengaGraphGetValue(graph, node->in[0])->producer;
    if (maker < 0 || RengaAttributesInt(&node->attributes, "rows", 0) == 0) continue;
    const RengaValue table = RengaGraphGetNode(graph, maker)->in[0];
    if (uses[table] == 1 && IsTableOf(graph, node, table) && IsWorthRows(graph, node, table, batch))
      return table;
  }
  return RENGA_VALUE_NONE;
}

static RengaErrorCode CheckNoneInLanes(RengaGraph graph, const int uses[], int64_t batch,
                                       RengaSparse mode)
{
  const RengaValue table = FindTableInLanes(graph, uses, batch);
  RengaCheck(table == RENGA_VALUE_NONE, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "-optimizer_sparse %s does not go with rows of %s in lanes yet: give -graph_lanes 1, "
             "or have the node that looks them up whole (-graph_split NODE:whole)",
             RengaSparseName(mode), RengaGraphGetValue(graph, table)->name);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsFindTables_Private(RengaSettings settings, RengaGraph graph,
                                               int64_t batch, int **tables)
{
  const int n_values = RengaGraphGetValueCount(graph);
  RengaSparse mode;
  int *uses = NULL, *made = NULL;
  *tables = NULL;
  RengaCall(RengaOptimizerGetSparse(settings->optimizer, &mode));
  if (mode == RENGA_SPARSE_OFF) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(n_values + 1, &made));
  RengaErrorCode code = RengaMalloc(n_values + 1, &uses);
  if (!code) CountTableUses(graph, uses);
  if (!code) code = CheckNoneInLanes(graph, uses, batch, mode);
  for (int n = 0; n < RengaGraphGetNodeCount(graph) && !code; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (GathersTableRows(graph, node) && uses[node->in[0]] == 1 &&
        IsWorthRows(graph, node, node->in[0], batch))
      made[node->in[0]] = 1 + n;
  }
  RengaFree(&uses);
  if (code) RengaFree(&made);
  RengaCall(code);
  *tables = made;
  return RENGA_SUCCESS;
}
