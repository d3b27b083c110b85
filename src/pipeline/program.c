/* Programs: a stage compiled for one micro-batch size. All shapes become concrete, every node gets
   a kernel, every value a place. Programs are made at set-up for all sizes that will occur, and
   later for others as long as they fit what was allocated. */
#include "gradients.h"
#include "window.h"
#include "layout.h"
#include "renga/private/line.h"

static RengaErrorCode FreeLayout(Layout *layout)
{
  RengaFree(&layout->needed);
  RengaFree(&layout->part);
  RengaFree(&layout->again);
  RengaFree(&layout->copied);
  RengaFree(&layout->resent);
  RengaFree(&layout->receiver);
  RengaFree(&layout->step);
  RengaFree(&layout->parent);
  RengaFree(&layout->storage);
  RengaFree(&layout->move);
  return RENGA_SUCCESS;
}

/* Nodes and values that it knows: a program that does not train has forward alone, which comes
   first in the graph; no more are looked at, nor is there memory for them. */
static void CountKnown(Layout *layout)
{
  const Chunk *chunk = layout->chunk;
  const RengaGraphRows *rows = layout->shapes->rows;
  layout->n_nodes = RengaGraphGetNodeCount(chunk->sub);
  layout->n_values = RengaGraphGetValueCount(chunk->sub);
  layout->n_storages = 2 * layout->n_values;
  if (layout->program->kind == PROGRAM_TRAINING) return;
  bool known = layout->program->target < rows->read;
  for (int f = 0; f < chunk->inputs->n_fields; f++)
    known = known && chunk->inputs->field[f].value < rows->read;
  for (int s = 0; s < chunk->n_sums; s++)
    known = known && chunk->sum[s].sum < rows->read && chunk->sum[s].share < rows->read;
  for (int m = 0; m < chunk->outline->n_messages; m++)
    known = known && (!chunk->link[m].active || chunk->outline->message[m].backward ||
                      chunk->link[m].value < rows->read);
  layout->n_nodes = rows->forward;
  if (known) layout->n_values = rows->read;
  layout->n_storages = layout->n_values;
}

static RengaErrorCode AllocateLayout(Layout *layout)
{
  const int nodes = layout->n_nodes + 1, values = layout->n_values + 1;
  const int storages = layout->n_storages + 1;
  RengaCall(RengaMalloc(values, &layout->needed));
  RengaCall(RengaMalloc(nodes, &layout->part));
  RengaCall(RengaMalloc(nodes, &layout->again));
  RengaCall(RengaMalloc(values, &layout->copied));
  RengaCall(RengaMalloc(values, &layout->resent));
  RengaCall(RengaMalloc(storages, &layout->receiver));
  for (int v = 0; v < storages; v++) layout->receiver[v] = RENGA_TENSOR_NONE;
  RengaCall(RengaMalloc(storages, &layout->parent));
  RengaCall(RengaMalloc(storages, &layout->storage));
  RengaCall(RengaMalloc(storages, &layout->program->place));
  RengaCall(RengaMalloc(layout->chunk->inputs->n_fields + 1, &layout->program->reads));
  return RENGA_SUCCESS;
}

static RengaErrorCode Compile(Layout *layout)
{
  Program *program = layout->program;
  Chunk *chunk = layout->chunk;
  RengaCall(RengaChunkGetShapes_Private(chunk, program->samples, &layout->shapes));
  program->spec = layout->shapes->spec;
  CountKnown(layout);
  RengaCall(AllocateLayout(layout));
  RengaCall(RengaLayoutChoose_Private(layout));
  RengaCall(RengaLayoutPlace_Private(layout));
  RengaCall(RengaLayoutEmit_Private(layout));
  if (layout->beside) RengaCall(RengaProgramPostpone_Private(program));
  for (int f = 0; f < chunk->inputs->n_fields; f++)
    program->reads[f] = layout->needed[chunk->inputs->field[f].value];
  for (int s = 0; s < chunk->n_sums; s++)
    program->uses_sums = program->uses_sums || layout->needed[chunk->sum[s].sum];
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyProgram(const Chunk *chunk, Program **program)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++) {
    Sequence *sequence = &(*program)->part[part];
    for (int e = 0; e < sequence->n_entries; e++)
      RengaKeepFirst_Private(&code, RengaChunkForgetRecordings_Private(chunk, &sequence->entry[e]));
    for (int e = 0; e < sequence->n_whole; e++)
      RengaKeepFirst_Private(&code, RengaChunkForgetRecordings_Private(chunk, &sequence->whole[e]));
    RengaFree(&sequence->entry);
    RengaFree(&sequence->whole);
    for (int i = 0; i < sequence->count; i++) RengaFree(&sequence->row[i].place);
    for (int i = 0; i < sequence->count; i++) RengaFree(&sequence->row[i].term);
    RengaFree(&sequence->row);
    RengaFree(&sequence->writes);
    RengaFree(&sequence->reads);
  }
  RengaFree(&(*program)->place);
  RengaFree(&(*program)->reads);
  RengaFree(program);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Also kernels and what they are called with. */
