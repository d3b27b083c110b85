/* Layers that are alike: the longest run of nodes that repeats itself. */
#include "tensorimpl.h"
#include <string.h>

enum { PERIOD_MOST = 4096 };

/* What a node is, with its distance to the makers of what it reads. Equal: for all that matters
   here one may stand for the other. */
static uint64_t HashInput(RengaGraph graph, int n, RengaValue value, uint64_t hash)
{
  if (value < 0) return RengaHash(&value, sizeof value, hash);
  const RengaGraphValue *what = RengaGraphGetValue(graph, value);
  int64_t key[3] = {(int64_t)what->kind, 0, 0};
  if (what->producer >= 0) {
    const RengaGraphNode *maker = RengaGraphGetNode(graph, what->producer);
    key[1] = n - what->producer;
    for (int o = 0; o < maker->n_out; o++)
      if (maker->out[o] == value) key[2] = o;
  }
  return RengaTensorSpecHash(1, &what->spec, RengaHash(key, sizeof key, hash));
}

static uint64_t HashPlace(RengaGraph graph, int n)
{
  const RengaGraphNode *node = RengaGraphGetNode(graph, n);
  uint64_t hash = RengaHash(node->op->name, strlen(node->op->name), 0);
  hash = RengaAttributesHash(&node->attributes, "key", hash);
  for (int i = 0; i < node->n_in; i++) hash = HashInput(graph, n, node->in[i], hash);
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0)
      hash = RengaTensorSpecHash(1, &RengaGraphGetValue(graph, node->out[o])->spec, hash);
  return hash;
}

/* The longest run of nodes that are as those a period later. */
static int LongestRun(int nodes, const uint64_t hash[], int period, int *first)
{
  int best = 0, run = 0;
  for (int n = 0; n + period < nodes; n++) {
    run = hash[n] == hash[n + period] ? run + 1 : 0;
    if (run > best) {
      best = run;
      *first = n - run + 1;
    }
  }
  return best;
}

/* What stands behind the layers reads of the last of them only. */
static bool IsChain(RengaGraph graph, const TensorRepeat *repeat)
{
  const int end = repeat->first + repeat->period * repeat->count, last = end - repeat->period;
  for (int n = end; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    for (int i = 0; i < node->n_in; i++) {
      const int producer = node->in[i] < 0 ? -1 : RengaGraphGetValue(graph, node->in[i])->producer;
      if (producer >= repeat->first && producer < last) return false;
    }
  }
  return true;
}

RengaErrorCode RengaTensorFindRepeat_Private(RengaGraph graph, TensorRepeat *repeat)
{
  const int nodes = RengaGraphGetNodeCount(graph);
  uint64_t *hash = NULL;
  *repeat = (TensorRepeat){nodes, 1, 0};
  RengaCall(RengaMalloc(nodes + 1, &hash));
  for (int n = 0; n < nodes; n++) hash[n] = HashPlace(graph, n);
  for (int period = 2, covered = 0; period <= nodes / 2 && period <= PERIOD_MOST; period++) {
    int first = 0;
    const int count = (LongestRun(nodes, hash, period, &first) + period) / period;
    if (count < 2 || count * period <= covered) continue;
    covered = count * period;
    *repeat = (TensorRepeat){first, period, count};
  }
  RengaFree(&hash);
  if (repeat->count && !IsChain(graph, repeat)) *repeat = (TensorRepeat){nodes, 1, 0};
  return RENGA_SUCCESS;
}
