/* Kernels of a stage: one for each distinct operator, attributes and shapes, shared by all
   programs. */
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
RengaErrorCode RengaChunkGetKernel_Private(Chunk *chunk, const RengaGraphNode *node,
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
