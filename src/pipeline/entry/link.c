/* Messages of this rank: receives are posted as soon as an instance of the buffer is free, sends
   complete in the background and are waited for when their buffer is wanted again. */
#include "../pipelineimpl.h"
#include "renga/private/graph.h"

static RengaErrorCode SetUpLink(Chunk *chunk, int row)
{
  const RengaMessage *message = &chunk->outline->message[row];
  Link *link = &chunk->link[row];
  link->active = message->from == chunk->stage || message->to == chunk->stage;
  if (!link->active) return RENGA_SUCCESS;
  link->incoming = message->to == chunk->stage;
  link->other = link->incoming ? message->from : message->to;
  const RengaValue value = RengaGraphFindValue(chunk->sub, message->value);
  if (!message->backward) link->value = value;
  if (message->backward && !chunk->outline->has_loss) link->active = false;
  link->spec = RengaGraphGetValue(chunk->sub, value)->spec;
  link->spec.type = message->backward ? RengaGraphTypeOfGradient_Private(chunk->sub, value)
                                      : RengaGraphGetValue(chunk->sub, value)->stored;
  const RengaTensorSpec spec = RengaTensorSpecAt(&link->spec, chunk->outline->microbatch);
  link->bytes = RengaAlign_Private((int64_t)RengaTensorSpecBytes(&spec));
  return RENGA_SUCCESS;
}

