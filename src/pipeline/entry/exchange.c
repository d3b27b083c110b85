/* Exchanges of a tensor group: each rank gives the others, or the one that needs it, what its lanes
   have made, from device to device by the transport, and it arrives beside kernels that touch none
   of it. */
#include "../exchange.h"
#include "entry.h"
#include "renga/private/fault.h"

/* Messages of a chunk's exchanges, of which one is under way at a time. */
struct _p_LaneExchange {
  int most;            /* messages of an exchange, at the most */
  RengaParcel *parcel; /* [most] */
  size_t *room;        /* [most] bytes of each */
  int under_way;       /* messages of the exchange that has started */
  double began;        /* MPI_Wtime */
};

static void DescribeExchange(const Chunk *chunk, size_t size, char what[])
{
  const RengaLaneGroup *group = &chunk->tensor.group;
  const char *tensor = group->ranks[RENGA_LANES_OF_HEADS] > 1 ? "tensor-parallel" : "";
  const char *context = group->ranks[RENGA_LANES_OF_TOKENS] == 1 ? ""
                        : *tensor                                ? " and context-parallel"
                                                                 : "context-parallel";
  snprintf(what, size,
           "rank %d (stage %d, replica %d, %s%s rank %d) exchanges what lanes have made with the "
           "%d others of its %s%s group in step %lld",
           RengaCommGetRank(chunk->pipeline->rank->all), chunk->stage, chunk->replica, tensor,
           context, chunk->tensor.rank, chunk->tensor.group.size - 1, tensor, context,
           (long long)chunk->pipeline->step);
}

static bool GoesTo(const TensorGroup *tensor, const LaneTerm *term, int n)
{
  const int rank = RengaLaneGroupRank_Private(&tensor->group, n);
  return RengaLaneCovers(term->to, rank) && !RengaLaneCovers(term->from, rank);
}

/* Who gives it to rank n. */
static int Giver(const TensorGroup *tensor, const LaneTerm *term, int n)
{
  return RengaLaneGroupAt_Private(&tensor->group, term->from, n);
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
      if (GoesTo(tensor, &row->term[message->term], tensor->rank)) {
        message->peer = Giver(tensor, &row->term[message->term], tensor->rank);
        return true;
      }
  for (; message->term < row->n_out; message->term++, message->peer = -1) {
    const LaneTerm *term = &row->term[message->term];
    if (Giver(tensor, term, tensor->rank) != tensor->rank) continue;
    while (++message->peer < tensor->group.size)
      if (GoesTo(tensor, term, message->peer) && Giver(tensor, term, message->peer) == tensor->rank)
        return true;
  }
  return false;
}

static RengaErrorCode MakeParcel(Chunk *chunk, int number, size_t bytes)
{
  const Rank *rank = chunk->pipeline->rank;
  LaneExchange *exchange = chunk->exchange;
  if (number == exchange->most) {
    RengaCall(RengaRealloc(number + 1, &exchange->parcel));
    RengaCall(RengaRealloc(number + 1, &exchange->room));
    exchange->parcel[number] = NULL;
    exchange->most++;
  }
  RengaParcel *parcel = &exchange->parcel[number];
  if (*parcel && bytes <= exchange->room[number]) return RENGA_SUCCESS;
  RengaCall(RengaParcelDestroy_Private(parcel));
  RengaCall(RengaParcelCreate_Private(rank->transport, rank->all, bytes, parcel));
  exchange->room[number] = bytes;
  return RENGA_SUCCESS;
}

/* Of a program that was made, once the ranks are connected: before a step, as it allocates. */
RengaErrorCode RengaChunkMakeRoomForExchanges_Private(Chunk *chunk, const Program *program)
{
  if (chunk->tensor.group.size == 1 || !chunk->pipeline || !chunk->pipeline->rank->transport)
    return RENGA_SUCCESS;
  if (!chunk->exchange) RengaCall(RengaMalloc(1, &chunk->exchange));
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
  LaneExchange *exchange = chunk->exchange;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!exchange) return RENGA_SUCCESS;
  for (int m = 0; m < exchange->most; m++)
    RengaKeepFirst_Private(&code, RengaParcelDestroy_Private(&exchange->parcel[m]));
  RengaFree(&exchange->parcel);
  RengaFree(&exchange->room);
  RengaFree(&chunk->exchange);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static int RankOfGroup(const Chunk *chunk, int n)
{
  const RengaPlan plan = chunk->outline->plan;
  const RengaPlanPlace at = RengaPlanPlaceOf_Private(plan, chunk->stage, chunk->replica, n);
  return RengaPlanGetRankAt(plan, &at);
}

