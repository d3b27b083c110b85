/* Kernels of a stage: one for each distinct operator, attributes and shapes, shared by all
   programs; and what those of one micro-batch size share: shapes, and the kernels of nodes. */
#include "chunk.h"
#include "renga/private/kernel.h"
#include "renga/private/op.h"
#include <string.h>

static bool IsSameKernelCall(const KernelRow *row, const RengaGraphNode *node,
                             const RengaTensorSpec spec[])
{
  if (row->node->op != node->op || row->node->n_in != node->n_in || row->node->n_out != node->n_out)
    return false;
  for (int i = 0; i < node->n_in + node->n_out; i++)
    if (!RengaTensorSpecEqual(&row->spec[i], &spec[i])) return false;
  return RengaAttributesEqual(&row->node->attributes, &node->attributes);
}

static RengaErrorCode AddKernel(Chunk *chunk, const RengaGraphNode *node,
                                const RengaTensorSpec spec[], uint64_t hash)
{
  const int n = node->n_in + node->n_out;
  if (chunk->programs->kernels.count % 64 == 0)
    RengaCall(RengaRealloc(chunk->programs->kernels.count + 64, &chunk->programs->kernels.row));
  KernelRow row = {.node = node, .hash = hash};
  RengaCall(RengaMalloc(n > 0 ? n : 1, &row.spec));
  memcpy(row.spec, spec, (size_t)n * sizeof *spec);
  const RengaOpCall call = {.op = node->op,
                            .attributes = &node->attributes,
                            .n_in = node->n_in,
                            .n_out = node->n_out,
                            .in = row.spec,
                            .out = row.spec + node->n_in};
  const RengaErrorCode code = RengaKernelCreate(chunk->device, &call, &row.kernel);
  if (code) {
    RengaFree(&row.spec);
    RengaCall(code);
  }
  row.flops = RengaOperatorFlops(&call);
  chunk->programs->kernels.row[chunk->programs->kernels.count++] = row;
  return RENGA_SUCCESS;
}

/* The place of a kernel in the table, or the free one where it would be. */
static int *FindKernelSlot(Chunk *chunk, const RengaGraphNode *node, const RengaTensorSpec spec[],
                           uint64_t hash)
{
  const uint64_t mask = (uint64_t)chunk->programs->kernels.n_slots - 1;
  for (uint64_t at = hash & mask;; at = (at + 1) & mask) {
    int *slot = &chunk->programs->kernels.slot[at];
    const KernelRow *row = *slot >= 0 ? &chunk->programs->kernels.row[*slot] : NULL;
    if (!row || (row->hash == hash && IsSameKernelCall(row, node, spec))) return slot;
  }
}

static RengaErrorCode GrowKernelSlots(Chunk *chunk)
{
  if (2 * chunk->programs->kernels.count < chunk->programs->kernels.n_slots) return RENGA_SUCCESS;
  chunk->programs->kernels.n_slots =
      chunk->programs->kernels.n_slots ? 2 * chunk->programs->kernels.n_slots : 64;
  RengaFree(&chunk->programs->kernels.slot);
  RengaCall(RengaMalloc(chunk->programs->kernels.n_slots, &chunk->programs->kernels.slot));
  for (int i = 0; i < chunk->programs->kernels.n_slots; i++) chunk->programs->kernels.slot[i] = -1;
  for (int k = 0; k < chunk->programs->kernels.count; k++) {
    const KernelRow *row = &chunk->programs->kernels.row[k];
    *FindKernelSlot(chunk, row->node, row->spec, row->hash) = k;
  }
  return RENGA_SUCCESS;
}

/* The number of the kernel that runs a node with the given shapes (inputs, then outputs). */
static RengaErrorCode GetKernel(Chunk *chunk, const RengaGraphNode *node,
                                const RengaTensorSpec spec[], int *number)
{
  const uint64_t name = RengaHash(node->op->name, strlen(node->op->name), (uint64_t)node->n_in);
  const uint64_t call = RengaTensorSpecHash(node->n_in + node->n_out, spec, name);
  const uint64_t hash = RengaAttributesHash(&node->attributes, NULL, call);
  RengaCall(GrowKernelSlots(chunk));
  int *slot = FindKernelSlot(chunk, node, spec, hash);
  if (*slot < 0) {
    RengaCall(AddKernel(chunk, node, spec, hash));
    *slot = chunk->programs->kernels.count - 1;
  }
  if (node->n_in + node->n_out > chunk->programs->kernels.largest)
    chunk->programs->kernels.largest = node->n_in + node->n_out;
  *number = *slot;
  return RENGA_SUCCESS;
}