/* Fills the table but for rings and memory. */
RengaErrorCode RengaChunkSetUpLinks_Private(Chunk *chunk)
{
  for (int m = 0; m < chunk->outline->n_messages; m++) RengaCall(SetUpLink(chunk, m));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeRing(Chunk *chunk, Link *link)
{
  const Rank *rank = chunk->pipeline->rank;
  RengaCall(RengaMalloc(link->ring, &link->parcel));
  for (int i = 0; i < link->ring; i++)
    RengaCall(RengaParcelCreate_Private(rank->transport, rank->all, (size_t)link->bytes,
                                        &link->parcel[i]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkMakeParcels_Private(Chunk *chunk)
{
  for (int m = 0; m < chunk->outline->n_messages; m++)
    if (chunk->link[m].active) RengaCall(MakeRing(chunk, &chunk->link[m]));
  return RENGA_SUCCESS;
}

/* However many there are. */
RengaErrorCode RengaChunkFreeParcels_Private(Chunk *chunk)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int m = 0; chunk->link && m < chunk->outline->n_messages; m++) {
    Link *link = &chunk->link[m];
    for (int i = 0; link->parcel && i < link->ring; i++)
      RengaKeepFirst_Private(&code, RengaParcelDestroy_Private(&link->parcel[i]));
    RengaFree(&link->parcel);
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The rank of the other stage that has the same micro-batch. Ranges are as even as can be, so that
   the guess is off by few. */
static int PeerOf(Chunk *chunk, const Pass *pass, const Link *link, int64_t i)
{
  const int replicas = RengaPlanGetStage(chunk->outline->plan, link->other)->shape.replicas;
  const int64_t number = chunk->portion->order[i], m = pass->microbatches,
                leaf = chunk->outline->leaf;
  int replica = (int)((double)number / (double)m * replicas);
  while (RengaPlanLeafBound(m, leaf, replicas, replica) > number) replica--;
  while (RengaPlanLeafBound(m, leaf, replicas, replica + 1) <= number) replica++;
  return RengaChunkPeer_Private(chunk, link->other, replica);
}

static size_t MessageBytes(Chunk *chunk, const Pass *pass, const Link *link, int64_t i)
{
  const RengaTensorSpec spec = RengaTensorSpecAt(
      &link->spec, RengaPassSamples_Private(chunk->pipeline, pass, chunk->portion->order[i]));
  return RengaTensorSpecBytes(&spec);
}

static char *InstanceAt(const Link *link, int64_t i)
{
  return link->base + i % link->ring * link->bytes;
}

static bool IsUsed(const Pass *pass, const RengaMessage *message)
{
  return !message->backward || pass->training;
}

static RengaErrorCode PostReceive(Chunk *chunk, Pass *pass, int row, int64_t i)
{
  Link *link = &chunk->link[row];
  const ChunkMessage message = {.parcel = link->parcel[i % link->ring],
                                .receives = true,
                                .data = InstanceAt(link, i),
                                .bytes = MessageBytes(chunk, pass, link, i),
                                .peer = PeerOf(chunk, pass, link, i),
                                .tag = row};
  RengaCall(RengaChunkPost_Private(chunk, pass, &message));
  return RENGA_SUCCESS;
}

/* An instance is free when the action that used it last is done: backward, or forward in
   evaluation. */
RengaErrorCode RengaChunkPostReceives_Private(Chunk *chunk, Pass *pass)
{
  const int64_t done =
      pass->training ? chunk->portion->backward_done : chunk->portion->forward_done;
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    Link *link = &chunk->link[m];
    if (!link->active || !link->incoming || !IsUsed(pass, &chunk->outline->message[m])) continue;
    while (link->posted < done + link->ring &&
           link->posted < chunk->portion->last - chunk->portion->first) {
      RengaCall(PostReceive(chunk, pass, m, link->posted));
      link->posted++;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Wait(Chunk *chunk, Pass *pass, int row, int64_t i)
{
  Link *link = &chunk->link[row];
  RengaParcel parcel = link->parcel[i % link->ring];
  if (!RengaParcelIsUnderWay_Private(parcel)) return RENGA_SUCCESS;
  const RengaMessage *message = &chunk->outline->message[row];
  char what[512];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) waits %s the %s %s %s stage %d (rank %d) for "
           "micro-batch %lld "
           "of step %lld",
           RengaCommGetRank(chunk->pipeline->rank->all), chunk->stage, chunk->replica,
           link->incoming ? "for" : "to send", message->backward ? "gradient of" : "activation",
           message->value, link->incoming ? "from" : "to", link->other,
           PeerOf(chunk, pass, link, i), (long long)chunk->portion->order[i],
           (long long)chunk->pipeline->step);
  RengaCall(RengaChunkAwait_Private(chunk, pass, parcel, what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkReceive_Private(Chunk *chunk, Pass *pass, int row, int64_t i)
{
  Link *link = &chunk->link[row];
  RengaCheck(link->posted > i, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d: %s of micro-batch %lld is wanted before its buffer is free", chunk->stage,
             chunk->outline->message[row].value, (long long)chunk->portion->order[i]);
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_RECEIVE);
  RengaLogEventBegin(event);
  const RengaErrorCode code = Wait(chunk, pass, row, i);
  RengaLogEventEnd(event, 0, 1, (int64_t)MessageBytes(chunk, pass, link, i));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The bases of micro-batch i are set. */
RengaErrorCode RengaChunkSend_Private(Chunk *chunk, Pass *pass, int row, int64_t i)
{
  Link *link = &chunk->link[row];
  const size_t bytes = MessageBytes(chunk, pass, link, i);
  char *from = link->base ? InstanceAt(link, i) : NULL;
  if (!from) {
    Program *program;
    RengaCall(RengaChunkGetProgram_Private(
        chunk, pass->kind,
        RengaPassSamples_Private(chunk->pipeline, pass, chunk->portion->order[i]),
        chunk->portion->target, &program));
    from = RengaChunkAt_Private(chunk, program->place[link->value]);
  }
  if (pass->failed) /* others may compute with it until they hear of the error */
    RengaCall(RengaDeviceSetBytes(chunk->device, NULL, from, 0, bytes));
  const ChunkMessage message = {.parcel = link->parcel[i % link->ring],
                                .data = from,
                                .bytes = bytes,
                                .peer = PeerOf(chunk, pass, link, i),
                                .tag = row};
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_SEND);
  RengaLogEventBegin(event);
  const RengaErrorCode code = RengaChunkPost_Private(chunk, pass, &message);
  RengaLogEventEnd(event, 0, 1, (int64_t)bytes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Before micro-batch i writes what is sent from the same buffer as that of an earlier one. */
RengaErrorCode RengaChunkWaitSends_Private(Chunk *chunk, Pass *pass, int64_t i, bool backward)
{
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    const Link *link = &chunk->link[m];
    if (!link->active || link->incoming || chunk->outline->message[m].backward != backward)
      continue;
    if (i >= link->ring) RengaCall(Wait(chunk, pass, m, i - link->ring));
  }
  return RENGA_SUCCESS;
}

/* All sends have gone, all receives have come. */
RengaErrorCode RengaChunkFinishLinks_Private(Chunk *chunk, Pass *pass)
{
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    Link *link = &chunk->link[m];
    if (!link->active) continue;
    const int64_t count = chunk->portion->last - chunk->portion->first;
    for (int64_t i = count > link->ring ? count - link->ring : 0; i < count; i++)
      RengaCall(Wait(chunk, pass, m, i));
    link->posted = 0;
  }
  return RENGA_SUCCESS;
}
