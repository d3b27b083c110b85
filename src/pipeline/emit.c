/* The instructions of a laid out program. */
#include "layout.h"

/* The sequence owns the places from now on, which the caller fills. */
static RengaErrorCode AppendInstruction(Sequence *sequence, Instruction instruction, Place **place)
{
  if (sequence->count % 64 == 0) RengaCall(RengaRealloc(sequence->count + 64, &sequence->row));
  RengaCall(RengaMalloc(instruction.n_in + instruction.n_out + 1, &instruction.place));
  *place = instruction.place;
  sequence->row[sequence->count++] = instruction;
  return RENGA_SUCCESS;
}

static Place PlaceOf(const Layout *layout, RengaValue value)
{
  if (value == RENGA_VALUE_NONE) return (Place){REGION_ABSENT, 0};
  return layout->program->place[value];
}

/* to = from, to += from, or zeros where from is absent. */
static RengaErrorCode AppendMove(Sequence *sequence, InstructionKind kind, RengaDataType type,
                                 Place from, Place to, int64_t bytes)
{
  const Instruction instruction = {.kind = kind,
                                   .n_in = 1,
                                   .n_out = 1,
                                   .workspace.region = REGION_ABSENT,
                                   .bytes = bytes,
                                   .type = type};
  Place *place;
  RengaCall(AppendInstruction(sequence, instruction, &place));
  place[0] = from;
  place[1] = to;
  return RENGA_SUCCESS;
}

static RengaErrorCode EmitMove(Layout *layout, ProgramPart part, const Move *move)
{
  Sequence *sequence = &layout->program->part[part];
  const bool adds = layout->program->adds;
  if (adds && move->value == RENGA_VALUE_NONE) return RENGA_SUCCESS; /* nothing to add */
  InstructionKind kind = INSTRUCTION_COPY;
  if (move->value == RENGA_VALUE_NONE)
    kind = INSTRUCTION_ZERO;
  else if (adds && move->to.region == REGION_GRADIENTS)
    kind = INSTRUCTION_ADD;
  const RengaDataType type =
      kind == INSTRUCTION_ZERO ? RENGA_UINT8 : layout->program->spec[move->value].type;
  const Place from = PlaceOf(layout, LayoutRead(layout, part, move->value));
  RengaCall(AppendMove(sequence, kind, type, from, move->to, move->bytes));
  return RENGA_SUCCESS;
}

/* The moves of each value in the part that makes it, in order: the first, and after each the next;
   -1: there is none. */
typedef struct {
  int *first, *next;
} MovesOf;

static RengaErrorCode SortMoves(const Layout *layout, MovesOf *moves)
{
  const int count = RengaGraphGetValueCount(layout->chunk->sub);
  RengaCall(RengaMalloc(count + 1, &moves->first));
  RengaCall(RengaMalloc(layout->n_moves + 1, &moves->next));
  for (int v = 0; v < count; v++) moves->first[v] = -1;
  for (int m = layout->n_moves - 1; m >= 0; m--) {
    const RengaValue value = layout->move[m].value;
    if (LayoutPartOf(layout, value) != LayoutFills(layout, value, layout->move[m].to)) continue;
    moves->next[m] = moves->first[value];
    moves->first[value] = m;
  }
  return RENGA_SUCCESS;
}

