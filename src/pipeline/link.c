/* Messages of this rank: receives are posted as soon as an instance of the buffer is free, sends
   complete in the background and are waited for when their buffer is wanted again. */
#include "pipelineimpl.h"

static RengaErrorCode SetUpLink(RengaPipeline pipeline, int row)
{
  const RengaMessage *message = &pipeline->message[row];
  Link *link = &pipeline->link[row];
  link->active = message->from == pipeline->stage || message->to == pipeline->stage;
  if (!link->active) return RENGA_SUCCESS;
  link->incoming = message->to == pipeline->stage;
  link->other = link->incoming ? message->from : message->to;
  const RengaValue value = RengaGraphFindValue(pipeline->sub, message->value);
  if (!message->backward) link->value = value;
  if (message->backward && !pipeline->has_loss) link->active = false;
  link->spec = RengaGraphGetValue(pipeline->sub, value)->spec;
  const RengaTensorSpec spec = RengaTensorSpecAt(&link->spec, pipeline->microbatch);
  link->bytes = RengaAlign_Private((int64_t)RengaTensorSpecBytes(&spec));
  return RENGA_SUCCESS;
}

/* Fills the table but for rings and memory. */
RengaErrorCode RengaPipelineSetUpLinks_Private(RengaPipeline pipeline)
{
  for (int m = 0; m < pipeline->n_messages; m++) RengaCall(SetUpLink(pipeline, m));
  return RENGA_SUCCESS;
}

/* The rank of the other stage that has the same micro-batch. Ranges are as even as can be, so that
   the guess is off by few. */
static int PeerOf(RengaPipeline pipeline, const Pass *pass, const Link *link, int64_t i)
{
  const int replicas = RengaPlanGetStage(pipeline->plan, link->other)->replicas;
  const int64_t number = pass->order[i], m = pass->microbatches, leaf = pipeline->leaf;
  int replica = (int)((double)number / (double)m * replicas);
  while (RengaPlanLeafBound(m, leaf, replicas, replica) > number) replica--;
  while (RengaPlanLeafBound(m, leaf, replicas, replica + 1) <= number) replica++;
  return RengaPlanGetRank(pipeline->plan, link->other, replica);
}

int64_t RengaPipelineSamples_Private(RengaPipeline pipeline, const Pass *pass, int64_t number)
{
  const int64_t left = pass->batch->samples - number * pipeline->microbatch;
  return left < pipeline->microbatch ? left : pipeline->microbatch;
}

