/* Transports from outside: a rule that a program registered carries the messages of the queue of
   staged.c: as they lie where the device's memory is the host's, else from staging memory and to
   it. Unordered sums are MPI's. */
#include "renga/private/quiet.h"
#include "transportimpl.h"

struct _OutsideTransport {
  const RengaTransportRule *rule;
  void *state; /* of the rule */
  bool open;   /* create was called */
  int n_groups;
  RengaComm *group; /* [n_groups] lent */
};

/* Whoever returns a code, but has told nobody why, is told of here. */
static RengaErrorCode TellOfRule(RengaTransport transport, RengaErrorCode code, int64_t errors,
                                 const char *function)
{
  RengaCheck(code == RENGA_SUCCESS || RengaErrorCount_Private() > errors, MPI_COMM_SELF, code,
             "%s of the transport %s, a rule of the program, returned %d", function,
             transport->outside->rule->name, (int)code);
  return code;
}

#define RengaCallRule(transport, function, ...)                                                    \
  do {                                                                                             \
    const int64_t errors_ = RengaErrorCount_Private();                                             \
    RengaCall(TellOfRule(transport, (transport)->outside->rule->function(__VA_ARGS__), errors_,    \
                         #function));                                                              \
  } while (0)

/* Messages of sums are of their group; sums over all ranks have one too. */
static RengaErrorCode FindGroup(RengaTransport transport, RengaComm comm, bool sums, int *group)
{
  const struct _OutsideTransport *outside = transport->outside;
  *group = -1;
  for (int g = 0; g < outside->n_groups && sums; g++)
    if (outside->group[g] == comm) *group = g;
  RengaCheck(*group >= 0 || (!sums && comm == transport->hdr.owner), MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the ranks of a message are not connected: call RengaTransportConnect");
  return RENGA_SUCCESS;
}

static RengaErrorCode ConvoyCreate_Rule(RengaConvoy convoy)
{
  int group;
  RengaCall(FindGroup(convoy->transport, convoy->comm, true, &group));
  return RENGA_SUCCESS;
}

static RengaErrorCode Start_Rule(RengaParcel parcel, void *memory, size_t bytes, bool receives,
                                 int peer, int tag)
{
  RengaTransport transport = parcel->transport;
  const struct _OutsideTransport *outside = transport->outside;
  RengaTransportMessage *message = &parcel->message;
  *message = (RengaTransportMessage){.peer = peer, .tag = tag, .memory = memory, .bytes = bytes};
  RengaCall(FindGroup(transport, parcel->comm, parcel->sums, &message->group));
  if (receives)
    RengaCallRule(transport, receive, outside->state, message, outside->rule->user);
  else
    RengaCallRule(transport, send, outside->state, message, outside->rule->user);
  parcel->given = true;
  return RENGA_SUCCESS;
}

/* One of another length is done all the same. */
static RengaErrorCode CheckCome(RengaParcel parcel, size_t room)
{
  const RengaTransportMessage *message = &parcel->message;
  const bool fits = parcel->sums ? message->bytes <= room : message->bytes == room;
  RengaCheck(fits, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "rank %d received %zu bytes from rank %d under tag %d by the transport %s, where %zu "
             "were expected",
             RengaCommGetRank(parcel->comm), message->bytes, message->peer, message->tag,
             parcel->transport->outside->rule->name, room);
  parcel->received = message->bytes;
  return RENGA_SUCCESS;
}

static RengaErrorCode End_Rule(RengaParcel parcel, size_t room, bool receives, bool *done)
{
  RengaTransport transport = parcel->transport;
  const struct _OutsideTransport *outside = transport->outside;
  *done = true;
  if (!parcel->given) return RENGA_SUCCESS;
  *done = false;
  RengaCallRule(transport, test, outside->state, &parcel->message, done, outside->rule->user);
  if (!*done) return RENGA_SUCCESS;
  parcel->given = false;
  if (receives) RengaCall(CheckCome(parcel, room));
  return RENGA_SUCCESS;
}

static RengaErrorCode Progress_Rule(RengaTransport transport)
{
  const struct _OutsideTransport *outside = transport->outside;
  RengaCallRule(transport, progress, outside->state, outside->rule->user);
  return RENGA_SUCCESS;
}

static RengaErrorCode Cancel_Rule(RengaParcel parcel)
{
  RengaTransport transport = parcel->transport;
  const struct _OutsideTransport *outside = transport->outside;
  if (!parcel->given) return RENGA_SUCCESS;
  parcel->given = false;
  RengaCallRule(transport, cancel, outside->state, &parcel->message, outside->rule->user);
  return RENGA_SUCCESS;
}

static RengaErrorCode ConnectRule(RengaTransport transport, int n_routes, const RengaRoute route[],
                                  int n_groups, const MPI_Comm groups[])
{
  const struct _OutsideTransport *outside = transport->outside;
  RengaCallRule(transport, connect, outside->state, n_routes, route, n_groups, groups,
                outside->rule->user);
  return RENGA_SUCCESS;
}

/* Of the groups that this rank is in. */
static RengaErrorCode ListGroupsForRule(RengaTransport transport, int n_groups,
                                        const RengaComm group[], MPI_Comm **groups)
{
  struct _OutsideTransport *outside = transport->outside;
  RengaCall(RengaMalloc(n_groups + 1, groups));
  RengaCall(RengaMalloc(n_groups + 1, &outside->group));
  for (int g = 0; g < n_groups; g++) {
    RengaCall(RengaObjectGetComm(group[g], &(*groups)[g]));
    outside->group[outside->n_groups++] = group[g];
  }
  return RENGA_SUCCESS;
}

/* What one rank may lack the memory for, all agree on before any waits for the others. */
static RengaErrorCode Connect_Rule(RengaTransport transport, const RengaTransportNeeds *needs)
{
  MPI_Comm *groups = NULL;
  RengaErrorCode code = RengaErrorAgree(
      transport->hdr.comm, ListGroupsForRule(transport, needs->n_groups, needs->group, &groups));
  if (!code && transport->outside->rule->connect)
    code = RengaErrorAgree(transport->hdr.comm, ConnectRule(transport, needs->n_routes,
                                                            needs->route, needs->n_groups, groups));
  RengaFree(&groups);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyRule(RengaTransport transport)
{
  struct _OutsideTransport *outside = transport->outside;
  RengaCallRule(transport, destroy, &outside->state, outside->rule->user);
  return RENGA_SUCCESS;
}

/* The queue first, which asks the rule for progress. */
static RengaErrorCode Destroy_Rule(RengaTransport transport)
{
  struct _OutsideTransport *outside = transport->outside;
  RengaErrorCode code = RengaTransportDestroy_Queue(transport);
  if (outside && outside->open && outside->rule->destroy)
    RengaKeepFirst_Private(&code, DestroyRule(transport));
  if (outside) RengaFree(&outside->group);
  RengaFree(&transport->outside);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateRule(RengaTransport transport)
{
  struct _OutsideTransport *outside = transport->outside;
  if (outside->rule->create)
    RengaCallRule(transport, create, transport->hdr.comm, &outside->state, outside->rule->user);
  outside->open = true;
  return RENGA_SUCCESS;
}

/* Its memory. */
static RengaErrorCode MakeRule(RengaTransport transport, const RengaTransportRule *rule)
{
  RengaCall(RengaMalloc(1, &transport->outside));
  transport->outside->rule = rule;
  RengaCall(RengaTransportCreate_Queue(transport, RengaDeviceIsHost(transport->device)));
  struct _RengaTransportOps *ops = transport->ops;
  ops->destroy = Destroy_Rule;
  ops->connect = Connect_Rule;
  ops->convoycreate = ConvoyCreate_Rule;
  ops->start = Start_Rule;
  ops->end = End_Rule;
  ops->cancel = rule->cancel ? Cancel_Rule : NULL;
  ops->does = rule->does ? rule->does : "a rule of the program carries the host's memory";
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCreate_Outside(RengaTransport transport,
                                            const RengaTransportRule *rule)
{
  RengaErrorCode code = RengaErrorAgree(transport->hdr.comm, MakeRule(transport, rule));
  if (!code) code = RengaErrorAgree(transport->hdr.comm, CreateRule(transport));
  if (!code && rule->progress) transport->ops->progress = Progress_Rule;
  RengaCall(code);
  return RENGA_SUCCESS;
}
