/* The kinds of entries, and the lists of parts that follow from them: kernels, and between them
   what the rank starts or ends. So a device may record all kernels of an entry as one. */
#include "entry.h"

static const EntryRule *outside;

/* Kinds are listed in this order, and may look at what is there already. */
const EntryRule *RengaEntryRule_Private(EntryKind kind)
{
  static const EntryRule *const rule[ENTRY_COUNT] = {[ENTRY_SUM] = &RengaSumEntry_Private,
                                                     [ENTRY_EXCHANGE] = &RengaExchangeEntry_Private,
                                                     [ENTRY_VALUES] = &RengaValuesEntry_Private,
                                                     [ENTRY_GATHER] = &RengaGatherEntry_Private,
                                                     [ENTRY_KERNELS] = &RengaKernelsEntry_Private};
  return kind == ENTRY_OUTSIDE ? outside : rule[kind];
}

void RengaEntrySetOutside_Private(const EntryRule *rule)
{
  outside = rule;
}

static RengaErrorCode ListEntries(const Chunk *chunk, const Program *program, ProgramPart part,
                                  EntryList *list)
{
  EntryList between = {0};
  RengaErrorCode code = RENGA_SUCCESS;
  for (EntryKind kind = 0; kind < ENTRY_COUNT && !code; kind++) {
    const EntryRule *rule = RengaEntryRule_Private(kind);
    if (rule && rule->list) code = rule->list(chunk, program, part, &between);
  }
  if (!code) code = RengaEntryPutKernelsBetween_Private(&program->part[part], &between, list);
  RengaFree(&between.entry);
  RengaCheck(code || part != PART_CONSTANT || list->count <= 1, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "what depends on constants only has %d entries: other ranks would wait for them",
             list->count);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The next gather of a part behind entry *e; NULL: there is none. */
static const Entry *NextGather(const Sequence *sequence, int *e)
{
  while (*e < sequence->n_entries) {
    const Entry *entry = &sequence->entry[(*e)++];
    if (entry->kind == ENTRY_GATHER) return entry;
  }
  return NULL;
}

/* Replicas may run programs of different sizes at the same time, and their gathers follow each
   other without names. */
static RengaErrorCode CompareGathers(const Chunk *chunk, const Program *program,
                                     const Program *first)
{
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++) {
    int a = 0, b = 0;
    const Entry *x, *y;
    do {
      x = NextGather(&program->part[part], &a);
      y = NextGather(&first->part[part], &b);
      RengaCheck(
          x && y ? x->bucket == y->bucket && x->ends == y->ends : !x && !y, MPI_COMM_SELF,
          RENGA_ERR_SUPPORT,
          "stage %d: micro-batches of %lld samples would gather the parameters of buckets in "
          "another order than those of %lld do, which other replicas may have at the same "
          "time: give batches that are whole micro-batches, or -pipeline_shard gradients",
          chunk->stage, (long long)program->samples, (long long)first->samples);
    } while (x);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ListPart(const Chunk *chunk, Program *program, ProgramPart part)
{
  Sequence *sequence = &program->part[part];
  EntryList list = {0};
  RengaCall(RengaChunkFindTouched_Private(chunk, program, part));
  const RengaErrorCode code = ListEntries(chunk, program, part, &list);
  if (code) RengaFree(&list.entry);
  RengaCall(code);
  sequence->entry = list.entry;
  sequence->n_entries = list.count;
  RengaCall(RengaPartProve_Private(chunk, program, part));
  return RENGA_SUCCESS;
}

static void ForgetLists(Program *program)
{
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++) {
    RengaFree(&program->part[part].entry);
    program->part[part].n_entries = 0;
  }
}

/* Of all parts: before a step, as it allocates. */
RengaErrorCode RengaChunkListProgram_Private(const Chunk *chunk, Program *program)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (program->listed) return RENGA_SUCCESS;
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT && !code; part++)
    code = ListPart(chunk, program, part);
  for (int p = 0; p < chunk->programs.count && !code; p++) {
    const Program *first = chunk->programs.row[p];
    if (first->listed && first->kind == program->kind && first->target == program->target)
      code = CompareGathers(chunk, program, first);
  }
  if (code) ForgetLists(program);
  RengaCall(code);
  program->listed = true;
  return RENGA_SUCCESS;
}
