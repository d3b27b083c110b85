/* Exchanges of a tensor group: each rank gives the others, or the one that needs it, what its lanes
   have made. As messages of links they are made whatever happens: where a pass fails, the exchanges
   that its kernels did not come to follow, and what they bring is not looked at. */
#include "exchange.h"
#include <string.h>

static void DescribeExchange(const Chunk *chunk, size_t size, char what[])
{
  snprintf(what, size,
           "rank %d (stage %d, replica %d, tensor rank %d) exchanges what lanes have made with the "
           "%d others of its tensor group in step %lld",
           RengaCommGetRank(chunk->pipeline->rank.all), chunk->stage, chunk->replica,
           chunk->tensor.rank, chunk->tensor.size - 1, (long long)chunk->pipeline->step);
}

static bool GoesTo(const LaneTerm *term, int rank)
{
  return rank != term->from && (term->to == RENGA_TENSOR_ALL || term->to == rank);
}

static RengaErrorCode PostTerm(Chunk *chunk, Pass *pass, const Instruction *row, int t, int peer,
                               RengaRequest *request)
{
  TensorGroup *tensor = &chunk->tensor;
  const LaneTerm *term = &row->term[t];
  char *place = RengaChunkAt_Private(chunk, row->place[t]);
  RengaErrorCode code;
  int attempt = 0;
  *request = NULL;
  do
    code = term->from == tensor->rank
               ? RengaCommSend(tensor->comm, place, (size_t)term->bytes, peer, t, request)
               : RengaCommReceive(tensor->comm, place, (size_t)term->bytes, peer, t, request);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Receives first. */
static RengaErrorCode PostTerms(Chunk *chunk, Pass *pass, const Instruction *row, int *count)
{
  TensorGroup *tensor = &chunk->tensor;
  for (int t = 0; t < row->n_out; t++)
    if (GoesTo(&row->term[t], tensor->rank))
      RengaCall(PostTerm(chunk, pass, row, t, row->term[t].from, &tensor->request[(*count)++]));
  for (int t = 0; t < row->n_out; t++) {
    if (row->term[t].from != tensor->rank) continue;
    if (pass->failed) /* others may compute with it until they hear of the error */
      memset(RengaChunkAt_Private(chunk, row->place[t]), 0, (size_t)row->term[t].bytes);
    for (int peer = 0; peer < tensor->size; peer++)
      if (GoesTo(&row->term[t], peer))
        RengaCall(PostTerm(chunk, pass, row, t, peer, &tensor->request[(*count)++]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AwaitTerms(Chunk *chunk, Pass *pass, int count)
{
  char what[256];
  DescribeExchange(chunk, sizeof what, what);
  for (int i = 0; i < count; i++) {
    RengaErrorCode code = RENGA_SUCCESS;
    int attempt = 0;
    do
      if (chunk->tensor.request[i])
        code = RengaCommWait(chunk->tensor.comm, &chunk->tensor.request[i], what);
    while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

static int64_t BytesOfTerms(const Instruction *row)
{
  int64_t bytes = 0;
  for (int t = 0; t < row->n_out; t++) bytes += row->term[t].bytes;
  return bytes;
}

/* The bases are set. Fails only where messages are left under way. */
RengaErrorCode RengaChunkExchange_Private(Chunk *chunk, Pass *pass, const Instruction *row)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_EXCHANGE);
  int count = 0;
  RengaErrorCode code = RengaPipelineSettle_Private(chunk->pipeline, pass, true);
  chunk->tensor.done++;
  if (!code && pass->refused) return RENGA_SUCCESS; /* on all ranks */
  RengaLogEventBegin(event);
  if (!code) code = PostTerms(chunk, pass, row, &count);
  if (!code) code = AwaitTerms(chunk, pass, count);
  RengaLogEventEnd(event, 0, count, BytesOfTerms(row));
  chunk->tensor.lost = code;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Behind an action that runs these parts of the program of micro-batch number: the exchanges that
   it did not come to. Fails only where messages are left under way. */
RengaErrorCode RengaChunkEndExchanges_Private(Chunk *chunk, Pass *pass, ProgramPart first,
                                              ProgramPart last, int64_t number)
{
  Program *program;
  const int64_t samples = RengaPassSamples_Private(chunk->pipeline, pass, number);
  const int done = chunk->tensor.done;
  chunk->tensor.done = 0;
  if (chunk->tensor.size == 1) return RENGA_SUCCESS;
  RengaCall(chunk->tensor.lost);
  if (!pass->failed || pass->refused) return RENGA_SUCCESS;
  chunk->base[REGION_GRADIENTS] = chunk->gradients.sum; /* none may have been taken */
  RengaCall(
      RengaChunkGetProgram_Private(chunk, pass->kind, samples, chunk->portion.target, &program));
  int at = 0;
  for (ProgramPart part = first; part <= last; part++)
    for (int i = 0; i < program->part[part].count; i++) {
      const Instruction *row = &program->part[part].row[i];
      if (row->kind == INSTRUCTION_EXCHANGE && at++ >= done)
        RengaCall(RengaChunkExchange_Private(chunk, pass, row));
    }
  chunk->tensor.done = 0;
  return RENGA_SUCCESS;
}

/* Bytes that the rank of the group which sends or gets most of an exchange sends or gets. */
static int64_t MostOfTerms(const TensorGroup *tensor, const Instruction *row)
{
  int64_t most = 0;
  for (int rank = 0; rank < tensor->size; rank++) {
    int64_t sent = 0, taken = 0;
    for (int t = 0; t < row->n_out; t++) {
      const LaneTerm *term = &row->term[t];
      const int copies = term->to == RENGA_TENSOR_ALL ? tensor->size - 1 : 1;
      if (term->from == rank) sent += copies * term->bytes;
      if (GoesTo(term, rank)) taken += term->bytes;
    }
    if (sent > most) most = sent;
    if (taken > most) most = taken;
  }
  return most;
}

/* Once all programs of set-up are compiled: the exchanges of a micro-batch in training, by the
   first program; they are the same on all ranks of the group. Those that are made again count as
   such, whatever part they run in. */
void RengaChunkCountExchanges_Private(Chunk *chunk)
{
  const Program *program = NULL;
  for (int p = 0; p < chunk->programs.count && !program; p++)
    if (chunk->programs.row[p]->kind == PROGRAM_TRAINING) program = chunk->programs.row[p];
  for (ProgramPart part = PART_FORWARD; program && part < PART_COUNT; part++)
    for (int i = 0; i < program->part[part].count; i++) {
      const Instruction *row = &program->part[part].row[i];
      if (row->kind != INSTRUCTION_EXCHANGE) continue;
      RengaForecastTerms *terms = &chunk->sizes.terms[row->again ? PART_AGAIN : part];
      terms->count++;
      terms->bytes += MostOfTerms(&chunk->tensor, row);
    }
}
