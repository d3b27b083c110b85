/* Reading the data set: an input is read, for each micro-batch, by the stage of the first node that
   computes with it. A stage further on that uses it too reads it again, which is not counted. */
#include "partitionimpl.h"
#include "renga/private/cost.h"
#include "search/search.h"
#include "renga/private/graph.h"
#include <string.h>

void RengaPartitionFreeReadings_Private(RengaPartition partition)
{
  for (int i = 0; i < partition->n_readings; i++) {
    RengaFree(&partition->reading[i].input);
    RengaFree(&partition->reading[i].data);
  }
  RengaFree(&partition->reading);
}

static int FindReading(RengaPartition partition, const char *input)
{
  int i = 0;
  while (i < partition->n_readings && strcmp(partition->reading[i].input, input)) i++;
  return i;
}

/*@
   RengaPartitionSetReadSeconds - say what reading the data set takes

   Collective

   Input:
   . partition - the partition, with its network
   . input - name of an input of the network
   . data - name of the data set; measured costs are kept by it
   . seconds - seconds for one sample of it, at least 0, on the rank that reads it; the number of
     rank 0 counts

   Errors: RENGA_ERR_ORDER without a network; RENGA_ERR_ARGUMENT for an input that it does not
   have, or a negative time.

   Notes: for types that weigh by time. It is counted in the stage of the first node that computes
   with the input, for each micro-batch. Of a measured profile the seconds that it was first given
   for such an input and data set count, so that the same plan results.
@*/
RengaErrorCode RengaPartitionSetReadSeconds(RengaPartition partition, const char *input,
                                            const char *data, double seconds)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(input);
  RengaCheckPointer(data);
  RengaCheck(partition->graph, partition->hdr.comm, RENGA_ERR_ORDER,
             "the partition has no network: call RengaPartitionSetGraph first");
  const RengaValue value = RengaGraphFindValue(partition->graph, input);
  RengaCheck(value >= 0 && RengaGraphGetValue(partition->graph, value)->kind == RENGA_VALUE_INPUT,
             partition->hdr.comm, RENGA_ERR_ARGUMENT, "the network has no input %s", input);
  RengaCheck(seconds >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT,
             "%g seconds to read a sample of %s: at least 0", seconds, input);
  const int i = FindReading(partition, input);
  if (i == partition->n_readings) {
    RengaCall(RengaRealloc(i + 1, &partition->reading));
    partition->reading[i] = (PartitionReading){0};
    RengaCall(RengaStringCopy(input, &partition->reading[i].input));
    partition->n_readings++;
  }
  RengaFree(&partition->reading[i].data);
  RengaCall(RengaStringCopy(data, &partition->reading[i].data));
  partition->reading[i].seconds = seconds;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetReadSeconds - what reading the data set takes

   Input:
   . input - name of an input of the network

   Output:
   . seconds - seconds for one sample of it; 0 where nothing was said
@*/
RengaErrorCode RengaPartitionGetReadSeconds(RengaPartition partition, const char *input,
                                            double *seconds)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(input);
  RengaCheckPointer(seconds);
  const int i = FindReading(partition, input);
  *seconds = i < partition->n_readings ? partition->reading[i].seconds : 0;
  return RENGA_SUCCESS;
}

static bool Uses(const RengaGraphNode *node, const bool holds[])
{
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] >= 0 && holds[node->in[i]]) return true;
  return false;
}

/* The first node that is not prepared and uses the input, or what prepared nodes make of it; -1:
   there is none. holds: [values] scratch. */
static int FirstUse(RengaGraph graph, RengaValue input, bool holds[])
{
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++) holds[v] = v == input;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (!Uses(node, holds)) continue;
    if (!RengaGraphNodeIsPrepared_Private(graph, node)) return n;
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] >= 0) holds[node->out[o]] = true;
  }
  return -1;
}

/* What the profile keeps of it. */
static RengaErrorCode KeptSeconds(RengaProfile profile, RengaGraph graph,
                                  const PartitionReading *reading, double *seconds)
{
  char name[512], shape[128];
  const RengaValue value = RengaGraphFindValue(graph, reading->input);
  RengaTensorSpecFormat(&RengaGraphGetValue(graph, value)->spec, sizeof shape, shape);
  snprintf(name, sizeof name, "reading a sample of %.100s, %s, of %.200s", reading->input, shape,
           reading->data);
  *seconds = reading->seconds;
  RengaCall(RengaProfileKeepSeconds(profile, name, seconds));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchAddReading_Private(RengaPartition partition, RengaProfile profile,
                                             int64_t samples, RengaProfileCost costs[])
{
  RengaGraph graph = partition->graph;
  bool *holds = NULL;
  RengaErrorCode code =
      RengaErrorAgree(partition->hdr.comm, RengaMalloc(RengaGraphGetValueCount(graph) + 1, &holds));
  for (int i = 0; i < partition->n_readings && !code; i++) {
    const PartitionReading *reading = &partition->reading[i];
    const int node = FirstUse(graph, RengaGraphFindValue(graph, reading->input), holds);
    double seconds = 0;
    code = KeptSeconds(profile, graph, reading, &seconds);
    if (node >= 0) costs[node].forward += (double)samples * seconds;
  }
  RengaFree(&holds);
  RengaCall(code);
  return RENGA_SUCCESS;
}
