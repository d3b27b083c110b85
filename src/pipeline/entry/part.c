/* The loop over the entries of a part: what its list says is what is run, all of it. */
#include "entry.h"
#include "renga/private/log.h"

static RengaErrorCode RunEntries(const EntryTask *task)
{
  const Sequence *sequence = task->sequence;
  const bool whole = sequence->whole && !task->chunk->gradients->early;
  const int count = whole ? sequence->n_whole : sequence->n_entries;
  for (int e = 0; e < count && !task->pass->refused; e++) {
    Entry *entry = whole ? &sequence->whole[e] : &sequence->entry[e];
    const EntryRule *rule = RengaEntryRule_Private(entry->kind);
    if (rule->own && !task->context) continue;
    RengaCall((entry->ends ? rule->end : rule->start)(task, entry));
  }
  return RENGA_SUCCESS;
}

/* A device that works later and does not say when: the log's times are those of the work because
   the host waits for it. */
static RengaErrorCode AwaitForLog(RengaPipeline pipeline)
{
  if (RengaLogIsWanted_Private() && !RengaDeviceHasSpans_Private(pipeline->device))
    RengaCall(RengaPipelineAwaitDevice_Private(pipeline));
  return RENGA_SUCCESS;
}

/* The bases are set. context NULL: only other replicas have the micro-batch. Kernels run as long as
   no rank is known to have failed, all else whatever happens. Fails only where messages are left
   under way; other errors are noted in the pass. */
RengaErrorCode RengaChunkRunPart_Private(Chunk *chunk, Pass *pass, const Program *program,
                                         ProgramPart part, const RengaKernelContext *context)
{
  const EntryTask task = {
      .chunk = chunk, .pass = pass, .sequence = &program->part[part], .context = context};
  RengaCheck(program->listed, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "a program of %lld samples is run before its entries are listed",
             (long long)program->samples);
  RengaCall(RunEntries(&task));
  if (!pass->failed)
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, AwaitForLog(chunk->pipeline)));
  return RENGA_SUCCESS;
}

/* The same for the log: "forward 3". */
RengaErrorCode RengaChunkRunTimed_Private(Chunk *chunk, Pass *pass, const Program *program,
                                          ProgramPart part, PipelineEvent event,
                                          const RengaAction *action)
{
  const RengaKernelContext context = RengaChunkContext_Private(chunk, pass, action->microbatch);
  char name[48];
  RengaSpan span;
  RengaPipelineNameAction_Private(action, sizeof name, name);
  const RengaErrorCode begun = RengaPipelineBeginTimed_Private(chunk->pipeline, event, &span);
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, begun));
  const RengaErrorCode code = RengaChunkRunPart_Private(chunk, pass, program, part, &context);
  RengaErrorCode ended = RENGA_SUCCESS;
  if (!begun)
    ended = RengaPipelineEndTimed_Private(chunk->pipeline, event, span, program->part[part].flops,
                                          name, RENGA_SUCCESS);
  RengaCall(code);
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, ended));
  return RENGA_SUCCESS;
}
