/* What of a network depends on the samples that are trained together, the micro-batch: statistics
   of BatchNormalization. All else is a function of single samples, or a sum over the batch. */
#include "graphimpl.h"
#include "renga/private/lane.h"
#include <string.h>

static RengaStatisticsSize SizeOfChannel(const RengaTensorSpec *x)
{
  const bool batch = RengaGraphBatchDimension(x) == 0;
  int64_t values = batch ? -x->dim[0] : x->dim[0];
  for (int d = 2; d < x->ndim; d++) values *= x->dim[d];
  return (RengaStatisticsSize){.sample = batch ? values : 0, .whole = batch ? 0 : values};
}

static RengaStatisticsSize SizeOfJoin(const RengaGraphNode *node)
{
  int lanes;
  int64_t values = 0;
  const int64_t *rows = RengaAttributesInts(&node->attributes, "lane_rows", &lanes);
  for (int l = 0; l < lanes; l++)
    values += rows[l] * RengaAttributesInt(&node->attributes, "row_values", 1);
  return (RengaStatisticsSize){.sample = values};
}

/* Of how many values each statistic of a node is in training; 0: it takes none. */
RengaStatisticsSize RengaGraphStatisticsOf(RengaGraph graph, const RengaGraphNode *node)
{
  const RengaStatisticsSize none = {0};
  if (!strcmp(node->op->name, "BatchNormalizationJoin")) return SizeOfJoin(node);
  const bool relu = !strcmp(node->op->name, "BatchNormalizationRelu");
  if (!relu && strcmp(node->op->name, "BatchNormalization") != 0) return none;
  if (node->n_out < 3) return none;
  if (!RengaAttributesInt(&node->attributes, "training", 1)) return none;
  return SizeOfChannel(RengaGraphSpec(graph, node->in[0]));
}

/*@
   RengaGraphGetBatchStatistics - whether the results of training depend on the micro-batch

   Input:
   . graph - the graph, set up

   Output:
   . count - the number of nodes that take statistics over the samples of a micro-batch:
     BatchNormalization in training, not in evaluation; one in lanes is one. 0: the results do not
     depend on how a batch is cut
   . node - the one whose statistics are of the fewest values; -1: there is none
   . values - values of a channel of one sample in these, at least 0; a micro-batch has as many
     times more as samples

   Errors: RENGA_ERR_ORDER before RengaGraphSetUp.

   Notes: a network read for a whole batch (RengaGraphSetWholeBatch) has none, as it is never cut. A
   partition to which nobody gives a micro-batch takes the whole batch as one where count is not 0.

   See also: RengaPartitionSetBatch()
@*/
RengaErrorCode RengaGraphGetBatchStatistics(RengaGraph graph, int *count, int *node,
                                            int64_t *values)
{
  RengaCheckPointers(graph, count, node, values);
  RengaCheckState(graph, RENGA_STATE_SETUP, "RengaGraphSetUp");
  *count = 0;
  *node = -1;
  *values = 0;
  for (int n = 0; n < graph->n_nodes; n++) {
    const int lane = RengaLaneNumber(graph->entry[n]->node.lane, RENGA_LANES_OF_HEADS);
    const int64_t own = RengaGraphStatisticsOf(graph, &graph->entry[n]->node).sample;
    *count += own > 0 && lane <= 0; /* lanes have parts of one */
    if (own <= 0 || (*node >= 0 && own >= *values)) continue;
    *node = n;
    *values = own;
  }
  return RENGA_SUCCESS;
}