/* Of node n, once for all programs. */
RengaErrorCode RengaChunkFindKernel_Private(Chunk *chunk, ProgramShapes *shapes, int n)
{
  enum { SPECS_FEW = 16 };
  const RengaGraphNode *node = RengaGraphGetNode(chunk->sub, n);
  const int count = node->n_in + node->n_out;
  RengaTensorSpec few[SPECS_FEW], *many = NULL;
  if (shapes->kernel[n] >= 0) return RENGA_SUCCESS;
  if (count > SPECS_FEW) RengaCall(RengaMalloc(count, &many));
  RengaTensorSpec *spec = many ? many : few;
  for (int i = 0; i < count; i++) {
    const RengaValue value = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
    if (value == RENGA_VALUE_NONE)
      spec[i] = (RengaTensorSpec){.ndim = -1};
    else
      spec[i] = shapes->spec[value];
  }
  const RengaErrorCode code = GetKernel(chunk, node, spec, &shapes->kernel[n]);
  RengaFree(&many);
  RengaCheck(code != RENGA_ERR_SUPPORT, MPI_COMM_SELF, code, "no kernel for node %s (%s)",
             node->name, node->op->name);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool DependsOnStageConstants(const ProgramShapes *shapes, const RengaGraphRow *node)
{
  if (node->op->flags & (RENGA_OP_RANDOM | RENGA_OP_BATCH_SUM)) return false;
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == RENGA_VALUE_NONE) continue;
    const RengaGraphSource *source = &shapes->rows->source[node->in[i]];
    if (source->kind == RENGA_VALUE_CONSTANT) continue;
    if (source->producer < 0 || !shapes->constant[source->producer]) return false;
  }
  return true;
}

static RengaErrorCode FillShapes(const Chunk *chunk, ProgramShapes *shapes)
{
  const int nodes = RengaGraphGetNodeCount(chunk->sub),
            values = RengaGraphGetValueCount(chunk->sub);
  RengaCall(RengaGraphGetRows_Private(chunk->sub, &shapes->rows));
  RengaCall(RengaMalloc(values + 1, &shapes->spec));
  RengaCall(RengaMalloc(values + 1, &shapes->bytes));
  RengaCall(RengaMalloc(nodes + 1, &shapes->constant));
  RengaCall(RengaMalloc(nodes + 1, &shapes->owner));
  RengaCall(RengaMalloc(nodes + 1, &shapes->kernel));
  for (RengaValue v = 0; v < values; v++) {
    shapes->spec[v] = RengaGraphStoredAt(RengaGraphGetValue(chunk->sub, v), shapes->samples);
    shapes->bytes[v] = (int64_t)RengaTensorSpecBytes(&shapes->spec[v]);
  }
  for (int n = 0; n < nodes; n++) {
    shapes->constant[n] = DependsOnStageConstants(shapes, &shapes->rows->node[n]);
    shapes->owner[n] = RengaLaneGroupHas_Private(&chunk->tensor.group, shapes->rows->node[n].lane);
    shapes->kernel[n] = -1;
  }
  return RENGA_SUCCESS;
}

static void FreeShapes(ProgramShapes **shapes)
{
  RengaFree(&(*shapes)->spec);
  RengaFree(&(*shapes)->bytes);
  RengaFree(&(*shapes)->constant);
  RengaFree(&(*shapes)->owner);
  RengaFree(&(*shapes)->kernel);
  RengaFree(shapes);
}

/* Made where there are none of so many samples. */
RengaErrorCode RengaChunkGetShapes_Private(Chunk *chunk, int64_t samples, ProgramShapes **shapes)
{
  ProgramTable *programs = chunk->programs;
  ProgramShapes *made;
  for (int s = 0; s < programs->n_shapes; s++) {
    *shapes = programs->shapes[s];
    if ((*shapes)->samples == samples) return RENGA_SUCCESS;
  }
  RengaCall(RengaRealloc(programs->n_shapes + 1, &programs->shapes));
  RengaCall(RengaMalloc(1, &made));
  made->samples = samples;
  const RengaErrorCode code = FillShapes(chunk, made);
  if (code) FreeShapes(&made);
  RengaCall(code);
  *shapes = programs->shapes[programs->n_shapes++] = made;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProgramsFreeKernels_Private(ProgramTable *programs)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int k = 0; k < programs->kernels.count; k++) {
    RengaKeepFirst_Private(&code, RengaKernelDestroy(&programs->kernels.row[k].kernel));
    RengaFree(&programs->kernels.row[k].spec);
  }
  for (int s = 0; s < programs->n_shapes; s++) FreeShapes(&programs->shapes[s]);
  RengaFree(&programs->kernels.row);
  RengaFree(&programs->kernels.slot);
  RengaFree(&programs->shapes);
  RengaCall(code);
  return RENGA_SUCCESS;
}
