/* Which parameters are trained: patterns of -graph_trained, then those of -graph_frozen; of a
   network with adapters, these. */
#include "graphimpl.h"
#include "renga/private/pattern.h"
#include <string.h>

enum { PATTERNS_MAX = 64, PATTERN_SIZE = RENGA_GRAPH_PATTERN };

/* The next pattern of a list that is separated by commas; false at the end. */
bool RengaGraphNextPattern(const char **list, char pattern[PATTERN_SIZE])
{
  const char *text = *list + strspn(*list, ", ");
  size_t length = strcspn(text, ",");
  snprintf(pattern, PATTERN_SIZE, "%.*s", (int)(length < PATTERN_SIZE ? length : 0), text);
  *list = text + length;
  return length > 0;
}

/* Does one of the patterns fit? Those that do are remembered. */
static bool FitsChoice(const char *list, uint64_t *fitted, const char *name)
{
  char pattern[PATTERN_SIZE];
  bool fits = false;
  for (int i = 0; list && RengaGraphNextPattern(&list, pattern); i++) {
    if (!RengaIsMatch(pattern, name)) continue;
    *fitted |= UINT64_C(1) << (i < PATTERNS_MAX ? i : PATTERNS_MAX - 1);
    fits = true;
  }
  return fits;
}

static RengaGraphChoice ChooseByPatterns(RengaGraph graph, const char *name)
{
  bool frozen = FitsChoice(graph->options.frozen, &graph->fitted[RENGA_GRAPH_OF_FROZEN], name);
  if (FitsChoice(graph->options.trained, &graph->fitted[RENGA_GRAPH_OF_TRAINED], name))
    return RENGA_GRAPH_TRAINED;
  return frozen ? RENGA_GRAPH_FROZEN : RENGA_GRAPH_UNSAID;
}

/* While a file is read: adapters, which take the place of its parameters, are not there yet. */
RengaGraphChoice RengaGraphChoose_Private(RengaGraph graph, const char *name)
{
  const RengaGraphChoice choice = ChooseByPatterns(graph, name);
  return choice == RENGA_GRAPH_UNSAID && RengaGraphHasAdapters(graph) ? RENGA_GRAPH_FROZEN : choice;
}

RengaErrorCode RengaGraphFreeze_Private(RengaGraph graph, RengaValue parameter)
{
  RengaCall(RengaGraphCheckValue(graph, parameter));
  graph->value[parameter]->frozen = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAllFit(RengaGraph graph, const char *option, const char *list,
                                  uint64_t fitted)
{
  char pattern[PATTERN_SIZE];
  for (int i = 0; list && RengaGraphNextPattern(&list, pattern); i++)
    RengaCheck(i >= PATTERNS_MAX || fitted >> i & 1, graph->hdr.comm, RENGA_ERR_OPTION,
               "%s: \"%s\" fits no parameter of the network", option, pattern);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphChooseTrained(RengaGraph graph)
{
  for (int i = 0; i < graph->n_values; i++) {
    RengaGraphValue *value = graph->value[i];
    if (value->kind != RENGA_VALUE_PARAMETER) continue;
    const RengaGraphChoice choice = ChooseByPatterns(graph, value->name);
    if (choice != RENGA_GRAPH_UNSAID)
      value->frozen = choice == RENGA_GRAPH_FROZEN;
    else if (RengaGraphHasAdapters(graph))
      value->frozen = value->adapter == RENGA_ADAPTER_NONE;
  }
  RengaCall(CheckAllFit(graph, "-graph_trained", graph->options.trained,
                        graph->fitted[RENGA_GRAPH_OF_TRAINED]));
  RengaCall(CheckAllFit(graph, "-graph_frozen", graph->options.frozen,
                        graph->fitted[RENGA_GRAPH_OF_FROZEN]));
  return RENGA_SUCCESS;
}
