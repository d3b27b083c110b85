/* Memory of a program: values that may share memory become one storage, storages get places.

   A reshape is a view of its input. A kernel that may run in place does so when its input dies
   there. What backward needs of forward, and what is sent, lies in the micro-batch's slot;
   gradients of parameters and gradients to be sent lie where they are awaited, if nothing stands
   against it, and are copied at the end otherwise; the rest is temporary, by lifetime. */
#include "rows.h"
#include "layout.h"

static bool Claimed(const Storage *storage)
{
  return storage->claim.region != REGION_ABSENT;
}

static RengaErrorCode AddMove(Layout *layout, RengaValue value, Place to, int64_t bytes)
{
  if (layout->n_moves % 16 == 0) RengaCall(RengaRealloc(layout->n_moves + 16, &layout->move));
  layout->move[layout->n_moves++] = (Move){value, to, bytes};
  return RENGA_SUCCESS;
}

/* Positions of what is made again before backward, those of backward, then those of the gradients
   of parameters. */
static int LaterAt(const Layout *layout, ProgramPart part, int position)
{
  for (ProgramPart before = PART_AGAIN; before < part; before++)
    position += layout->length[before] + 1;
  return position;
}

/* A gradient lies where it is awaited, or is moved there. */
static RengaErrorCode Claim(Layout *layout, RengaValue value, Place to, int64_t bytes, bool move)
{
  if (move || LayoutPartOf(layout, value) != LayoutFills(layout, value, to) ||
      Claimed(&layout->storage[value])) {
    RengaCall(AddMove(layout, value, to, bytes));
  } else {
    layout->storage[value].claim = to;
  }
  return RENGA_SUCCESS;
}

/* The gradients of rows lie in their slot if they may; the numbers of the rows are copied there. */
static RengaErrorCode ClaimRows(Layout *layout)
{
  const RowLists *rows = layout->chunk->rows;
  for (int l = 0; l < rows->count; l++) {
    const RowList *list = &rows->row[l];
    const Place gradients = {REGION_ROWS, list->gradients_at};
    const Place numbers = {REGION_ROWS, list->numbers_at};
    RengaCall(
        Claim(layout, list->gradients, gradients, LayoutBytes(layout, list->gradients), false));
    RengaCall(Claim(layout, list->numbers, numbers, LayoutBytes(layout, list->numbers), true));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ClaimGradients(Layout *layout)
{
  const Chunk *chunk = layout->chunk;
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    const Link *link = &chunk->link[m];
    if (!link->active || link->incoming || !chunk->outline->message[m].backward) continue;
    const RengaTensorSpec spec = RengaTensorSpecAt(&link->spec, layout->program->samples);
    RengaCall(Claim(layout, link->value, (Place){REGION_MESSAGE + m, 0},
                    (int64_t)RengaTensorSpecBytes(&spec), false));
  }
  for (int u = 0; u < chunk->uses->count; u++) {
    if (chunk->uses->place[u] < 0) continue;
    const RengaValue value = chunk->uses->row[u].gradient;
    const Place to = {REGION_GRADIENTS, RengaGradientBytes_Private(chunk, chunk->uses->place[u])};
    RengaCall(Claim(layout, value, to, LayoutBytes(layout, value), layout->program->adds));
  }
  RengaCall(ClaimRows(layout));
  return RENGA_SUCCESS;
}

static void MarkSent(Layout *layout)
{
  const Chunk *chunk = layout->chunk;
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    const Link *link = &chunk->link[m];
    if (!link->active || link->incoming || chunk->outline->message[m].backward) continue;
    layout->storage[link->value].saved = true;
    layout->storage[link->value].own = true;
  }
}

/* Whether the output of a reshape may be a view of its input. */
static bool MayView(const Layout *layout, RengaValue in, RengaValue out, ProgramPart part)
{
  const Storage *to = &layout->storage[out];
  if (LayoutIsGiven(layout, in)) return !to->own && !Claimed(to);
  const Storage *from = &layout->storage[LayoutRoot(layout, in)];
  const RengaValue root = LayoutRoot(layout, in);
  if (LayoutIsGiven(layout, root)) return !to->own && !Claimed(to);
  if (to->own && from->home != part) return false;
  return !Claimed(to) || (!Claimed(from) && from->home == part && !from->saved && !from->again);
}

static void Join(Layout *layout, RengaValue root, RengaValue value)
{
  Storage *a = &layout->storage[root];
  const Storage *b = &layout->storage[value];
  layout->parent[value] = root;
  if (Claimed(b)) a->claim = b->claim;
  a->saved = a->saved || b->saved;
  a->own = a->own || b->own;
  a->kept = a->kept || b->kept;
  if (b->home > a->home && a->home != PART_CONSTANT) {
    const int last = LaterAt(layout, b->home, b->last);
    if (last > a->later) a->later = last;
  } else if (b->last > a->last) {
    a->last = b->last;
  }
  if (b->later > a->later) a->later = b->later;
}

