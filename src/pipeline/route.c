/* Routes: between which ranks messages go, and under which tag, so that the transport can open what
   they need before the first step. Neighbours of even stages come first, then those of odd ones: so
   many of them are opened at once. */
#include "gradients.h"
#include "parameter.h"
#include "pipelineimpl.h"
#include "updates.h"
#include "window.h"
#include <string.h>

typedef struct {
  const Outline *outline;
  int count, size;
  RengaRoute *route;
  int *channel;
} RouteList;

/* Activations from one stage to another have one channel, gradients another: a stage sends and
   receives them micro-batch by micro-batch, those of one by row. */
static int ChannelOfMessage(const Outline *outline, int row)
{
  const RengaMessage *message = &outline->message[row];
  for (int m = 0; m < row; m++)
    if (outline->message[m].from == message->from && outline->message[m].to == message->to &&
        outline->message[m].backward == message->backward)
      return m;
  return row;
}

/* Gradients of tied parameters come when all messages of micro-batches have: they may go by their
   channel. */
static int ChannelOf(const RouteList *list, int from, int to, int tag)
{
  if (tag < list->outline->n_messages) return ChannelOfMessage(list->outline, tag);
  const bool tied = tag == RengaOutlineTag_Private(list->outline, TAG_TIED);
  for (int r = 0; r < list->count && tied; r++)
    if (list->route[r].from == from && list->route[r].to == to) return list->channel[r];
  return tag;
}

static RengaErrorCode AddRoute(RouteList *list, int from, int to, int tag)
{
  for (int r = list->count - 1; r >= 0 && list->route[r].tag == tag; r--)
    if (list->route[r].from == from && list->route[r].to == to) return RENGA_SUCCESS;
  if (list->count == list->size) {
    RengaCall(RengaRealloc(2 * list->size + 8, &list->route));
    RengaCall(RengaRealloc(2 * list->size + 8, &list->channel));
    list->size = 2 * list->size + 8;
  }
  list->channel[list->count] = ChannelOf(list, from, to, tag);
  list->route[list->count++] = (RengaRoute){from, to, tag};
  return RENGA_SUCCESS;
}

static int Replicas(const RouteList *list, int stage)
{
  return RengaPlanGetStage(list->outline->plan, stage)->shape.replicas;
}

static RengaPlanPlace ReplicaAt(int stage, int replica)
{
  return (RengaPlanPlace){.stage = stage, .replica = replica};
}

static int MemberRank(const RouteList *list, RengaPlanPlace replica, int n)
{
  const RengaPlan plan = list->outline->plan;
  const RengaPlanPlace place = RengaPlanPlaceOf_Private(plan, replica.stage, replica.replica, n);
  return RengaPlanGetRankAt(plan, &place);
}

static int GroupSize(const RouteList *list, int stage)
{
  return RengaShapeGroup_Private(&RengaPlanGetStage(list->outline->plan, stage)->shape);
}

/* Between two replicas: each rank, with the one that has the same lanes. */
static RengaErrorCode AddReplicas(RouteList *list, RengaPlanPlace from, RengaPlanPlace to, int tag)
{
  for (int t = 0; t < GroupSize(list, from.stage); t++)
    RengaCall(AddRoute(list, MemberRank(list, from, t), MemberRank(list, to, t), tag));
  return RENGA_SUCCESS;
}

/* Replicas of both stages that have a micro-batch in common, where a step has so many. */
static RengaErrorCode AddMeetings(RouteList *list, const RengaMessage *message, int tag, int64_t m)
{
  const int64_t leaf = list->outline->leaf;
  const int senders = Replicas(list, message->from), receivers = Replicas(list, message->to);
  for (int f = 0, t = 0; f < senders && t < receivers;) {
    const int64_t sent = RengaPlanLeafBound(m, leaf, senders, f + 1);
    const int64_t taken = RengaPlanLeafBound(m, leaf, receivers, t + 1);
    const bool meet = RengaPlanLeafBound(m, leaf, senders, f) < taken &&
                      RengaPlanLeafBound(m, leaf, receivers, t) < sent;
    if (meet)
      RengaCall(AddReplicas(list, ReplicaAt(message->from, f), ReplicaAt(message->to, t), tag));
    if (sent <= taken) f++;
    if (taken <= sent) t++;
  }
  return RENGA_SUCCESS;
}

/* Of all batches that may come: each has no more micro-batches than the largest. Equal numbers of
   replicas meet one by one. */
