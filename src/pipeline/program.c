/* Programs: a stage compiled for one micro-batch size. All shapes become concrete, every node gets
   a kernel, every value a place. Programs are made at set-up for all sizes that will occur, and
   later for others as long as they fit what was allocated. */
#include "layout.h"

static RengaErrorCode FreeLayout(Layout *layout)
{
  RengaFree(&layout->constant);
  RengaFree(&layout->needed);
  RengaFree(&layout->part);
  RengaFree(&layout->position);
  RengaFree(&layout->kernel);
  RengaFree(&layout->view);
  RengaFree(&layout->parent);
  RengaFree(&layout->storage);
  RengaFree(&layout->workspace);
  RengaFree(&layout->move);
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateLayout(Layout *layout)
{
  const int nodes = layout->n_nodes + 1, values = layout->n_values + 1;
  RengaCall(RengaMalloc(nodes, &layout->constant));
  RengaCall(RengaMalloc(values, &layout->needed));
  RengaCall(RengaMalloc(nodes, &layout->part));
  RengaCall(RengaMalloc(nodes, &layout->position));
  RengaCall(RengaMalloc(nodes, &layout->kernel));
  RengaCall(RengaMalloc(nodes, &layout->view));
  RengaCall(RengaMalloc(values, &layout->parent));
  RengaCall(RengaMalloc(values, &layout->storage));
  RengaCall(RengaMalloc(nodes, &layout->workspace));
  RengaCall(RengaMalloc(values, &layout->program->spec));
  RengaCall(RengaMalloc(values, &layout->program->place));
  RengaCall(RengaMalloc(layout->pipeline->n_fields + 1, &layout->program->reads));
  return RENGA_SUCCESS;
}

static RengaErrorCode Compile(Layout *layout)
{
  Program *program = layout->program;
  const RengaPipeline pipeline = layout->pipeline;
  RengaCall(AllocateLayout(layout));
  for (RengaValue v = 0; v < layout->n_values; v++)
    program->spec[v] =
        RengaTensorSpecAt(&RengaGraphGetValue(pipeline->sub, v)->spec, program->samples);
  RengaCall(RengaLayoutChoose_Private(layout));
  RengaCall(RengaLayoutPlace_Private(layout));
  RengaCall(RengaLayoutEmit_Private(layout));
  for (int f = 0; f < pipeline->n_fields; f++)
    program->reads[f] = layout->needed[pipeline->field[f].value];
  for (int s = 0; s < pipeline->n_sums; s++)
    program->uses_sums = program->uses_sums || layout->needed[pipeline->sum[s].sum];
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProgramDestroy_Private(Program **program)
{
  if (!*program) return RENGA_SUCCESS;
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++) {
    Sequence *sequence = &(*program)->part[part];
    for (int i = 0; i < sequence->count; i++) RengaFree(&sequence->row[i].place);
    RengaFree(&sequence->row);
  }
  RengaFree(&(*program)->spec);
  RengaFree(&(*program)->place);
  RengaFree(&(*program)->reads);
  RengaFree(program);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFits(RengaPipeline pipeline, const Program *program)
{
  const bool training = program->kind == PROGRAM_TRAINING;
  if (!pipeline->arena) return RENGA_SUCCESS;
  RengaCheck(program->saved_bytes <= pipeline->slot_bytes[training] &&
                 program->sent_bytes <= pipeline->sent_bytes[training] &&
                 program->temporary_bytes <= pipeline->temporary_bytes[training] &&
                 program->folded_bytes <= pipeline->folded_bytes,
             MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "micro-batches of %lld samples do not fit the memory taken at set-up (saved %lld of "
             "%lld bytes, temporary %lld of %lld): announce the size with "
             "RengaPipelineSetDataShortBatch before RengaPipelineSetUp",
             (long long)program->samples, (long long)program->saved_bytes,
             (long long)pipeline->slot_bytes[training], (long long)program->temporary_bytes,
             (long long)pipeline->temporary_bytes[training]);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddProgram(RengaPipeline pipeline, Program *program)
{
  RengaCall(CheckFits(pipeline, program));
  if (pipeline->n_programs % 8 == 0)
    RengaCall(RengaRealloc(pipeline->n_programs + 8, &pipeline->program));
  RengaCall(RengaRealloc(pipeline->largest + 1, &pipeline->argument));
  pipeline->program[pipeline->n_programs++] = program;
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateProgram(RengaPipeline pipeline, ProgramKind kind, bool adds,
                                    int64_t samples, RengaValue target)
{
  Program *program;
  RengaCall(RengaMalloc(1, &program));
  program->kind = kind;
  program->adds = adds;
  program->samples = samples;
  program->target = target;
  Layout layout = {.pipeline = pipeline,
                   .program = program,
                   .n_nodes = RengaGraphGetNodeCount(pipeline->sub),
                   .n_values = RengaGraphGetValueCount(pipeline->sub)};
  RengaErrorCode code = Compile(&layout);
  FreeLayout(&layout);
  if (code == RENGA_SUCCESS) code = AddProgram(pipeline, program);
  if (code) RengaProgramDestroy_Private(&program);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Find(RengaPipeline pipeline, ProgramKind kind, bool adds, int64_t samples,
                           RengaValue target, Program **program)
{
  for (int attempt = 0; attempt < 2; attempt++) {
    for (int p = 0; p < pipeline->n_programs; p++) {
      Program *row = pipeline->program[p];
      if (row->kind != kind || row->samples != samples || row->target != target) continue;
      if (row->adds != adds) continue;
      *program = row;
      return RENGA_SUCCESS;
    }
    if (attempt == 0) RengaCall(CreateProgram(pipeline, kind, adds, samples, target));
  }
  return RENGA_SUCCESS;
}

/* The program of a kind for micro-batches of this many samples; made where there is none yet. */
RengaErrorCode RengaPipelineGetProgram_Private(RengaPipeline pipeline, ProgramKind kind,
                                               int64_t samples, RengaValue target,
                                               Program **program)
{
  const bool adds = kind == PROGRAM_TRAINING && !RengaPipelineIsOrdered_Private(pipeline);
  RengaCall(Find(pipeline, kind, adds, samples, target, program));
  return RENGA_SUCCESS;
}

/* Gradients of parameters decide no place of what forward makes. */
static RengaErrorCode CheckForward(RengaPipeline pipeline, const Program *a, const Program *b)
{
  bool same = a->saved_bytes == b->saved_bytes && a->sent_bytes == b->sent_bytes &&
              a->folded_bytes == b->folded_bytes;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->sub); v++) {
    const int producer = RengaGraphGetValue(pipeline->sub, v)->producer;
    if (producer >= 0 && RengaGraphGetNode(pipeline->sub, producer)->phase != RENGA_PHASE_FORWARD)
      continue;
    same = same && a->place[v].region == b->place[v].region;
    same =
        same && (a->place[v].region == REGION_ABSENT || a->place[v].offset == b->place[v].offset);
  }
  RengaCheck(same, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d: forward lies elsewhere where gradients are added", pipeline->stage);
  return RENGA_SUCCESS;
}

/* The training program whose backward adds to gradients; it goes with the forward of the one that
   writes them. */
RengaErrorCode RengaPipelineGetAdding_Private(RengaPipeline pipeline, int64_t samples,
                                              Program **program)
{
  const int before = pipeline->n_programs;
  Program *writes;
  RengaCall(RengaPipelineGetProgram_Private(pipeline, PROGRAM_TRAINING, samples, RENGA_VALUE_NONE,
                                            &writes));
  RengaCall(Find(pipeline, PROGRAM_TRAINING, true, samples, RENGA_VALUE_NONE, program));
  if (pipeline->n_programs > before) RengaCall(CheckForward(pipeline, writes, *program));
  return RENGA_SUCCESS;
}
