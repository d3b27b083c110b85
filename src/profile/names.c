/* Names of nodes in files of costs. */
#include "names.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *name;
  int node;
} NamedCost;

static int CompareNamed(const void *a, const void *b)
{
  const NamedCost *x = a, *y = b;
  const int order = strcmp(x->name, y->name);
  return order ? order : (x->node > y->node) - (x->node < y->node);
}

static const char *NameOfOutput(RengaGraph graph, int n)
{
  return RengaGraphGetValue(graph, RengaGraphGetNode(graph, n)->out[0])->name;
}

RengaErrorCode RengaProfileNamesCreate_Private(RengaGraph graph, ProfileNames *names)
{
  NamedCost *row = NULL;
  const int count = RengaGraphGetNodeCount(graph);
  names->count = count;
  RengaCall(RengaMalloc(count + 1, &names->of_node));
  RengaCall(RengaMalloc(count + 1, &names->sorted));
  RengaCall(RengaMalloc(count + 1, &row));
  for (int n = 0; n < count; n++) row[n] = (NamedCost){RengaGraphGetNode(graph, n)->name, n};
  qsort(row, (size_t)count, sizeof *row, CompareNamed);
  for (int i = 0; i < count; i++) {
    const bool shared = (i > 0 && strcmp(row[i - 1].name, row[i].name) == 0) ||
                        (i + 1 < count && strcmp(row[i + 1].name, row[i].name) == 0);
    names->of_node[row[i].node] = shared ? NameOfOutput(graph, row[i].node) : row[i].name;
  }
  for (int n = 0; n < count; n++) row[n] = (NamedCost){names->of_node[n], n};
  qsort(row, (size_t)count, sizeof *row, CompareNamed);
  for (int i = 0; i < count; i++) names->sorted[i] = row[i].node;
  RengaFree(&row);
  return RENGA_SUCCESS;
}

void RengaProfileNamesFree_Private(ProfileNames *names)
{
  RengaFree(&names->of_node);
  RengaFree(&names->sorted);
}

int RengaProfileNamesFind_Private(const ProfileNames *names, const char *name, const char **closest)
{
  int low = 0, high = names->count - 1;
  while (low <= high) {
    const int middle = low + (high - low) / 2;
    const int order = strcmp(name, names->of_node[names->sorted[middle]]);
    if (order == 0) return names->sorted[middle];
    if (order < 0)
      high = middle - 1;
    else
      low = middle + 1;
  }
  *closest = RengaClosestName(name, names->count, names->of_node);
  return -1;
}