/* What a part moves and does not make is moved at its end. */
static RengaErrorCode EmitLateMoves(Layout *layout)
{
  for (int m = 0; m < layout->n_moves; m++) {
    const Move *move = &layout->move[m];
    const ProgramPart part = LayoutFills(layout, move->value, move->to);
    if (LayoutPartOf(layout, move->value) != part) RengaCall(EmitMove(layout, part, move));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode EmitKernel(Layout *layout, Sequence *sequence, const Step *step)
{
  const RengaGraphRow *node = LayoutNode(layout, step->node);
  const KernelRow *row = &layout->chunk->programs->kernels.row[layout->shapes->kernel[step->node]];
  const Instruction instruction = {.kind = INSTRUCTION_KERNEL,
                                   .kernel = row->kernel,
                                   .n_in = node->n_in,
                                   .n_out = node->n_out,
                                   .workspace = step->workspace};
  Place *place;
  RengaCall(AppendInstruction(sequence, instruction, &place));
  for (int i = 0; i < node->n_in; i++) place[i] = PlaceOf(layout, LayoutIn(layout, step, i));
  for (int o = 0; o < node->n_out; o++)
    place[node->n_in + o] = PlaceOf(layout, LayoutOut(layout, step, o));
  sequence->flops += row->flops;
  return RENGA_SUCCESS;
}

/* exchanged: only what the tensor group exchanges, or only the rest. */
static RengaErrorCode EmitMovesOf(Layout *layout, const MovesOf *moves, const Step *step,
                                  bool exchanged)
{
  const RengaGraphRow *node = LayoutNode(layout, step->node);
  for (int o = 0; o < node->n_out && !step->again; o++) {
    const RengaValue value = node->out[o];
    if (value == RENGA_VALUE_NONE || LayoutIsExchanged(layout, value) != exchanged) continue;
    for (int m = moves->first[value]; m >= 0; m = moves->next[m])
      RengaCall(EmitMove(layout, step->part, &layout->move[m]));
  }
  return RENGA_SUCCESS;
}

/* The values that the steps [first, last) exchange. place, term: NULL, or to be filled. */
static int ListTerms(const Layout *layout, int first, int last, Place place[], LaneTerm term[])
{
  int count = 0;
  for (int s = first; s < last; s++) {
    const int n = layout->step[s].node;
    for (int o = 0; o < LayoutNode(layout, n)->n_out; o++) {
      const RengaValue value = LayoutOut(layout, &layout->step[s], o);
      if (!LayoutIsExchanged(layout, value)) continue;
      if (place) place[count] = PlaceOf(layout, value);
      if (term)
        term[count] = (LaneTerm){.from = LayoutOwner(layout, n),
                                 .to = layout->receiver[value],
                                 .bytes = LayoutBytes(layout, value)};
      count++;
    }
  }
  return count;
}

/* One exchange, of all steps from the first on that have its position; next: the step behind it. */
static RengaErrorCode EmitExchange(Layout *layout, const MovesOf *moves, int first, int *next)
{
  const Step *step = &layout->step[first];
  Sequence *sequence = &layout->program->part[step->runs];
  int last = first;
  while (last < layout->n_steps && layout->step[last].exchange &&
         layout->step[last].part == step->part && layout->step[last].position == step->position)
    last++;
  const Instruction instruction = {.kind = INSTRUCTION_EXCHANGE,
                                   .again = step->again && !step->resent,
                                   .n_out = ListTerms(layout, first, last, NULL, NULL),
                                   .workspace.region = REGION_ABSENT};
  Place *place;
  RengaCall(AppendInstruction(sequence, instruction, &place));
  LaneTerm **term = &sequence->row[sequence->count - 1].term;
  RengaCall(RengaMalloc(instruction.n_out + 1, term));
  ListTerms(layout, first, last, place, *term);
  for (int s = first; s < last; s++) RengaCall(EmitMovesOf(layout, moves, &layout->step[s], true));
  *next = last;
  return RENGA_SUCCESS;
}

static RengaErrorCode EmitStep(Layout *layout, const MovesOf *moves, const Step *step)
{
  const RengaGraphRow *node = LayoutNode(layout, step->node);
  Sequence *sequence = &layout->program->part[step->runs];
  if (step->resent) return RENGA_SUCCESS;
  if (layout->shapes->kernel[step->node] >= 0)
    RengaCall(EmitKernel(layout, sequence, step));
  else if (!step->view)
    RengaCall(AppendMove(sequence, INSTRUCTION_COPY, layout->program->spec[node->out[0]].type,
                         PlaceOf(layout, LayoutIn(layout, step, 0)),
                         PlaceOf(layout, LayoutOut(layout, step, 0)),
                         LayoutBytes(layout, node->out[0])));
  RengaCall(EmitMovesOf(layout, moves, step, false));
  return RENGA_SUCCESS;
}

/* Fills the instructions of all parts. */
RengaErrorCode RengaLayoutEmit_Private(Layout *layout)
{
  MovesOf moves = {0};
  RengaErrorCode code = SortMoves(layout, &moves);
  for (int s = 0, next; s < layout->n_steps && !code; s = next) {
    next = s + 1;
    code = layout->step[s].exchange ? EmitExchange(layout, &moves, s, &next)
                                    : EmitStep(layout, &moves, &layout->step[s]);
  }
  if (!code) code = EmitLateMoves(layout);
  RengaFree(&moves.first);
  RengaFree(&moves.next);
  RengaCall(code);
  return RENGA_SUCCESS;
}
