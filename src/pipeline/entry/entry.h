/* Entries: what a rank does in a part of a program besides queueing kernels has an entry in the
   part's list, where it starts, and, if it goes on beside kernels, another one where it ends: sums
   of gradients, exchanges of a tensor group, gathers of parameters. What an entry waits for follows
   from where it stands (list.c), and is proved (prove.c). One loop runs them all (part.c): in a
   pass that has failed all but the kernels, because others wait for them.

   A kind of entry is a row of the table in list.c, and one file. */
#pragma once
#include "../gradients.h"

/* A part that runs. */
typedef struct {
  Chunk *chunk;
  Pass *pass;
  const Sequence *sequence;
  const RengaKernelContext *context; /* NULL: only other replicas have the micro-batch */
} EntryTask;

typedef struct {
  int count, size;
  Entry *entry;
} EntryList;
static inline RengaErrorCode RengaEntryAdd_Private(EntryList *list, Entry entry)
{
  if (list->count == list->size) {
    RengaCall(RengaRealloc(2 * list->size + 8, &list->entry));
    list->size = 2 * list->size + 8;
  }
  list->entry[list->count++] = entry;
  return RENGA_SUCCESS;
}

/* start, end: fail only where messages are left under way; other errors are noted in the pass. They
   are called in a pass that has failed, too. */
typedef struct {
  const char *name;
  bool own; /* done by who has the micro-batch; else by all replicas */
  RengaErrorCode (*list)(const Chunk *chunk, const Program *program, ProgramPart part,
                         EntryList *list);
  RengaErrorCode (*start)(const EntryTask *task, Entry *entry);
  RengaErrorCode (*end)(const EntryTask *task, Entry *entry);
} EntryRule;
extern const EntryRule RengaSumEntry_Private, RengaExchangeEntry_Private, RengaValuesEntry_Private,
    RengaGatherEntry_Private, RengaKernelsEntry_Private;
const EntryRule *RengaEntryRule_Private(EntryKind kind);
void RengaEntrySetOutside_Private(const EntryRule *rule); /* NULL: none; before set-up */

/* list.c: of one part, which has none yet; sums: of a backward that begins them, too */
RengaErrorCode RengaPartList_Private(const Chunk *chunk, const Program *program, ProgramPart part,
                                     bool sums, EntryList *list);
/* prove.c */
RengaErrorCode RengaPartProve_Private(const Chunk *chunk, const Program *program, ProgramPart part);
/* reducescatter.c, whose sums start and end as entries say */
RengaErrorCode RengaChunkStartRoundSum_Private(Chunk *chunk, Pass *pass, int bucket);
RengaErrorCode RengaChunkClearRoundSum_Private(Chunk *chunk, Pass *pass, int bucket);
/* Actions of the rank's list that are parts (part.c, forward.c, backward.c). program: of the
   micro-batch, which stands in place i of the chunk's. */
RengaErrorCode RengaChunkRunTimed_Private(Chunk *chunk, Pass *pass, const Program *program,
                                          ProgramPart part, PipelineEvent event,
                                          const RengaAction *action);
RengaErrorCode RengaChunkBeginAction_Private(Chunk *chunk, Pass *pass, Program *program, bool adds,
                                             const RengaAction *action);
typedef RengaErrorCode (*RunOfMicrobatch)(Chunk *chunk, Pass *pass, Program *program,
                                          const RengaAction *action, int64_t i);
RengaErrorCode RengaChunkForward_Private(Chunk *chunk, Pass *pass, Program *program,
                                         const RengaAction *action, int64_t i);
RengaErrorCode RengaChunkRecompute_Private(Chunk *chunk, Pass *pass, Program *program,
                                           const RengaAction *action, int64_t i);
RengaErrorCode RengaChunkBackwardInput_Private(Chunk *chunk, Pass *pass, Program *program,
                                               const RengaAction *action, int64_t i);
RengaErrorCode RengaChunkBackward_Private(Chunk *chunk, Pass *pass, Program *program,
                                          const RengaAction *action, int64_t i);