static size_t MessageBytes(RengaPipeline pipeline, const Pass *pass, const Link *link, int64_t i)
{
  const RengaTensorSpec spec =
      RengaTensorSpecAt(&link->spec, RengaPipelineSamples_Private(pipeline, pass, pass->order[i]));
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

static RengaErrorCode PostReceive(RengaPipeline pipeline, Pass *pass, int row, int64_t i)
{
  Link *link = &pipeline->link[row];
  const size_t bytes = MessageBytes(pipeline, pass, link, i);
  const int peer = PeerOf(pipeline, pass, link, i);
  RengaErrorCode code;
  int attempt = 0;
  do
    code = RengaCommReceive(pipeline->all, InstanceAt(link, i), bytes, peer, row,
                            &link->request[i % link->ring]);
  while (RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* An instance is free when the action that used it last is done: backward, or forward in
   evaluation. */
RengaErrorCode RengaPipelinePostReceives_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, false));
  if (!pass->settled || pass->refused) return RENGA_SUCCESS;
  const int64_t done = pass->training ? pass->backward_done : pass->forward_done;
  for (int m = 0; m < pipeline->n_messages; m++) {
    Link *link = &pipeline->link[m];
    if (!link->active || !link->incoming || !IsUsed(pass, &pipeline->message[m])) continue;
    while (link->posted < done + link->ring && link->posted < pass->last - pass->first) {
      RengaCall(PostReceive(pipeline, pass, m, link->posted));
      link->posted++;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Wait(RengaPipeline pipeline, Pass *pass, int row, int64_t i)
{
  Link *link = &pipeline->link[row];
  RengaRequest *request = &link->request[i % link->ring];
  if (!*request) return RENGA_SUCCESS;
  const RengaMessage *message = &pipeline->message[row];
  char what[512];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) waits %s the %s %s %s stage %d (rank %d) for "
           "micro-batch %lld "
           "of step %lld",
           RengaCommGetRank(pipeline->all), pipeline->stage, pipeline->replica,
           link->incoming ? "for" : "to send", message->backward ? "gradient of" : "activation",
           message->value, link->incoming ? "from" : "to", link->other,
           PeerOf(pipeline, pass, link, i), (long long)pass->order[i], (long long)pipeline->step);
  RengaErrorCode code;
  int attempt = 0;
  do code = RengaCommWait(pipeline->all, request, what);
  while (RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineReceive_Private(RengaPipeline pipeline, Pass *pass, int row, int64_t i)
{
  Link *link = &pipeline->link[row];
  RengaCheck(link->posted > i, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d: %s of micro-batch %lld is wanted before its buffer is free",
             pipeline->stage, pipeline->message[row].value, (long long)pass->order[i]);
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_RECEIVE);
  RengaLogEventBegin(event);
  const RengaErrorCode code = Wait(pipeline, pass, row, i);
  RengaLogEventEnd(event, 0, 1, (int64_t)MessageBytes(pipeline, pass, link, i));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The bases of micro-batch i are set. */
RengaErrorCode RengaPipelineSend_Private(RengaPipeline pipeline, Pass *pass, int row, int64_t i)
{
  Link *link = &pipeline->link[row];
  const size_t bytes = MessageBytes(pipeline, pass, link, i);
  char *from = link->base ? InstanceAt(link, i) : NULL;
  if (!from) {
    Program *program;
    RengaCall(RengaPipelineGetProgram_Private(
        pipeline, pass->kind, RengaPipelineSamples_Private(pipeline, pass, pass->order[i]),
        pass->target, &program));
    from = RengaPipelineAt_Private(pipeline, program->place[link->value]);
  }
  if (pass->failed) /* others may compute with it until they hear of the error */
    RengaCall(RengaDeviceSetBytes(pipeline->device, NULL, from, 0, bytes));
  const int peer = PeerOf(pipeline, pass, link, i);
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_SEND);
  RengaErrorCode code;
  int attempt = 0;
  RengaLogEventBegin(event);
  do code = RengaCommSend(pipeline->all, from, bytes, peer, row, &link->request[i % link->ring]);
  while (RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
  RengaLogEventEnd(event, 0, 1, (int64_t)bytes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Before micro-batch i writes what is sent from the same buffer as that of an earlier one. */
RengaErrorCode RengaPipelineWaitSends_Private(RengaPipeline pipeline, Pass *pass, int64_t i,
                                              bool backward)
{
  for (int m = 0; m < pipeline->n_messages; m++) {
    const Link *link = &pipeline->link[m];
    if (!link->active || link->incoming || pipeline->message[m].backward != backward) continue;
    if (i >= link->ring) RengaCall(Wait(pipeline, pass, m, i - link->ring));
  }
  return RENGA_SUCCESS;
}

/* All sends have gone, all receives have come. */
RengaErrorCode RengaPipelineFinishLinks_Private(RengaPipeline pipeline, Pass *pass)
{
  for (int m = 0; m < pipeline->n_messages; m++) {
    Link *link = &pipeline->link[m];
    if (!link->active) continue;
    const int64_t count = pass->last - pass->first;
    for (int64_t i = count > link->ring ? count - link->ring : 0; i < count; i++)
      RengaCall(Wait(pipeline, pass, m, i));
    link->posted = 0;
  }
  return RENGA_SUCCESS;
}