/* Terms between two ranks of the group follow each other under one tag, and those of exchanges. */
static RengaErrorCode PostMessage(Chunk *chunk, Pass *pass, const Instruction *row,
                                  const LaneMessage *message)
{
  const ChunkMessage parcel = {.parcel = chunk->exchange->parcel[message->number],
                               .receives = message->receives,
                               .data = RengaChunkAt_Private(chunk, row->place[message->term]),
                               .bytes = (size_t)row->term[message->term].bytes,
                               .peer = RankOfGroup(chunk, message->peer),
                               .tag = RengaOutlineTag_Private(chunk->outline, TAG_EXCHANGE)};
  if (pass->failed && !message->receives) /* others may compute with it until they hear of it */
    RengaCall(RengaDeviceSetBytes(chunk->device, NULL, parcel.data, 0, parcel.bytes));
  RengaCall(RengaChunkPost_Private(chunk, pass, &parcel));
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
  for (int i = 0; i < count; i++)
    RengaCall(RengaChunkAwait_Private(chunk, pass, chunk->exchange->parcel[i], what));
  return RENGA_SUCCESS;
}

static int64_t BytesOfTerms(const Instruction *row)
{
  int64_t bytes = 0;
  for (int t = 0; t < row->n_out; t++) bytes += row->term[t].bytes;
  return bytes;
}

/* Signals come through while others are waited for. */
static RengaErrorCode StartExchangeEntry(const EntryTask *task, Entry *entry)
{
  Chunk *chunk = task->chunk;
  LaneExchange *exchange = chunk->exchange;
  const Instruction *row = &task->sequence->row[entry->first];
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_EXCHANGE);
  RengaCall(RengaPipelineSettle_Private(chunk->pipeline, task->pass, true));
  if (task->pass->refused) return RENGA_SUCCESS; /* on all ranks */
  RengaFaultMeetAction("exchange", chunk->stage, -1);
  exchange->began = MPI_Wtime();
  exchange->under_way = 0;
  RengaLogEventBegin(event);
  const RengaErrorCode code = PostMessages(chunk, task->pass, row, &exchange->under_way);
  RengaLogEventEnd(event, 0, exchange->under_way, BytesOfTerms(row));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode EndExchangeEntry(const EntryTask *task, Entry *entry)
{
  LaneExchange *exchange = task->chunk->exchange;
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_EXCHANGE);
  const int count = exchange->under_way;
  (void)entry;
  exchange->under_way = 0;
  RengaLogEventBegin(event);
  const RengaErrorCode code = AwaitMessages(task->chunk, task->pass, count);
  RengaLogEventEnd(event, 0, 0, 0);
  if (RengaLogTraceIsOn()) RengaLogTrace("communication", "exchange", exchange->began, MPI_Wtime());
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The row before which the exchange ends at the latest: what it brings of gradients is there when a
   sum starts. */
static int LastEnd(const Sequence *sequence, int exchange, const EntryList *list)
{
  const Instruction *row = &sequence->row[exchange];
  int last = sequence->count;
  bool gradients = false;
  for (int t = 0; t < row->n_out; t++)
    gradients = gradients || row->place[t].region == REGION_GRADIENTS;
  for (int e = 0; e < list->count && gradients; e++) {
    const Entry *entry = &list->entry[e];
    if (entry->kind == ENTRY_SUM && entry->first > exchange && entry->first < last)
      last = entry->first;
  }
  return last;
}

static bool MayRunBeside(const Instruction *row, const Instruction *exchange)
{
  return row->kind != INSTRUCTION_EXCHANGE && !RengaInstructionsConflict_Private(row, exchange);
}

