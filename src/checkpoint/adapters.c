/* Adapters in checkpoints, an attribute as "8 16 0.05 0 *": rank, alpha, dropout, how many other
   parameters are trained, and the layers whose weights are stored [inputs, outputs]: all, or their
   names with commas. Files of networks without adapters have none. */
#include "adapters.h"
#include "renga/private/number.h"
#include <stdlib.h>
#include <string.h>

static const char attribute_name[] = "adapters";
enum { MOST_LIST = 50000 }; /* an attribute of HDF5 has 64 KiB at most */

bool RengaCheckpointIsFactor_Private(const char *name, char layer[RENGA_ADAPTER_NAME])
{
  static const char *const ends[] = {".lora_A.weight", ".lora_B.weight"};
  const size_t length = strlen(name);
  for (int i = 0; i < 2; i++) {
    const size_t tail = strlen(ends[i]);
    if (length <= tail || strcmp(name + length - tail, ends[i]) != 0) continue;
    snprintf(layer, RENGA_ADAPTER_NAME, "%.*s", (int)(length - tail), name);
    return true;
  }
  return false;
}

bool RengaCheckpointIsTransposed_Private(const RengaCheckpointAdapters *adapters, const char *layer)
{
  const size_t length = strlen(layer);
  if (strcmp(adapters->transposed, "*") == 0) return true;
  for (const char *at = adapters->transposed; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, layer, length) == 0 && (at[length] == ',' || !at[length])) return true;
  }
  return false;
}

/* How many parameters of the network are what. */
typedef struct {
  int64_t factors, transposed, others;
} AdapterCounts;

static AdapterCounts CountAdapters(int count, const RengaPipelineParameter list[])
{
  AdapterCounts counts = {0};
  for (int i = 0; i < count; i++) {
    counts.factors += list[i].adapter != RENGA_ADAPTER_NONE;
    counts.transposed += list[i].adapter == RENGA_ADAPTER_TRANSPOSED;
    counts.others += list[i].adapter == RENGA_ADAPTER_NONE && !list[i].frozen;
  }
  return counts;
}

/* Both factors of a layer have the same mark: A stands for the layer. */
static RengaErrorCode ListTransposed(int count, const RengaPipelineParameter list[], char text[])
{
  char layer[RENGA_ADAPTER_NAME];
  size_t used = 0;
  for (int i = 0; i < count; i++) {
    if (list[i].adapter != RENGA_ADAPTER_TRANSPOSED || !strstr(list[i].name, ".lora_A.") ||
        !RengaCheckpointIsFactor_Private(list[i].name, layer))
      continue;
    RengaCheck(used + strlen(layer) + 2 < MOST_LIST, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "a checkpoint names at most %d bytes of layers with adapters of which some are "
               "stored transposed",
               MOST_LIST);
    used += (size_t)snprintf(text + used, MOST_LIST - used, "%s%s", used ? "," : "", layer);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DescribeAdapters(const RengaGraphLora *lora, int count,
                                       const RengaPipelineParameter list[], char text[])
{
  const AdapterCounts counts = CountAdapters(count, list);
  const int used = RengaTextFormat(text, MOST_LIST, "%lld %.17g %.17g %lld ", (long long)lora->rank,
                                   lora->alpha, lora->dropout, (long long)counts.others);
  if (counts.transposed == counts.factors)
    strcpy(text + used, "*");
  else
    RengaCall(ListTransposed(count, list, text + used));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointKeepAdapters_Private(RengaPipeline pipeline,
                                                   RengaCheckpointTable *table)
{
  const RengaPipelineParameter *list;
  RengaGraph graph;
  RengaGraphLora lora = {.rank = 0};
  char *text = NULL;
  int count;
  RengaCall(RengaPipelineGetGraph(pipeline, &graph));
  if (graph) RengaCall(RengaGraphGetLora(graph, &lora));
  if (lora.rank == 0) return RENGA_SUCCESS;
  RengaCall(RengaPipelineListParameters(pipeline, &count, &list));
  RengaCall(RengaMalloc(2 * MOST_LIST, &text));
  RengaErrorCode code = DescribeAdapters(&lora, count, list, text);
  if (!code) code = RengaCheckpointTableSetAttribute(table, attribute_name, text);
  RengaFree(&text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointFindAdapters_Private(const char *path,
                                                   const RengaCheckpointTable *table,
                                                   RengaCheckpointAdapters *adapters)
{
  const char *text = RengaCheckpointTableGetAttribute(table, attribute_name);
  char *end = NULL;
  *adapters = (RengaCheckpointAdapters){.transposed = ""};
  if (!text) return RENGA_SUCCESS;
  adapters->rank = strtoll(text, &end, 10);
  adapters->alpha = RengaReadReal(end, &end);
  adapters->dropout = RengaReadReal(end, &end);
  adapters->others = strtoll(end, &end, 10);
  RengaCheck(
      adapters->rank > 0 && *end == ' ', MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
      "checkpoint %s: what it says of its adapters is \"%.60s\", not four numbers and a list", path,
      text);
  adapters->transposed = end + 1;
  return RENGA_SUCCESS;
}
