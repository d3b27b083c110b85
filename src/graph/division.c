/* The parts of a divided network while they are built: whose turn it is, names, inputs that all
   share, what each of them ends with. */
#include "division.h"

enum { MOST_PARTS = 256 };
static const double most_weight = 1e6;

#define AT(member) offsetof(RengaGraphDivision, member)
static const RengaOptionRow rows[] = {
    {"graph_divide", RENGA_OPTION_INT64, "1", AT(parts), NULL, 1, MOST_PARTS,
     "narrow networks trained together in place of one (FedDCT); 1: the network itself"},
    {"graph_divide_weight", RENGA_OPTION_REAL, "0.5", AT(weight), NULL, 0, 1e6,
     "-graph_divide: weight of the Jensen-Shannon divergence between the networks in the loss"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };
static const RengaGraphDivision undivided = {.parts = 1, .weight = 0.5};

RengaErrorCode RengaGraphRegisterDivision(void)
{
  RengaCall(RengaOptionsRegister("Graph", N_ROWS, rows));
  return RENGA_SUCCESS;
}

static RengaErrorCode HaveParts(RengaGraph graph)
{
  if (graph->parts) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, &graph->parts));
  graph->parts->division = undivided;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphReadDivision(RengaGraph graph)
{
  RengaCall(HaveParts(graph));
  RengaCall(RengaOptionsSetFromDatabase(graph->hdr.prefix, N_ROWS, rows, &graph->parts->division));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphCopyDivision(RengaGraph from, RengaGraph to)
{
  if (!from->parts) return RENGA_SUCCESS;
  RengaCall(HaveParts(to));
  to->parts->division = from->parts->division;
  return RENGA_SUCCESS;
}

void RengaGraphFreeDivision(RengaGraph graph)
{
  RengaFree(&graph->parts);
}

/* ---- names of a part ---- */
RengaErrorCode RengaGraphNameOfPart(RengaGraph graph, const char **name, size_t size, char text[])
{
  const RengaGraphParts *parts = graph->parts;
  if (!*name || !parts || !parts->building) return RENGA_SUCCESS;
  const int length = snprintf(text, size, "%s%s", parts->prefix, *name);
  RengaCheck(length >= 0 && (size_t)length < size, MPI_COMM_SELF, RENGA_ERR_GRAPH,
             "the name %.40s… is too long", *name);
  *name = text;
  return RENGA_SUCCESS;
}

bool RengaGraphIsPart(RengaGraph graph)
{
  return graph->parts && graph->parts->building;
}

/* ---- the end of a part ---- */
RengaErrorCode RengaGraphFinishPart(RengaGraph graph, RengaValue loss, RengaValue scores, bool *is)
{
  RengaGraphParts *parts = graph->parts;
  *is = parts && parts->building;
  if (!*is) return RENGA_SUCCESS;
  parts->loss[parts->done] = loss;
  parts->scores[parts->done++] = scores;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphRefuseParts(RengaGraph graph, const char *file)
{
  RengaCheck(!graph->parts || graph->parts->division.parts <= 1, graph->hdr.comm, RENGA_ERR_SUPPORT,
             "-graph_divide %lld: %s is a file, whose widths are fixed; gpt, mlp, resnet and "
             "folders of vit can be divided",
             (long long)graph->parts->division.parts, file);
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetDivision - train several narrow networks together in place of one

   Input:
   . graph - the graph, before RengaGraphLoad
   . division - parts: how many, 1: the network is not divided; weight: of their divergence

   Options:
   . -graph_divide S, -graph_divide_weight W - likewise

   Errors: RENGA_ERR_ARGUMENT for a number outside of its range; RENGA_ERR_ORDER for a graph that is
   not empty; of RengaGraphLoad, RENGA_ERR_SUPPORT for a network that cannot be divided.

   Notes: each part is the network that was named, with its widths divided by the root of S: the
   factor of channels of resnet, the hidden layers of mlp, the width of gpt and of vit, whose heads
   are fewer where their number can be divided, and the feed-forward layers. Inputs are shared, and
   names of a part begin with models.0., models.1. and so on. The loss is the sum of the parts'
   losses and W times the Jensen-Shannon divergence, 1/S of the sum over parts and classes of
   p (log p - log mean p), its mean over the labels that count. The outputs are the loss and
   mean_of_parts, the logarithm of the mean probability (Zhao et al., IEEE TIP 2022; Nguyen et al.,
   IEEE TNSM 2023). Parts follow each other, so that a stage may have one.

   See also: RengaGraphGetDivision(), RengaGraphLoad()
@*/
RengaErrorCode RengaGraphSetDivision(RengaGraph graph, const RengaGraphDivision *division)
{
  RengaCheckPointers(graph, division);
  RengaCheck(division->parts >= 1 && division->parts <= MOST_PARTS, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "a network in %lld parts: must be from 1 to %d",
             (long long)division->parts, MOST_PARTS);
  RengaCheck(division->weight >= 0 && division->weight <= most_weight, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "a divergence with weight %g: must be from 0 to %g",
             division->weight, most_weight);
  RengaCheck(graph->n_values == 0 && graph->hdr.state == RENGA_STATE_NEW, MPI_COMM_SELF,
             RENGA_ERR_ORDER, "RengaGraphSetDivision: call it before RengaGraphLoad");
  RengaCall(HaveParts(graph));
  graph->parts->division = *division;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetDivision - the parts that a network is divided in

   Output:
   . division - parts: 1 where it is not divided
@*/
RengaErrorCode RengaGraphGetDivision(RengaGraph graph, RengaGraphDivision *division)
{
  RengaCheckPointers(graph, division);
  *division = graph->parts ? graph->parts->division : undivided;
  return RENGA_SUCCESS;
}
