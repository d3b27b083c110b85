/* Values of the network as the search sees them. */
#include "search.h"
#include <string.h>

bool RengaSearchCrossesCuts_Private(const RengaGraphValue *value)
{
  return value->kind == RENGA_VALUE_ACTIVATION && !value->prepared && value->producer >= 0;
}

/* A reshape lies in the memory of what it reshapes. */
RengaValue RengaSearchRootOf_Private(RengaGraph graph, RengaValue value)
{
  for (;;) {
    const RengaGraphValue *view = RengaGraphGetValue(graph, value);
    if (!RengaSearchCrossesCuts_Private(view)) return value;
    const RengaGraphNode *node = RengaGraphGetNode(graph, view->producer);
    if (strcmp(node->op->name, "Reshape")) return value;
    value = node->in[0];
  }
}

double RengaSearchBytesOf_Private(const RengaGraphValue *value, int64_t microbatch)
{
  const RengaTensorSpec spec = RengaGraphStoredAt(value, microbatch);
  return (double)RengaTensorSpecBytes(&spec);
}
