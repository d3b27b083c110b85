/* The list of a part: kernels, and between them what the rank starts or ends. So a device may
   record all kernels of an entry as one. */
#include "entry.h"
#include "renga/private/recording.h"

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

/* An exchange is a row itself: those before it have ended for what stands there, and it starts
   behind that. */
static bool StandsBefore(const Entry *a, const Entry *b)
{
  const int order_a = a->kind == ENTRY_EXCHANGE ? 2 * !a->ends : 1;
  const int order_b = b->kind == ENTRY_EXCHANGE ? 2 * !b->ends : 1;
  return a->first != b->first ? a->first < b->first : order_a < order_b;
}

/* By the rows before which they stand; else they stay as they were listed. */
static void SortEntries(EntryList *list)
{
  for (int e = 1; e < list->count; e++) {
    const Entry entry = list->entry[e];
    int at = e;
    for (; at > 0 && StandsBefore(&entry, &list->entry[at - 1]); at--)
      list->entry[at] = list->entry[at - 1];
    list->entry[at] = entry;
  }
}

/* What is computed on the host is no part of a recording. */
static bool MayBeRecorded(const Instruction *row)
{
  return !row->kernel || RengaKernelCanBeRecorded_Private(row->kernel);
}

/* cuts: at rows that a device which records cannot record, so that it records the others. */
static RengaErrorCode AddKernels(const Sequence *sequence, bool cuts, EntryList *list, int first,
                                 int last)
{
  while (first < last) {
    const bool recorded = MayBeRecorded(&sequence->row[first]);
    int end = first + 1;
    while (end < last && (!cuts || MayBeRecorded(&sequence->row[end]) == recorded)) end++;
    RengaCall(RengaEntryAdd_Private(
        list, (Entry){.kind = ENTRY_KERNELS, .first = first, .last = end, .bucket = -1}));
    first = end;
  }
  return RENGA_SUCCESS;
}

/* sums: else without them. */
static RengaErrorCode PutKernelsBetween(const Sequence *sequence, const EntryList *between,
                                        bool cuts, bool sums, EntryList *list)
{
  int row = 0;
  for (int e = 0; e < between->count; e++) {
    const Entry *entry = &between->entry[e];
    if (entry->kind == ENTRY_SUM && !sums) continue;
    RengaCall(AddKernels(sequence, cuts, list, row, entry->first));
    if (entry->first > row) row = entry->first;
    RengaCall(RengaEntryAdd_Private(list, *entry));
    if (entry->kind == ENTRY_EXCHANGE && !entry->ends) row = entry->first + 1;
  }
  RengaCall(AddKernels(sequence, cuts, list, row, sequence->count));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartList_Private(const Chunk *chunk, const Program *program, ProgramPart part,
                                     bool sums, EntryList *list)
{
  EntryList between = {0};
  RengaErrorCode code = RENGA_SUCCESS;
  const bool cuts = part != PART_CONSTANT && RengaDeviceRecords_Private(chunk->device);
  for (EntryKind kind = 0; kind < ENTRY_COUNT && !code; kind++) {
    const EntryRule *rule = RengaEntryRule_Private(kind);
    if (rule && rule->list) code = rule->list(chunk, program, part, &between);
  }
  SortEntries(&between);
  if (!code) code = PutKernelsBetween(&program->part[part], &between, cuts, sums, list);
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
          "time: give batches that are whole micro-batches, or -layout_zero 2",
          chunk->stage, (long long)program->samples, (long long)first->samples);
    } while (x);
  }
  return RENGA_SUCCESS;
}

static bool BeginsSumsIn(const Sequence *sequence)
{
  bool has = false;
  for (int e = 0; e < sequence->n_entries; e++) has = has || sequence->entry[e].kind == ENTRY_SUM;
  return has;
}

/* Of several micro-batches all but the last one's backward begin no sums, and are not cut there. */
static RengaErrorCode ListWhole(const Chunk *chunk, const Program *program, ProgramPart part,
                                EntryList *list)
{
  if (BeginsSumsIn(&program->part[part]) && !RengaChunkShardsGradients_Private(chunk))
    RengaCall(RengaPartList_Private(chunk, program, part, false, list));
  return RENGA_SUCCESS;
}

static RengaErrorCode ListPart(const Chunk *chunk, Program *program, ProgramPart part)
{
  Sequence *sequence = &program->part[part];
  EntryList list = {0}, whole = {0};
  RengaCall(RengaChunkFindTouched_Private(chunk, program, part));
  RengaErrorCode code = RengaPartList_Private(chunk, program, part, true, &list);
  sequence->entry = list.entry;
  sequence->n_entries = list.count;
  if (!code) code = ListWhole(chunk, program, part, &whole);
  sequence->whole = whole.entry;
  sequence->n_whole = whole.count;
  if (!code) code = RengaPartProve_Private(chunk, program, part);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void ForgetLists(Program *program)
{
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++) {
    RengaFree(&program->part[part].entry);
    RengaFree(&program->part[part].whole);
    program->part[part].n_entries = program->part[part].n_whole = 0;
  }
}

/* Of all parts: before a step, as it allocates. */
RengaErrorCode RengaChunkListProgram_Private(const Chunk *chunk, Program *program)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (program->listed) return RENGA_SUCCESS;
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT && !code; part++)
    code = ListPart(chunk, program, part);
  for (int p = 0; p < chunk->programs->count && !code; p++) {
    const Program *first = chunk->programs->row[p];
    if (first->listed && first->kind == program->kind && first->target == program->target)
      code = CompareGathers(chunk, program, first);
  }
  if (code) ForgetLists(program);
  RengaCall(code);
  program->listed = true;
  return RENGA_SUCCESS;
}