RengaErrorCode RengaChunkFreePrograms_Private(Chunk *chunk)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int p = 0; p < chunk->programs->count; p++)
    RengaKeepFirst_Private(&code, DestroyProgram(chunk, &chunk->programs->row[p]));
  RengaKeepFirst_Private(&code, RengaProgramsFreeKernels_Private(chunk->programs));
  RengaFree(&chunk->programs->row);
  RengaFree(&chunk->programs->argument);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckProgramFits(Chunk *chunk, const Program *program)
{
  const bool training = program->kind == PROGRAM_TRAINING;
  if (!chunk->at->region) return RENGA_SUCCESS;
  RengaCheck(program->saved_bytes <= chunk->sizes->slot_bytes[training] &&
                 program->sent_bytes <= chunk->sizes->sent_bytes[training] &&
                 program->kept_bytes <= chunk->sizes->kept_bytes[training] &&
                 program->temporary_bytes <= chunk->sizes->temporary_bytes[training] &&
                 program->folded_bytes <= chunk->sizes->folded_bytes,
             MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "micro-batches of %lld samples do not fit the memory taken at set-up (saved %lld of "
             "%lld bytes, temporary %lld of %lld): announce the size with "
             "RengaPipelineSetDataShortBatch before RengaPipelineSetUp",
             (long long)program->samples, (long long)program->saved_bytes,
             (long long)chunk->sizes->slot_bytes[training], (long long)program->temporary_bytes,
             (long long)chunk->sizes->temporary_bytes[training]);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddProgram(Chunk *chunk, Program *program)
{
  RengaCall(CheckProgramFits(chunk, program));
  if (chunk->programs->count % 8 == 0)
    RengaCall(RengaRealloc(chunk->programs->count + 8, &chunk->programs->row));
  RengaCall(RengaRealloc(chunk->programs->kernels.largest + 1, &chunk->programs->argument));
  RengaCall(RengaChunkMakeRoomForExchanges_Private(chunk, program));
  chunk->programs->row[chunk->programs->count++] = program;
  return RENGA_SUCCESS;
}

/* NULL: none is made yet. */
static Program *FindMade(const Chunk *chunk, ProgramKind kind, bool adds, int64_t samples,
                         RengaValue target)
{
  for (int p = 0; p < chunk->programs->count; p++) {
    Program *row = chunk->programs->row[p];
    if (row->kind == kind && row->samples == samples && row->target == target && row->adds == adds)
      return row;
  }
  return NULL;
}

static RengaErrorCode CompileProgram(Chunk *chunk, const Program *like, bool beside,
                                     Program **program)
{
  RengaCall(RengaMalloc(1, program));
  **program = *like;
  (*program)->beside = beside;
  Layout layout = {.chunk = chunk, .program = *program, .beside = beside};
  const RengaErrorCode code = Compile(&layout);
  FreeLayout(&layout);
  if (code) DestroyProgram(chunk, program);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Kernels may run beside exchanges of backward. Where replicas go through one list programs of all
   sizes have one order. */
static bool HasBeside(const Chunk *chunk, const Program *program)
{
  return chunk->tensor.group.size > 1 && program->kind == PROGRAM_TRAINING &&
         !RengaChunkShardsGradients_Private(chunk) && chunk->outline->settings->overlap;
}

/* So it is where that takes no more memory than without. A program that adds gradients has the
   backward of inputs of the one that does not, where that is a part of its own. */
static bool TakesBeside(const Chunk *chunk, const Program *program, const Program *beside)
{
  if (!program->adds || chunk->memory->lag == 0)
    return beside->temporary_bytes <= program->temporary_bytes;
  const Program *writes = FindMade(chunk, program->kind, false, program->samples, program->target);
  return writes && writes->beside;
}

static RengaErrorCode ChooseBeside(Chunk *chunk, Program **program)
{
  const Program like = {.kind = (*program)->kind,
                        .adds = (*program)->adds,
                        .samples = (*program)->samples,
                        .target = (*program)->target};
  Program *beside;
  if (!HasBeside(chunk, *program)) return RENGA_SUCCESS;
  RengaCall(CompileProgram(chunk, &like, true, &beside));
  Program *other = beside;
  if (TakesBeside(chunk, *program, beside)) {
    other = *program;
    *program = beside;
  }
  RengaCall(DestroyProgram(chunk, &other));
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateProgram(Chunk *chunk, ProgramKind kind, bool adds, int64_t samples,
                                    RengaValue target, Program **program)
{
  const Program like = {.kind = kind, .adds = adds, .samples = samples, .target = target};
  Program *made;
  RengaCall(CompileProgram(chunk, &like, false, &made));
  RengaErrorCode code = ChooseBeside(chunk, &made);
  if (code == RENGA_SUCCESS) code = RengaChunkMoveLocal_Private(chunk, made);
  if (code == RENGA_SUCCESS) code = RengaChunkMoveWindow_Private(chunk, made);
  if (code == RENGA_SUCCESS) code = AddProgram(chunk, made);
  if (code) DestroyProgram(chunk, &made);
  RengaCall(code);
  *program = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindProgram(Chunk *chunk, ProgramKind kind, bool adds, int64_t samples,
                                  RengaValue target, Program **program)
{
  Program *made = FindMade(chunk, kind, adds, samples, target);
  if (!made) RengaCall(CreateProgram(chunk, kind, adds, samples, target, &made));
  *program = made;
  return RENGA_SUCCESS;
}

/* The program of a kind for micro-batches of this many samples; made where there is none yet. */
RengaErrorCode RengaChunkGetProgram_Private(Chunk *chunk, ProgramKind kind, int64_t samples,
                                            RengaValue target, Program **program)
{
  const bool adds = kind == PROGRAM_TRAINING && !RengaChunkIsOrdered_Private(chunk);
  RengaCall(FindProgram(chunk, kind, adds, samples, target, program));
  return RENGA_SUCCESS;
}

static bool IsSamePlace(const Program *a, const Program *b, RengaValue value)
{
  return a->place[value].region == b->place[value].region &&
         (a->place[value].region == REGION_ABSENT ||
          a->place[value].offset == b->place[value].offset);
}

/* Gradients of parameters decide no place of what forward makes, nor of what is made again for a
   backward in two parts. */
static RengaErrorCode CheckForward(Chunk *chunk, const Program *a, const Program *b)
{
  bool same = a->saved_bytes == b->saved_bytes && a->sent_bytes == b->sent_bytes &&
              a->kept_bytes == b->kept_bytes && a->folded_bytes == b->folded_bytes;
  const int values = RengaGraphGetValueCount(chunk->sub);
  for (RengaValue v = 0; v < values; v++) {
    const int producer = RengaGraphGetValue(chunk->sub, v)->producer;
    const RengaPhase phase =
        producer < 0 ? RENGA_PHASE_FORWARD : RengaGraphGetNode(chunk->sub, producer)->phase;
    if (phase == RENGA_PHASE_BACKWARD_WEIGHT ||
        (phase != RENGA_PHASE_FORWARD && chunk->memory->lag == 0))
      continue;
    same = same && IsSamePlace(a, b, v);
    if (chunk->memory->lag > 0) same = same && IsSamePlace(a, b, values + v);
  }
  RengaCheck(same, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d: forward lies elsewhere where gradients are added", chunk->stage);
  return RENGA_SUCCESS;
}

/* The training program whose backward adds to gradients; it goes with the forward of the one that
   writes them. */
RengaErrorCode RengaChunkGetAdding_Private(Chunk *chunk, int64_t samples, Program **program)
{
  const int before = chunk->programs->count;
  Program *writes;
  RengaCall(
      RengaChunkGetProgram_Private(chunk, PROGRAM_TRAINING, samples, RENGA_VALUE_NONE, &writes));
  RengaCall(FindProgram(chunk, PROGRAM_TRAINING, true, samples, RENGA_VALUE_NONE, program));
  if (chunk->programs->count > before) RengaCall(CheckForward(chunk, writes, *program));
  return RENGA_SUCCESS;
}
