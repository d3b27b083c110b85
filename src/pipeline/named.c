/* Parameters, moments and states by name, whole, from and to any rank. */
#include "gradients.h"
#include "renga/private/holdings.h"
#include "renga/private/optimizer.h"
#include <string.h>

/* The logical shape of "NAME" or "NAME:moment". */
static RengaErrorCode FindSpec(RengaPipeline pipeline, const char *name, RengaTensorSpec *spec)
{
  const char *const *moment;
  int count;
  RengaValue value = RengaGraphFindValue(pipeline->graph, name);
  RengaCall(RengaOptimizerGetMoments(pipeline->optimizer, &count, &moment));
  for (int m = 0; m < count && value == RENGA_VALUE_NONE; m++) {
    const size_t length = strlen(name), end = strlen(moment[m]) + 1;
    char *stem;
    if (length <= end || name[length - end] != ':' || strcmp(name + length - end + 1, moment[m]))
      continue;
    RengaCall(RengaStringCopy(name, &stem));
    stem[length - end] = '\0';
    value = RengaGraphFindValue(pipeline->graph, stem);
    RengaFree(&stem);
  }
  const RengaValueKind kind = value == RENGA_VALUE_NONE
                                  ? RENGA_VALUE_ACTIVATION
                                  : RengaGraphGetValue(pipeline->graph, value)->kind;
  RengaCheck(kind == RENGA_VALUE_PARAMETER || kind == RENGA_VALUE_STATE, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "there is no parameter, moment or state %s", name);
  *spec = RengaGraphGetValue(pipeline->graph, value)->spec;
  return RENGA_SUCCESS;
}

/* One transfer of a whole tensor. */
typedef struct {
  const char *name;
  int rank;           /* of the caller's buffer; RENGA_TO_ALL: every rank has one */
  float *buffer;      /* of the caller */
  RengaDataType type; /* of what is held: float32, but of frozen parameters in 16 bits */
  uint64_t value;     /* hash of what is set, where each rank brings it */
  size_t bytes;
  char *copy; /* [bytes] of the host */
  char *part; /* the same, where it is set */
} NamedTensor;

