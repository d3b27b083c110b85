/* renga info: which values of a network are trained, tied, frozen, constant. */
#include "app.h"
#include <string.h>

enum { TRAINED, TIED, FROZEN, NO_GRADIENT, STATES, CONSTANTS, N_GROUPS, NAMES_SHOWN = 3 };
static const char *const titles[N_GROUPS] = {
    "trained", "trained, several uses", "frozen", "the loss does not need", "running statistics",
    "constant"};

typedef struct {
  RengaGraph graph;
  int *uses;  /* by value: gradients that it gets */
  int *group; /* by value; -1: of none */
  bool has_loss;
} ParameterTable;

/* Constants that conversions make have no name of the file. */
static bool IsNamed(const RengaGraphValue *value)
{
  const char *slash = strrchr(value->name, '/');
  return strncmp(slash ? slash + 1 : value->name, "constant", 8) != 0;
}

static int FindParameterGroup(const ParameterTable *table, RengaValue v)
{
  const RengaGraphValue *value = RengaGraphGetValue(table->graph, v);
  if (value->kind == RENGA_VALUE_STATE) return value->whole == RENGA_VALUE_NONE ? STATES : -1;
  if (value->kind == RENGA_VALUE_CONSTANT)
    return IsNamed(value) && RengaDataTypeIsFloating(value->spec.type) ? CONSTANTS : -1;
  if (value->kind != RENGA_VALUE_PARAMETER) return -1;
  if (value->frozen) return FROZEN;
  if (table->has_loss && table->uses[v] == 0) return NO_GRADIENT;
  return table->uses[v] > 1 ? TIED : TRAINED;
}

/* What reverse mode gives gradients to: also what it refuses, before any training. */
static RengaErrorCode CountParameterUses(ParameterTable *table)
{
  RengaGraph copy = NULL;
  const RengaParameterUse *use;
  int count = 0;
  RengaCall(RengaGraphGetSubgraph(table->graph, 0, RengaGraphGetNodeCount(table->graph), &copy));
  RengaErrorCode code = RengaGraphDifferentiate(copy, 0, NULL, NULL, 0, NULL, NULL);
  if (code == RENGA_SUCCESS) code = RengaGraphGetParameterUses(copy, &count, &use);
  for (int i = 0; i < count; i++)
    table->uses[RengaGraphFindValue(table->graph,
                                    RengaGraphGetValue(copy, use[i].parameter)->name)]++;
  RengaGraphDestroy(&copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintGroup(MPI_Comm printer, const ParameterTable *table, int group)
{
  int tensors = 0;
  int64_t elements = 0;
  char names[256] = "", number[32], more[32] = "";
  for (int v = 0; v < RengaGraphGetValueCount(table->graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(table->graph, v);
    size_t used = strlen(names);
    if (table->group[v] != group) continue;
    elements += RengaTensorSpecCount(&value->spec);
    if (tensors++ < NAMES_SHOWN)
      snprintf(names + used, sizeof names - used, "%s%.60s", used ? ", " : "", value->name);
  }
  if (tensors == 0) return RENGA_SUCCESS;
  RengaFormatCount((double)elements, sizeof number, number);
  if (tensors > NAMES_SHOWN) snprintf(more, sizeof more, " and %d more", tensors - NAMES_SHOWN);
  RengaCall(RengaPrintf(printer, "  %-24s %8d %14s  %s%s\n", titles[group], tensors, number, names,
                        more));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintList(MPI_Comm printer, const ParameterTable *table)
{
  char text[128];
  RengaCall(RengaPrintf(printer, "\n"));
  for (int v = 0; v < RengaGraphGetValueCount(table->graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(table->graph, v);
    if (table->group[v] < 0) continue;
    RengaTensorSpecFormat(&value->spec, sizeof text, text);
    RengaCall(
        RengaPrintf(printer, "  %-24s %-40s %s\n", titles[table->group[v]], value->name, text));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FillAndPrint(MPI_Comm printer, ParameterTable *table)
{
  bool list = false;
  RengaCall(RengaOptionsGetBool("info_parameters", &list, NULL));
  if (table->has_loss) RengaCall(CountParameterUses(table));
  for (int v = 0; v < RengaGraphGetValueCount(table->graph); v++)
    table->group[v] = FindParameterGroup(table, v);
  RengaCall(RengaPrintf(printer, "\n  %-24s %8s %14s\n", "what is trained", "tensors", "elements"));
  for (int group = 0; group < N_GROUPS; group++) RengaCall(PrintGroup(printer, table, group));
  if (list) RengaCall(PrintList(printer, table));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPrintParameters(MPI_Comm printer, RengaGraph graph)
{
  ParameterTable table = {.graph = graph};
  RengaValue loss;
  const int count = RengaGraphGetValueCount(graph);
  RengaCall(RengaGraphGetLoss(graph, &loss));
  table.has_loss = loss >= 0;
  RengaErrorCode code = RengaMalloc(count + 1, &table.uses);
  if (code == RENGA_SUCCESS) code = RengaMalloc(count + 1, &table.group);
  if (code == RENGA_SUCCESS) code = FillAndPrint(printer, &table);
  RengaFree(&table.uses);
  RengaFree(&table.group);
  RengaCall(code);
  return RENGA_SUCCESS;
}
