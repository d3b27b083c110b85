/* The instructions of a laid out program. */
#include "layout.h"

static RengaErrorCode Append(Sequence *sequence, Instruction instruction)
{
  if (sequence->count % 64 == 0) RengaCall(RengaRealloc(sequence->count + 64, &sequence->row));
  sequence->row[sequence->count++] = instruction;
  return RENGA_SUCCESS;
}

static Place PlaceOf(const Layout *layout, RengaValue value)
{
  if (value == RENGA_VALUE_NONE) return (Place){REGION_ABSENT, 0};
  return layout->program->place[value];
}

/* to = from, to += from, or zeros where from is absent. */
static RengaErrorCode AppendMove(Sequence *sequence, InstructionKind kind, Place from, Place to,
                                 int64_t bytes)
{
  Instruction instruction = {.kind = kind, .n_in = 1, .n_out = 1, .bytes = bytes};
  RengaCall(RengaMalloc(2, &instruction.place));
  instruction.place[0] = from;
  instruction.place[1] = to;
  instruction.workspace.region = REGION_ABSENT;
  RengaCall(Append(sequence, instruction));
  return RENGA_SUCCESS;
}

static RengaErrorCode EmitMoves(Layout *layout, Sequence *sequence, ProgramPart part,
                                RengaValue made)
{
  const bool adds = layout->program->adds;
  for (int m = 0; m < layout->n_moves; m++) {
    const Move *move = &layout->move[m];
    const bool soon = RengaLayoutPartOf_Private(layout, move->value) == PART_BACKWARD;
    if (part != PART_BACKWARD || soon != (made != RENGA_VALUE_NONE)) continue;
    if (soon && move->value != made) continue;
    if (adds && move->value == RENGA_VALUE_NONE) continue; /* nothing to add */
    InstructionKind kind = INSTRUCTION_COPY;
    if (move->value == RENGA_VALUE_NONE)
      kind = INSTRUCTION_ZERO;
    else if (adds && move->to.region == REGION_GRADIENTS)
      kind = INSTRUCTION_ADD;
    RengaCall(AppendMove(sequence, kind, PlaceOf(layout, move->value), move->to, move->bytes));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode EmitKernel(Layout *layout, Sequence *sequence, const RengaGraphNode *node,
                                 int n)
{
  const KernelRow *row = &layout->pipeline->kernel[layout->kernel[n]];
  Instruction instruction = {.kind = INSTRUCTION_KERNEL,
                             .kernel = row->kernel,
                             .n_in = node->n_in,
                             .n_out = node->n_out,
                             .workspace = layout->workspace[n]};
  RengaCall(RengaMalloc(node->n_in + node->n_out + 1, &instruction.place));
  for (int i = 0; i < node->n_in; i++) instruction.place[i] = PlaceOf(layout, node->in[i]);
  for (int o = 0; o < node->n_out; o++)
    instruction.place[node->n_in + o] = PlaceOf(layout, node->out[o]);
  sequence->flops += row->flops;
  RengaCall(Append(sequence, instruction));
  return RENGA_SUCCESS;
}

static RengaErrorCode EmitNode(Layout *layout, int n)
{
  const RengaGraphNode *node = LayoutNode(layout, n);
  Sequence *sequence = &layout->program->part[layout->part[n]];
  if (layout->kernel[n] >= 0)
    RengaCall(EmitKernel(layout, sequence, node, n));
  else if (!layout->view[n])
    RengaCall(AppendMove(sequence, INSTRUCTION_COPY, PlaceOf(layout, node->in[0]),
                         PlaceOf(layout, node->out[0]), LayoutBytes(layout, node->out[0])));
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] != RENGA_VALUE_NONE)
      RengaCall(EmitMoves(layout, sequence, layout->part[n], node->out[o]));
  return RENGA_SUCCESS;
}

/* Fills the instructions of all parts. */
RengaErrorCode RengaLayoutEmit_Private(Layout *layout)
{
  for (int n = 0; n < layout->n_nodes; n++)
    if (layout->part[n] != PART_NONE) RengaCall(EmitNode(layout, n));
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++)
    RengaCall(EmitMoves(layout, &layout->program->part[part], part, RENGA_VALUE_NONE));
  return RENGA_SUCCESS;
}