static RengaErrorCode AddMessage(RouteList *list, int row)
{
  const Outline *outline = list->outline;
  const RengaMessage *message = &outline->message[row];
  const int senders = Replicas(list, message->from);
  if (message->backward && !outline->has_loss) return RENGA_SUCCESS;
  if (senders == Replicas(list, message->to)) {
    for (int r = 0; r < senders; r++)
      RengaCall(AddReplicas(list, ReplicaAt(message->from, r), ReplicaAt(message->to, r), row));
    return RENGA_SUCCESS;
  }
  for (int64_t m = RengaOutlineMostMicrobatches_Private(outline); m > 0; m--)
    RengaCall(AddMeetings(list, message, row, m));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddMessages(RouteList *list)
{
  for (int odd = 0; odd < 2; odd++)
    for (int m = 0; m < list->outline->n_messages; m++) {
      const RengaMessage *message = &list->outline->message[m];
      const int first = message->from < message->to ? message->from : message->to;
      if (first % 2 == odd) RengaCall(AddMessage(list, m));
    }
  return RENGA_SUCCESS;
}

/* A stage of this rank exchanges gradients of a parameter with another: replica r of the receivers
   asks one sender. */
static RengaErrorCode AddExchange(RouteList *list, int from, int to)
{
  const int tag = RengaOutlineTag_Private(list->outline, TAG_TIED);
  for (int r = 0; r < Replicas(list, to); r++)
    RengaCall(AddReplicas(list, ReplicaAt(from, r % Replicas(list, from)), ReplicaAt(to, r), tag));
  return RENGA_SUCCESS;
}

/* Both ends know of an exchange, and find it in the same order; other ranks need not. */
static RengaErrorCode AddTied(RouteList *list, RengaPipeline pipeline)
{
  for (int from = 0; from < list->outline->stages; from++)
    for (int to = 0; to < list->outline->stages; to++) {
      const Chunk *sender = RengaPipelineFindChunk_Private(pipeline, from);
      const Chunk *chunk = sender ? sender : RengaPipelineFindChunk_Private(pipeline, to);
      if (from != to && chunk && RengaChunkExchanges_Private(chunk, from, to))
        RengaCall(AddExchange(list, from, to));
    }
  return RENGA_SUCCESS;
}

/* Each rank of a group exchanges with each other. */
static RengaErrorCode AddTensorGroup(RouteList *list, int stage, int replica)
{
  const int size = GroupSize(list, stage),
            tag = RengaOutlineTag_Private(list->outline, TAG_EXCHANGE);
  const RengaPlanPlace group = ReplicaAt(stage, replica);
  for (int from = 0; from < size; from++)
    for (int to = 0; to < size; to++)
      if (from != to)
        RengaCall(AddRoute(list, MemberRank(list, group, from), MemberRank(list, group, to), tag));
  return RENGA_SUCCESS;
}

/* Tag by tag, as a route of several stages is one. */
static RengaErrorCode AddStages(RouteList *list)
{
  for (int s = 0; s < list->outline->stages; s++)
    for (int r = 0; r < Replicas(list, s); r++) RengaCall(AddTensorGroup(list, s, r));
  return RENGA_SUCCESS;
}

/* Replicas of the rank's stages, stage by stage. */
static RengaErrorCode ListGroups(RengaPipeline pipeline, int *count, RengaComm **group)
{
  RengaCall(RengaMalloc(5 * pipeline->rank->n_chunks + 1, group));
  *count = 0;
  for (int c = 0; c < pipeline->rank->n_chunks; c++) {
    const Chunk *chunk = &pipeline->rank->chunk[c];
    const GradientFold *fold = &chunk->gradients->fold;
    if (chunk->replicas > 1) (*group)[(*count)++] = chunk->group;
    if (fold->owners) (*group)[(*count)++] = fold->owners;
    if (fold->inner) (*group)[(*count)++] = fold->inner;
    if (fold->across) (*group)[(*count)++] = fold->across;
    if (chunk->window->comm) (*group)[(*count)++] = chunk->window->comm;
  }
  return RENGA_SUCCESS;
}

/* Collective; what it takes of the device for a moment it gives back before the memory is made. */
RengaErrorCode RengaPipelineConnect_Private(RengaPipeline pipeline)
{
  RouteList list = {.outline = pipeline->outline};
  RengaTransportNeeds needs = {.unordered = !RengaSettingsIsOrdered_Private(pipeline->settings),
                               .exact = RengaPipelineWantsGate_Private(pipeline)};
  RengaComm *group = NULL;
  RengaErrorCode code = AddMessages(&list);
  if (!code) code = AddTied(&list, pipeline);
  if (!code) code = AddStages(&list);
  if (!code) code = ListGroups(pipeline, &needs.n_groups, &group);
  needs.n_routes = list.count;
  needs.route = list.route;
  needs.channel = list.channel;
  needs.group = group;
  code = RengaErrorAgree(pipeline->hdr.comm, code);
  if (!code) code = RengaTransportConnect_Private(pipeline->rank->transport, &needs);
  RengaFree(&list.route);
  RengaFree(&list.channel);
  RengaFree(&group);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of a channel, that of its first row: the messages of the running micro-batch, at one end. */
typedef struct {
  int64_t microbatch;
  int seen, last; /* rows of it; the last one */
} ChannelTurn;
typedef struct {
  int channel, rows;   /* of a row; of the channel */
  ChannelTurn turn[2]; /* receives, sends */
} ChannelRow;

static bool MayComeNext(const RengaAction *action, ChannelRow row[])
{
  ChannelRow *channel = &row[row[action->message].channel];
  ChannelTurn *turn = &channel->turn[action->kind == RENGA_ACTION_SEND];
  if (turn->seen % channel->rows == 0) *turn = (ChannelTurn){action->microbatch, 0, -1};
  if (turn->microbatch != action->microbatch || turn->last >= action->message) return false;
  turn->last = action->message;
  turn->seen++;
  return true;
}

/* What channels rely on: it holds of all lists but those that a program or a file makes message by
   message. By their proof (schedule/prove.c) each row has one order at both ends. */
RengaErrorCode RengaPipelineCheckChannels_Private(RengaPipeline pipeline, const Pass *pass)
{
  const Outline *outline = pipeline->outline;
  const char *transport = RengaTransportGetType_Private(pipeline->rank->transport);
  ChannelRow *row = NULL;
  bool kept = true;
  if (strcmp(transport, RENGA_TRANSPORT_NCCL) != 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(outline->n_messages + 1, &row));
  for (int m = 0; m < outline->n_messages; m++) {
    row[m].channel = ChannelOfMessage(outline, m);
    row[row[m].channel].rows++;
  }
  for (int64_t a = 0; a < pass->n_actions && kept; a++)
    if (pass->action[a].message >= 0) kept = MayComeNext(&pass->action[a], row);
  RengaFree(&row);
  RengaCheck(kept, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "the schedule mixes messages of several micro-batches between two stages, which "
             "-transport_type nccl moves one micro-batch after the other: use -transport_type "
             "staged");
  return RENGA_SUCCESS;
}
