/* Exchanges of a tensor group: each rank gives the others, or the one that needs it, what its lanes
   have made, from device to device by the transport. They are made whatever happens (walk.c). */
#include "exchange.h"
#include "renga/private/fault.h"
#include "renga/private/log.h"

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

/* A message of an exchange that this rank sends or receives: of a term, with another of the
   group. */
typedef struct {
  int number; /* among those of the rank: receives come first */
  int term, peer;
  bool receives;
} LaneMessage;

/* The next one, beginning with {.number = -1}; false: there is none. */
static bool NextMessage(const TensorGroup *tensor, const Instruction *row, LaneMessage *message)
{
  if (message->number < 0) *message = (LaneMessage){.number = -1, .term = -1, .receives = true};
  message->number++;
  for (; message->receives; message->receives = false, message->term = 0, message->peer = -1)
    while (++message->term < row->n_out)
      if (GoesTo(&row->term[message->term], tensor->rank)) {
        message->peer = row->term[message->term].from;
        return true;
      }
  for (; message->term < row->n_out; message->term++, message->peer = -1) {
    if (row->term[message->term].from != tensor->rank) continue;
    while (++message->peer < tensor->size)
      if (GoesTo(&row->term[message->term], message->peer)) return true;
  }
  return false;
}

static RengaErrorCode MakeParcel(Chunk *chunk, int number, size_t bytes)
{
  const Rank *rank = &chunk->pipeline->rank;
  TensorGroup *tensor = &chunk->tensor;
  if (number == tensor->most) {
    RengaCall(RengaRealloc(number + 1, &tensor->parcel));
    RengaCall(RengaRealloc(number + 1, &tensor->room));
    tensor->parcel[number] = NULL;
    tensor->most++;
  }
  if (tensor->parcel[number] && bytes <= tensor->room[number]) return RENGA_SUCCESS;
  RengaCall(RengaParcelDestroy_Private(&tensor->parcel[number]));
  RengaCall(RengaParcelCreate_Private(rank->transport, rank->all, bytes, &tensor->parcel[number]));
  tensor->room[number] = bytes;
  return RENGA_SUCCESS;
}

/* Of a program that was made, once the ranks are connected: before a step, as it allocates. */
RengaErrorCode RengaChunkMakeRoomForExchanges_Private(Chunk *chunk, const Program *program)
{
  if (chunk->tensor.size == 1 || !chunk->pipeline || !chunk->pipeline->rank.transport)
    return RENGA_SUCCESS;
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++)
    for (int i = 0; i < program->part[part].count; i++) {
      const Instruction *row = &program->part[part].row[i];
      LaneMessage message = {.number = -1};
      while (row->kind == INSTRUCTION_EXCHANGE && NextMessage(&chunk->tensor, row, &message))
        RengaCall(MakeParcel(chunk, message.number, (size_t)row->term[message.term].bytes));
    }
  return RENGA_SUCCESS;
}

/* However many there are. */
RengaErrorCode RengaChunkFreeExchanges_Private(Chunk *chunk)
{
  TensorGroup *tensor = &chunk->tensor;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int m = 0; m < tensor->most; m++)
    RengaKeepFirst_Private(&code, RengaParcelDestroy_Private(&tensor->parcel[m]));
  RengaFree(&tensor->parcel);
  RengaFree(&tensor->room);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Terms between two ranks of the group follow each other under one tag, and those of exchanges. */
static RengaErrorCode PostMessage(Chunk *chunk, Pass *pass, const Instruction *row,
                                  const LaneMessage *message)
{
  TensorGroup *tensor = &chunk->tensor;
  const RengaPlanPlace at = {
      .stage = chunk->stage, .replica = chunk->replica, .tensor = message->peer};
  const int peer = RengaPlanGetRankAt(chunk->outline->plan, &at);
  const int tag = RengaOutlineTag_Private(chunk->outline, TAG_EXCHANGE);
  const size_t bytes = (size_t)row->term[message->term].bytes;
  char *place = RengaChunkAt_Private(chunk, row->place[message->term]);
  RengaParcel parcel = tensor->parcel[message->number];
  RengaErrorCode code = RENGA_SUCCESS;
  int attempt = 0;
  if (pass->failed && !message->receives) /* others may compute with it until they hear of it */
    code = RengaDeviceSetBytes(chunk->device, NULL, place, 0, bytes);
  RengaCall(code);
  do
    code = message->receives ? RengaParcelReceive_Private(parcel, place, bytes, peer, tag)
                             : RengaParcelSend_Private(parcel, place, bytes, peer, tag);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PostMessages(Chunk *chunk, Pass *pass, const Instruction *row, int *count)
{
  LaneMessage message = {.number = -1};
  while (NextMessage(&chunk->tensor, row, &message)) {
    RengaCall(PostMessage(chunk, pass, row, &message));
    (*count)++;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AwaitMessages(Chunk *chunk, Pass *pass, int count)
{
  char what[256];
  DescribeExchange(chunk, sizeof what, what);
  for (int i = 0; i < count; i++) {
    RengaErrorCode code;
    int attempt = 0;
    do code = RengaParcelWait_Private(chunk->tensor.parcel[i], what);
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
  chunk->walk.exchanges++;
  if (!code && pass->refused) return RENGA_SUCCESS; /* on all ranks */
  RengaFaultMeetAction("exchange", chunk->stage, -1);
  const double began = MPI_Wtime();
  RengaLogEventBegin(event);
  if (!code) code = PostMessages(chunk, pass, row, &count);
  if (!code) code = AwaitMessages(chunk, pass, count);
  RengaLogEventEnd(event, 0, count, BytesOfTerms(row));
  if (RengaLogTraceIsOn()) RengaLogTrace("communication", "exchange", began, MPI_Wtime());
  chunk->walk.lost = code;
  RengaCall(code);
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
