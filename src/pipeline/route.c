/* Routes: between which ranks messages go, and under which tag, so that the transport can open what
   they need before the first step. Neighbours of even stages come first, then those of odd ones: so
   many of them are opened at once. */
#include "gradients.h"
#include "window.h"

typedef struct {
  const Outline *outline;
  int count, size;
  RengaRoute *route;
} RouteList;

static RengaErrorCode AddRoute(RouteList *list, int from, int to, int tag)
{
  for (int r = list->count - 1; r >= 0 && list->route[r].tag == tag; r--)
    if (list->route[r].from == from && list->route[r].to == to) return RENGA_SUCCESS;
  if (list->count == list->size) {
    RengaCall(RengaRealloc(2 * list->size + 8, &list->route));
    list->size = 2 * list->size + 8;
  }
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

static int64_t MostMicrobatches(const Outline *outline)
{
  int64_t most = 0;
  for (int i = 0; i < outline->n_batches; i++) {
    const int64_t count = RengaPlanMicrobatches(outline->plan, outline->batch[i]);
    if (count > most) most = count;
  }
  return most;
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
  for (int64_t m = MostMicrobatches(outline); m > 0; m--)
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
  RengaTransportSums sums = {.unordered = !RengaSettingsIsOrdered_Private(pipeline->settings)};
  RengaComm *group = NULL;
  RengaErrorCode code = AddMessages(&list);
  if (!code) code = AddTied(&list, pipeline);
  if (!code) code = AddStages(&list);
  if (!code) code = ListGroups(pipeline, &sums.count, &group);
  sums.group = group;
  code = RengaErrorAgree(pipeline->hdr.comm, code);
  if (!code)
    code = RengaTransportConnect_Private(pipeline->rank->transport, list.count, list.route, &sums);
  RengaFree(&list.route);
  RengaFree(&group);
  RengaCall(code);
  return RENGA_SUCCESS;
}