static void UseAt(Layout *layout, RengaValue value, ProgramPart part, int position)
{
  if (value == RENGA_VALUE_NONE || LayoutIsGiven(layout, value)) return;
  const RengaValue root = LayoutRoot(layout, value);
  if (LayoutIsGiven(layout, root)) return;
  Storage *storage = &layout->storage[root];
  if (storage->home >= PART_FORWARD && part > storage->home) {
    storage->saved = true;
    if (LaterAt(layout, part, position) > storage->later)
      storage->later = LaterAt(layout, part, position);
  }
  if (storage->home == part && position > storage->last) storage->last = position;
}

static void MakeAt(Layout *layout, RengaValue value, ProgramPart part, int position)
{
  Storage *storage = &layout->storage[value];
  storage->home = part;
  storage->first = storage->last = position;
  storage->bytes = RengaAlign_Private(LayoutBytes(layout, value));
}

static void MakeOutput(Layout *layout, const Step *step, int o)
{
  const RengaValue value = LayoutOut(layout, step, o);
  if (value == RENGA_VALUE_NONE) return;
  MakeAt(layout, value, step->part, step->position);
  layout->storage[value].again = step->again;
}

/* It may come before it is waited for. */
static void MakeReceived(Layout *layout, const Step *step, int o)
{
  MakeOutput(layout, step, o);
  layout->storage[LayoutOut(layout, step, o)].first = step->ready;
}

/* What comes from another rank of the tensor group is made by the exchange; what goes there is read
   by it. */
static void MakeExchanged(Layout *layout, const Step *step)
{
  const RengaGraphRow *node = LayoutNode(layout, step->node);
  for (int o = 0; o < node->n_out; o++) {
    const RengaValue value = LayoutOut(layout, step, o);
    if (!LayoutIsExchanged(layout, value)) continue;
    if (!LayoutIsElsewhere(layout, step->node))
      UseAt(layout, value, step->part, step->position);
    else if (LayoutReceives(layout, value))
      MakeReceived(layout, step, o);
  }
}

/* What others get again of a lane that this rank has lies where it is kept. */
static void MakeResent(Layout *layout, const Step *step)
{
  const RengaGraphRow *node = LayoutNode(layout, step->node);
  for (int o = 0; o < node->n_out; o++) {
    const RengaValue value = node->out[o];
    if (value == RENGA_VALUE_NONE || !layout->resent[value]) continue;
    UseAt(layout, value, step->part, step->position);
    MakeOutput(layout, step, o);
    Join(layout, LayoutRoot(layout, value), LayoutOut(layout, step, o));
  }
}

/* Of the steps from the first on. */
static void MakeStorages(Layout *layout, int first)
{
  for (int s = first; s < layout->n_steps; s++) {
    Step *step = &layout->step[s];
    const RengaGraphRow *node = LayoutNode(layout, step->node);
    if (step->exchange) {
      MakeExchanged(layout, step);
      continue;
    }
    if (step->resent) {
      MakeResent(layout, step);
      continue;
    }
    for (int o = 0; o < node->n_out; o++) MakeOutput(layout, step, o);
    if (layout->shapes->kernel[step->node] < 0) {
      const RengaValue in = LayoutIn(layout, step, 0), out = LayoutOut(layout, step, 0);
      step->view = MayView(layout, in, out, step->part);
      if (step->view) Join(layout, LayoutRoot(layout, in), out);
    }
    for (int i = 0; i < node->n_in; i++)
      UseAt(layout, LayoutIn(layout, step, i), step->part, step->position);
  }
}

/* What is read after forward, or moved after backward, lives to the end of the part. Gradients are
   awaited elsewhere. */
static RengaErrorCode KeepToEnd(Layout *layout)
{
  int count;
  RengaValue *wanted;
  RengaCall(RengaLayoutWanted_Private(layout, &count, NULL));
  RengaCall(RengaMalloc(count + 1, &wanted));
  const RengaErrorCode code = RengaLayoutWanted_Private(layout, &count, wanted);
  for (int i = 0; !code && i < count; i++)
    if (LayoutPartOf(layout, wanted[i]) == PART_FORWARD)
      UseAt(layout, wanted[i], PART_FORWARD, layout->length[PART_FORWARD]);
  RengaFree(&wanted);
  RengaCall(code);
  for (int m = 0; m < layout->n_moves; m++) {
    const Move *move = &layout->move[m];
    const ProgramPart part = LayoutFills(layout, move->value, move->to);
    if (LayoutPartOf(layout, move->value) != part)
      UseAt(layout, LayoutRead(layout, part, move->value), part, layout->length[part]);
  }
  return RENGA_SUCCESS;
}

