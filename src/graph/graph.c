/* The graph: its life, and the memory of its algorithms. */
#include "graphimpl.h"
#include <string.h>

RengaErrorCode RengaGraphAllocateScratch(RengaGraph graph, int64_t count, size_t size,
                                         void *pointer_to_pointer)
{
  char *memory = NULL;
  if ((graph->n_scratch & (graph->n_scratch - 1)) == 0) /* room for twice as many */
    RengaCall(RengaRealloc(graph->n_scratch ? 2 * graph->n_scratch : 1, &graph->scratch));
  RengaCall(RengaMalloc((size_t)(count > 0 ? count : 1) * size, &memory));
  graph->scratch[graph->n_scratch++] = memory;
  memcpy(pointer_to_pointer, &memory, sizeof memory);
  return RENGA_SUCCESS;
}

void RengaGraphFreeScratch(RengaGraph graph)
{
  for (int i = 0; i < graph->n_scratch; i++) RengaFree(&graph->scratch[i]);
  RengaFree(&graph->scratch);
  graph->n_scratch = 0;
}

static RengaErrorCode DestroyGraph(void *object)
{
  RengaGraph graph = object;
  RengaGraphFreeScratch(graph);
  for (int i = 0; i < graph->n_values; i++) RengaGraphFreeValue(&graph->value[i]);
  for (int i = 0; i < graph->n_nodes; i++) RengaGraphFreeEntry(&graph->entry[i]);
  RengaFree(&graph->value);
  RengaFree(&graph->entry);
  RengaFree(&graph->slot);
  RengaFree(&graph->output);
  RengaFree(&graph->use);
  RengaFree(&graph->update);
  RengaFree(&graph->readers);
  RengaFree(&graph->known.last_reader);
  RengaCall(RengaGraphFreeOptions(graph));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphCreate - an empty network

   Collective

   Input:
   . comm - the processes that hold it

   Output:
   . graph - to be freed with RengaGraphDestroy

   Errors: none beyond bad arguments.

   See also: RengaGraphLoad(), RengaGraphSetUp(), RengaGraphDestroy()
@*/
RengaErrorCode RengaGraphCreate(RengaComm comm, RengaGraph *graph)
{
  RengaCheckPointer(comm);
  RengaCheckPointer(graph);
  RengaGraph made;
  RengaCall(RengaHeaderCreate(comm, "graph", sizeof *made, DestroyGraph, &made));
  made->loss = made->seed = RENGA_VALUE_NONE;
  made->place = made->id = -1;
  *graph = made;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphDestroy - free a network

   Collective

   Input:
   . graph - set to NULL; views lent by it are no longer valid

   Errors: none beyond bad arguments.

   See also: RengaGraphCreate()
@*/
RengaErrorCode RengaGraphDestroy(RengaGraph *graph)
{
  RengaCheckPointer(graph);
  RengaCall(RengaHeaderDestroy(graph));
  return RENGA_SUCCESS;
}
