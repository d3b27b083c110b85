/* The graph: its life, and the memory of its algorithms. */
#include "graphimpl.h"
#include <string.h>

/* Small pieces of scratch share blocks: there are some for each node. */
enum { SCRATCH_BLOCK = 8192, SCRATCH_PIECE = 1024, SCRATCH_ALIGNMENT = 16 };

static RengaErrorCode AddScratchBlock(RengaGraph graph, size_t bytes, char **memory)
{
  if ((graph->n_scratch & (graph->n_scratch - 1)) == 0) /* room for twice as many */
    RengaCall(RengaRealloc(graph->n_scratch ? 2 * graph->n_scratch : 1, &graph->scratch));
  RengaCall(RengaMalloc(bytes, memory));
  graph->scratch[graph->n_scratch++] = *memory;
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeScratchPiece(RengaGraph graph, size_t bytes, char **memory)
{
  const size_t own = (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
  if (own > graph->pieces.left) {
    char *block = NULL;
    RengaCall(AddScratchBlock(graph, SCRATCH_BLOCK, &block));
    graph->pieces.next = block;
    graph->pieces.left = SCRATCH_BLOCK;
  }
  *memory = graph->pieces.next;
  graph->pieces.next += own;
  graph->pieces.left -= own;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphAllocateScratch(RengaGraph graph, int64_t count, size_t size,
                                         void *pointer_to_pointer)
{
  const size_t bytes = (size_t)(count > 0 ? count : 1) * size;
  char *memory = NULL;
  if (bytes > SCRATCH_PIECE)
    RengaCall(AddScratchBlock(graph, bytes, &memory));
  else
    RengaCall(TakeScratchPiece(graph, bytes, &memory));
  memcpy(pointer_to_pointer, &memory, sizeof memory);
  return RENGA_SUCCESS;
}

void RengaGraphFreeScratch(RengaGraph graph)
{
  for (int i = 0; i < graph->n_scratch; i++) RengaFree(&graph->scratch[i]);
  RengaFree(&graph->scratch);
  graph->n_scratch = 0;
  graph->pieces.left = 0;
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
  RengaGraphForget(graph);
  if (graph->unsplit) RengaCall(RengaGraphDestroy(&graph->unsplit));
  RengaCall(RengaGraphFreeOptions(graph));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphCreate - an empty network

   Collective

   Input:
   . comm - the processes that hold it

   Output:
   . graph - the new graph; RengaGraphDestroy() frees it

   See also: RengaGraphLoad(), RengaGraphSetUp(), RengaGraphDestroy()
@*/
RengaErrorCode RengaGraphCreate(RengaComm comm, RengaGraph *graph)
{
  RengaCheckPointers(comm, graph);
  RengaGraph made;
  RengaCall(RengaHeaderCreate(comm, "RengaGraph", sizeof *made, DestroyGraph, &made));
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
@*/
RengaErrorCode RengaGraphDestroy(RengaGraph *graph)
{
  RengaCheckPointer(graph);
  RengaCall(RengaHeaderDestroy(graph));
  return RENGA_SUCCESS;
}