/* What one rank may find wrong. */
static RengaErrorCode PrepareNamed(RengaPipeline pipeline, NamedTensor *named, bool sets)
{
  RengaTensorSpec spec;
  const int size = RengaCommGetSize(pipeline->rank->all),
            rank = RengaCommGetRank(pipeline->rank->all);
  const bool has = named->rank == RENGA_TO_ALL || named->rank == rank;
  RengaCheck(named->name, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "the name is a null pointer");
  RengaCheck(named->rank >= RENGA_TO_ALL && named->rank < size, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s %s rank %d of %d ranks", named->name, sets ? "from" : "to", named->rank, size);
  RengaCheck(!has || named->buffer, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank %d has no buffer for %s", rank, named->name);
  RengaCall(FindSpec(pipeline, named->name, &spec));
  named->bytes = RengaTensorSpecBytes(&spec);
  if (sets || has) RengaCall(RengaMalloc(named->bytes + 1, &named->copy));
  if (sets) RengaCall(RengaMalloc(named->bytes + 1, &named->part));
  if (sets && has) memcpy(named->copy, named->buffer, named->bytes);
  if (sets && named->rank == RENGA_TO_ALL) named->value = RengaHash(named->copy, named->bytes, 0);
  return RENGA_SUCCESS;
}

static bool IsHeld(RengaPipeline pipeline, const char *name)
{
  const Persistents *list = &pipeline->rank->persistents;
  for (int t = 0; t < list->count; t++)
    if (strcmp(list->row[t].name, name) == 0) return true;
  return false;
}

/* All ranks want the same, and could prepare it. */
static RengaErrorCode AgreeOnNamed(RengaPipeline pipeline, const NamedTensor *named,
                                   RengaErrorCode mine)
{
  RengaRequest request;
  int64_t *row = pipeline->rank->together.agree; /* a time limit leaves it under way */
  uint64_t hash = RengaHash(&named->value, sizeof named->value, (uint64_t)named->rank);
  if (!mine) hash = RengaHash(named->name, strlen(named->name), hash);
  row[0] = mine;
  memcpy(&row[1], &hash, sizeof hash);
  row[2] = ~row[1];
  row[3] = !mine && IsHeld(pipeline, named->name);
  RengaCall(RengaCommStartLargest(pipeline->rank->all, 4, row, &request));
  RengaCall(RengaCommWait(pipeline->rank->all, &request, "all ranks to name a parameter"));
  if (mine) RengaCall(row[0] ? (RengaErrorCode)row[0] : mine);
  RengaCheck(row[0] == 0, pipeline->hdr.comm, (RengaErrorCode)row[0],
             "%s: some other rank failed, and nothing was changed", named->name);
  RengaCheck(row[1] == ~row[2], pipeline->hdr.comm, RENGA_ERR_ARGUMENT,
             "%s: ranks gave different names, ranks or values: all must call with the same",
             named->name);
  RengaCheck(row[3] > 0, pipeline->hdr.comm, RENGA_ERR_ARGUMENT, "no stage holds %s", named->name);
  return RENGA_SUCCESS;
}

/* A block of the tensor that came together here. */
static RengaErrorCode TakeNamed(void *user, int tensor, int64_t first, int64_t bytes,
                                const void *data)
{
  const NamedTensor *named = user;
  const int64_t size = (int64_t)RengaDataTypeSize(named->type);
  (void)tensor;
  if (bytes == 0) return RENGA_SUCCESS;
  RengaCall(
      RengaDataWiden(named->type, bytes / size, data, (float *)(void *)named->copy + first / size));
  return RENGA_SUCCESS;
}

/* Parts from their owners to one rank, then to all where all want it. */
static RengaErrorCode BringNamed(RengaPipeline pipeline, NamedTensor *named,
                                 const RengaHoldings *holdings)
{
  const int rank = RengaCommGetRank(pipeline->rank->all);
  const int taker = named->rank == RENGA_TO_ALL ? holdings->row[0].rank : named->rank;
  const RengaBringing bringing = {.taker = taker, .take = TakeNamed, .user = named};
  bool lost;
  RengaErrorCode code = RengaHoldingsBring(holdings, pipeline->device, &bringing, &lost);
  const RengaErrorCode all = RengaErrorAgree(pipeline->hdr.comm, code);
  if (lost) RengaPipelineBreak_Private(pipeline, code);
  RengaCall(all);
  if (named->rank == RENGA_TO_ALL) {
    code = RengaCommBroadcast(pipeline->rank->all, named->copy, named->bytes, taker,
                              "all ranks to get a parameter");
    if (code) RengaPipelineBreak_Private(pipeline, code);
    RengaCall(code);
  }
  if (named->rank == RENGA_TO_ALL || named->rank == rank)
    memcpy(named->buffer, named->copy, named->bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode GetNamed(RengaPipeline pipeline, NamedTensor *named)
{
  const Persistents *list = &pipeline->rank->persistents;
  RengaHoldings holdings;
  RengaCall(
      RengaHoldingsCreate(pipeline->rank->all, list->count, list->row, named->name, &holdings));
  named->type = holdings.tensor[0].spec.type;
  const RengaErrorCode code = BringNamed(pipeline, named, &holdings);
  RengaHoldingsFree(&holdings);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What is here of the tensor, from its whole. */
static RengaErrorCode SetPart(RengaPipeline pipeline, const NamedTensor *named,
                              const RengaPersistent *row)
{
  const size_t size = sizeof(float);
  const RengaRuns runs = RengaRunsOf(&row->spec, &row->part);
  const size_t bytes = (size_t)runs.length * size;
  for (int64_t r = 0; r < runs.count; r++)
    memcpy(named->part + (size_t)r * bytes, named->copy + (size_t)RengaRunsAt(&runs, r) * size,
           bytes);
  RengaCall(RengaDataNarrow(row->spec.type, runs.count * runs.length, named->part, named->part));
  if (row->host) {
    RengaCall(RengaPipelineAwaitDevice_Private(pipeline));
    memcpy(row->data, named->part, (size_t)RengaPersistentGetBytes(row));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_HOST_TO_DEVICE, row->data, named->part,
                            (size_t)RengaPersistentGetBytes(row)));
  RengaCall(RengaPipelineAwaitDevice_Private(pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetNamed(RengaPipeline pipeline, const NamedTensor *named)
{
  const Persistents *list = &pipeline->rank->persistents;
  RengaErrorCode code = RENGA_SUCCESS;
  pipeline->rank->rewritten = true;
  if (named->rank != RENGA_TO_ALL)
    code = RengaCommBroadcast(pipeline->rank->all, named->copy, named->bytes, named->rank,
                              "all ranks to get a parameter");
  if (code) RengaPipelineBreak_Private(pipeline, code);
  RengaCall(code);
  for (int t = 0; t < list->count && !code; t++)
    if (strcmp(list->row[t].name, named->name) == 0) code = SetPart(pipeline, named, &list->row[t]);
  if (code) RengaPipelineSpoil_Private(pipeline, code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Transact(RengaPipeline pipeline, NamedTensor *named, bool sets)
{
  RengaErrorCode code = PrepareNamed(pipeline, named, sets);
  code = AgreeOnNamed(pipeline, named, code);
  if (!code) code = sets ? SetNamed(pipeline, named) : GetNamed(pipeline, named);
  RengaFree(&named->copy);
  RengaFree(&named->part);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetParameter - the values of a parameter, moment or state

   Collective

   Input:
   . pipeline - the pipeline, set up
   . name - the parameter's name in the network (RengaPipelineListParameters), or
     "NAME:first_moment" and the like; the same on all ranks
   . to - the rank that gets them; RENGA_TO_ALL: every rank

   Output:
   . buffer - the whole tensor of its logical shape, row-major float32. It is not looked at on other
     ranks

   Errors: RENGA_ERR_ARGUMENT on all ranks where there is no such tensor, or where ranks ask for
   different ones.

   See also: RengaPipelineSetParameter(), RengaPipelineListParameters(),
   RengaPipelineGetPersistents()
@*/
RengaErrorCode RengaPipelineGetParameter(RengaPipeline pipeline, const char *name, int to,
                                         float buffer[])
{
  NamedTensor named = {.name = name, .rank = to, .buffer = buffer};
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  RengaCall(RengaPipelineAwaitValues_Private(pipeline));
  RengaCall(Transact(pipeline, &named, false));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetParameter - give a parameter, moment or state new values

   Collective

   Input:
   . pipeline - the pipeline, set up; before the first step these are its first values
   . name - the name, as RengaPipelineGetParameter takes it
   . from - the rank that has the values; RENGA_TO_ALL: every rank has them, and they are compared
   . buffer - there: the whole tensor of its logical shape, row-major float32; copied. Not looked at
     on other ranks

   Errors: as of RengaPipelineGetParameter; nothing has changed then.

   Notes: all ranks that hold the tensor get the values. Moments stay as they are.

   See also: RengaPipelineGetParameter(), RengaPipelineListParameters(), RengaCheckpointRead()
@*/
RengaErrorCode RengaPipelineSetParameter(RengaPipeline pipeline, const char *name, int from,
                                         const float buffer[])
{
  NamedTensor named = {.name = name, .rank = from, .buffer = (float *)(uintptr_t)buffer};
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  RengaCall(RengaPipelineAwaitValues_Private(pipeline));
  RengaCall(Transact(pipeline, &named, true));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeList(RengaPipeline pipeline)
{
  int count = 0;
  const int n_values = RengaGraphGetValueCount(pipeline->graph);
  RengaPipelineParameter *list;
  RengaCall(RengaMalloc(n_values + 1, &list));
  for (RengaValue v = 0; v < n_values; v++) {
    const RengaGraphValue *value = RengaGraphGetValue(pipeline->graph, v);
    const bool state = value->kind == RENGA_VALUE_STATE;
    double rate_scale, weight_decay;
    bool frozen = false;
    if (!state && value->kind != RENGA_VALUE_PARAMETER) continue;
    if (value->whole != RENGA_VALUE_NONE || value->cache) continue;
    const RengaErrorCode code = RengaOptimizerGetGroup(pipeline->optimizer, value->name,
                                                       &rate_scale, &weight_decay, &frozen);
    if (code) RengaFree(&list);
    RengaCall(code);
    list[count++] = (RengaPipelineParameter){.name = value->name,
                                             .spec = value->spec,
                                             .frozen = !state && (value->frozen || frozen),
                                             .state = state,
                                             .adapter = value->adapter};
  }
  pipeline->rank->listed = list;
  pipeline->rank->n_listed = count;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineListParameters - all parameters and states of the network

   Input:
   . pipeline - the pipeline, set up

   Output:
   . count - the number of parameters, at least 0, over all stages
   . list - names, logical shapes, whether they are frozen, and the kind of their adapters, in the
     order of the network. It is lent until the pipeline is reset or destroyed

   Errors: RENGA_ERR_ORDER before set-up, or for a pipeline that can only be destroyed
   (RengaPipelineStep); RENGA_ERR_OPTION where the optimizer's groups cannot be read.

   See also: RengaPipelineGetParameter(), RengaPipelineSetParameter()
@*/
RengaErrorCode RengaPipelineListParameters(RengaPipeline pipeline, int *count,
                                           const RengaPipelineParameter **list)
{
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  RengaCheckPointers(count, list);
  if (!pipeline->rank->listed) RengaCall(MakeList(pipeline));
  *count = pipeline->rank->n_listed;
  *list = pipeline->rank->listed;
  return RENGA_SUCCESS;
}