/* All inputs of the node that share the storage must allow it. */
static bool AllAllow(const Layout *layout, const Step *step, int o, RengaValue root)
{
  const RengaGraphRow *node = LayoutNode(layout, step->node);
  const RengaKernel kernel =
      layout->chunk->programs->kernels.row[layout->shapes->kernel[step->node]].kernel;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != RENGA_VALUE_NONE && LayoutRoot(layout, LayoutIn(layout, step, i)) == root &&
        !RengaKernelMayAlias(kernel, o, i))
      return false;
  return true;
}

/* Nobody reads the storage after this node. In backward that may be what forward has saved, if it
   is not on its way to another stage. */
static bool DiesAt(const Layout *layout, const Storage *storage, const Step *step)
{
  if (storage->own || Claimed(storage) || storage->home == PART_CONSTANT) return false;
  if (storage->kept && storage->home == step->part) return false; /* it stays as it is */
  if (storage->home == step->part) return !storage->saved && storage->last == step->position;
  return storage->saved && storage->later == LaterAt(layout, step->part, step->position);
}

static bool MayRunInPlace(const Layout *layout, const Step *step, int o, int i)
{
  const RengaValue in = LayoutIn(layout, step, i), out = LayoutOut(layout, step, o);
  if (in == RENGA_VALUE_NONE || out == RENGA_VALUE_NONE) return false;
  const RengaValue from = LayoutRoot(layout, in), to = LayoutRoot(layout, out);
  if (from == to || to != out || LayoutIsGiven(layout, from)) return false;
  const Storage *input = &layout->storage[from], *output = &layout->storage[to];
  if (!DiesAt(layout, input, step) || input->bytes != output->bytes) return false;
  if (((input->saved || input->again) && Claimed(output)) || output->kept) return false;
  return AllAllow(layout, step, o, from);
}

static void RunInPlace(Layout *layout)
{
  for (int s = 0; s < layout->n_steps; s++) {
    const Step *step = &layout->step[s];
    const RengaGraphRow *node = LayoutNode(layout, step->node);
    for (int o = 0; o < node->n_out && layout->shapes->kernel[step->node] >= 0 && !step->exchange &&
                    !step->resent;
         o++)
      for (int i = 0; i < node->n_in; i++)
        if (MayRunInPlace(layout, step, o, i)) {
          Join(layout, LayoutRoot(layout, LayoutIn(layout, step, i)), LayoutOut(layout, step, o));
          break;
        }
  }
}

static bool IsRoot(const Layout *layout, RengaValue value)
{
  return layout->parent[value] == value && !LayoutIsGiven(layout, value) &&
         layout->storage[value].home != PART_NONE;
}

/* Roots that live in one part alone. */
typedef struct {
  int count;
  RengaValue *value; /* [count] in their order */
  Lifetime *row;     /* of one part, with the workspaces of its kernels */
} Temporaries;

/* Slots and folded constants: one after the other. What is sent outlives the slot of a stage that
   recomputes. The others are listed. */
static void PlaceLasting(Layout *layout, Temporaries *temporary)
{
  Program *program = layout->program;
  for (RengaValue v = 0; v < layout->n_storages; v++) {
    if (!IsRoot(layout, v)) continue;
    const Storage *storage = &layout->storage[v];
    if (Claimed(storage)) {
      program->place[v] = storage->claim;
    } else if (storage->home == PART_CONSTANT) {
      program->place[v] = (Place){REGION_FOLDED, program->folded_bytes};
      program->folded_bytes += storage->bytes;
    } else if (storage->saved && storage->kept) {
      program->place[v] = (Place){REGION_KEPT, program->kept_bytes};
      program->kept_bytes += storage->bytes;
    } else if (storage->saved && storage->own && layout->chunk->recompute) {
      program->place[v] = (Place){REGION_SENT, program->sent_bytes};
      program->sent_bytes += storage->bytes;
    } else if (storage->saved) {
      program->place[v] = (Place){REGION_SAVED, program->saved_bytes};
      program->saved_bytes += storage->bytes;
    } else {
      temporary->value[temporary->count++] = v;
    }
  }
}

static int64_t Workspace(const Layout *layout, const Step *step, ProgramPart part)
{
  const int kernel = layout->shapes->kernel[step->node];
  if (step->part != part || kernel < 0 || step->exchange || step->resent) return 0;
  return RengaAlign_Private(
      (int64_t)RengaKernelGetWorkspace(layout->chunk->programs->kernels.row[kernel].kernel));
}