/* It ends before the first row that needs it to have ended, and before the next one. */
static RengaErrorCode ListExchangeEntries(const Chunk *chunk, const Program *program,
                                          ProgramPart part, EntryList *list)
{
  const Sequence *sequence = &program->part[part];
  for (int i = 0; i < sequence->count; i++) {
    const Instruction *row = &sequence->row[i];
    int end = i + 1;
    if (row->kind != INSTRUCTION_EXCHANGE) continue;
    const int last = chunk->outline->settings->overlap ? LastEnd(sequence, i, list) : end;
    while (end < last && MayRunBeside(&sequence->row[end], row)) end++;
    const Entry entry = {.kind = ENTRY_EXCHANGE, .first = i, .bucket = -1};
    RengaCall(RengaEntryAdd_Private(list, entry));
    const Entry ends = {.kind = ENTRY_EXCHANGE, .ends = true, .first = end, .bucket = -1};
    RengaCall(RengaEntryAdd_Private(list, ends));
  }
  return RENGA_SUCCESS;
}

const EntryRule RengaExchangeEntry_Private = {.name = "exchange",
                                              .own = true,
                                              .list = ListExchangeEntries,
                                              .start = StartExchangeEntry,
                                              .end = EndExchangeEntry};

/* How many ranks rank n of the group gives the term to: those beside it. */
static int CountTakers(const TensorGroup *tensor, const LaneTerm *term, int n)
{
  const int rank = RengaLaneGroupRank_Private(&tensor->group, n);
  int count = 1;
  if (!RengaLaneCovers(term->from, rank)) return 0;
  for (int k = 0; k < RENGA_LANE_KINDS; k++) {
    const RengaLaneKind kind = (RengaLaneKind)k;
    const int to = RengaLaneOfKind(term->to, kind);
    if (RengaLaneOfKind(term->from, kind))
      count *= to ? 1 : tensor->group.ranks[k];
    else if (to && to != RengaLaneOfKind(rank, kind))
      return 0;
  }
  return count - RengaLaneCovers(term->to, rank);
}

/* Bytes that the rank of the group which sends or gets most of an exchange sends or gets. */
static RengaForecastTerms MostOfTerms(const TensorGroup *tensor, const Instruction *row)
{
  const int each = tensor->group.ranks[RENGA_LANES_OF_HEADS];
  RengaForecastTerms most = {0};
  for (int rank = 0; rank < tensor->group.size; rank++) {
    const int context =
        RengaLaneOfKind(RengaLaneGroupRank_Private(&tensor->group, rank), RENGA_LANES_OF_TOKENS);
    RengaForecastTerms sent = {0}, taken = {0};
    for (int t = 0; t < row->n_out; t++) {
      const LaneTerm *term = &row->term[t];
      const LaneTerm near = {.from = term->from,
                             .to = RengaLaneOfKind(term->to, RENGA_LANES_OF_HEADS) | context};
      const bool within =
          RengaLaneCovers(RengaLaneOfKind(term->to, RENGA_LANES_OF_TOKENS), context);
      const int takers = CountTakers(tensor, term, rank);
      sent.bytes += takers * term->bytes;
      sent.across += (takers - (within ? CountTakers(tensor, &near, rank) : 0)) * term->bytes;
      if (!GoesTo(tensor, term, rank)) continue;
      taken.bytes += term->bytes;
      if (Giver(tensor, term, rank) / each != rank / each) taken.across += term->bytes;
    }
    if (sent.bytes > most.bytes) most = sent;
    if (taken.bytes > most.bytes) most = taken;
  }
  return most;
}

/* Once all programs of set-up are compiled: the exchanges of a micro-batch in training, by the
   first program; they are the same on all ranks of the group. Those that are made again count as
   such, whatever part they run in. */
void RengaChunkCountExchanges_Private(Chunk *chunk)
{
  const Program *program = RengaProgramsFirst_Private(chunk->programs);
  for (ProgramPart part = PART_FORWARD; program && part < PART_COUNT; part++)
    for (int i = 0; i < program->part[part].count; i++) {
      const Instruction *row = &program->part[part].row[i];
      if (row->kind != INSTRUCTION_EXCHANGE) continue;
      RengaForecastTerms *terms = &chunk->sizes->terms[row->again ? PART_AGAIN : part];
      const RengaForecastTerms own = MostOfTerms(&chunk->tensor, row);
      terms->count++;
      terms->bytes += own.bytes;
      terms->across += own.across;
    }
}