static int ListLifetimes(const Layout *layout, ProgramPart part, const Temporaries *temporary)
{
  int count = 0;
  for (int i = 0; i < temporary->count; i++) {
    const Storage *storage = &layout->storage[temporary->value[i]];
    if (storage->home == part)
      temporary->row[count++] = (Lifetime){storage->bytes, 0, storage->first, storage->last};
  }
  for (int s = 0; s < layout->n_steps; s++) {
    const Step *step = &layout->step[s];
    const int64_t bytes = Workspace(layout, step, part);
    if (bytes > 0) temporary->row[count++] = (Lifetime){bytes, 0, step->position, step->position};
  }
  return count;
}

static void TakeOffsets(Layout *layout, ProgramPart part, const Temporaries *temporary)
{
  int at = 0;
  for (int i = 0; i < temporary->count; i++)
    if (layout->storage[temporary->value[i]].home == part)
      layout->program->place[temporary->value[i]] =
          (Place){REGION_TEMPORARY, temporary->row[at++].offset};
  for (int s = 0; s < layout->n_steps; s++)
    if (Workspace(layout, &layout->step[s], part) > 0)
      layout->step[s].workspace = (Place){REGION_TEMPORARY, temporary->row[at++].offset};
}

static RengaErrorCode PlaceTemporary(Layout *layout, ProgramPart part, const Temporaries *temporary)
{
  int64_t bytes = 0;
  const int count = ListLifetimes(layout, part, temporary);
  RengaCall(RengaPlaceLifetimes_Private(count, temporary->row, &bytes));
  TakeOffsets(layout, part, temporary);
  if (bytes > layout->program->temporary_bytes) layout->program->temporary_bytes = bytes;
  return RENGA_SUCCESS;
}

static RengaErrorCode PlaceStorages(Layout *layout)
{
  Temporaries temporary = {0};
  RengaErrorCode code = RengaMalloc(layout->n_storages + 1, &temporary.value);
  if (!code) PlaceLasting(layout, &temporary);
  if (!code) code = RengaMalloc(temporary.count + layout->n_steps + 1, &temporary.row);
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT && !code; part++)
    code = PlaceTemporary(layout, part, &temporary);
  RengaFree(&temporary.value);
  RengaFree(&temporary.row);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void PlaceViews(Layout *layout)
{
  for (RengaValue v = 0; v < layout->n_storages; v++) {
    const RengaValue root = LayoutRoot(layout, v);
    layout->program->place[v] = LayoutIsGiven(layout, root) ? layout->chunk->value_place[root]
                                                            : layout->program->place[root];
  }
}

/* Each node that runs, what is made or sent again of forward, and the exchanges of all of them. */
static int CountMostSteps(const Layout *layout)
{
  const bool trains = layout->program->kind == PROGRAM_TRAINING;
  int steps = 0;
  for (int n = 0; n < layout->n_nodes; n++)
    if (layout->part[n] != PART_NONE) steps += trains && layout->part[n] == PART_FORWARD ? 2 : 1;
  return 2 * steps;
}

/* Fills the steps, the places of all values, the workspaces, the moves and the sizes. */
RengaErrorCode RengaLayoutPlace_Private(Layout *layout)
{
  const bool several = layout->chunk->tensor.group.size > 1;
  for (RengaValue v = 0; v < layout->n_storages; v++) {
    layout->parent[v] = v;
    layout->storage[v] = (Storage){.claim.region = REGION_ABSENT, .home = PART_NONE};
    layout->program->place[v].region = REGION_ABSENT;
  }
  if (layout->program->kind != PROGRAM_PROLOGUE) MarkSent(layout);
  if (layout->program->kind == PROGRAM_TRAINING) RengaCall(RengaLayoutMarkKept_Private(layout));
  if (layout->program->kind == PROGRAM_TRAINING) RengaCall(ClaimGradients(layout));
  if (several) RengaCall(RengaLayoutFindExchanged_Private(layout));
  RengaCall(RengaMalloc(CountMostSteps(layout) + 1, &layout->step));
  RengaCall(RengaLayoutListForward_Private(layout));
  MakeStorages(layout, 0);
  const int before = layout->n_steps;
  if (!several) RengaCall(RengaLayoutChooseRecomputed_Private(layout));
  RengaCall(RengaLayoutListBackward_Private(layout));
  MakeStorages(layout, before);
  RengaCall(KeepToEnd(layout));
  RunInPlace(layout);
  RengaCall(PlaceStorages(layout));
  PlaceViews(layout);
  return RENGA_SUCCESS;
}
