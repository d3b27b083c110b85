/* Parameters with several uses: the gradients of the uses are added in ascending order of (node,
   input). As stages are intervals of nodes that is: stage by stage. Stages that share a parameter
   send each other their uses, replica r to the replicas that are r modulo their number, and each
   adds up all of them. All ranks take the parameters in one order, and a rank those of all its
   stages at once, which may send to each other. */
#include "gradients.h"

/* Messages of one parameter. */
struct _p_TiedExchange {
  int count, most;     /* under way, at the most */
  RengaParcel *parcel; /* [most] */
};

static int64_t Holds(const Chunk *chunk, const Parameter *parameter, int stage)
{
  return chunk->uses->holds[(parameter - chunk->parameter) * chunk->outline->stages + stage];
}

/* Uses of a parameter in a stage, -1 where it is not held. */
static int64_t UsesIn(const Chunk *chunk, const Parameter *parameter, int stage)
{
  return Holds(chunk, parameter, stage) - 1;
}

/* Uses in other stages before this one. */
static int64_t UsesElsewhere(const Chunk *chunk, const Parameter *parameter, int stage)
{
  int64_t uses = 0;
  for (int s = 0; s < stage; s++)
    if (s != chunk->stage && UsesIn(chunk, parameter, s) > 0) uses += UsesIn(chunk, parameter, s);
  return uses;
}

/* Of so many uses of a parameter, in a gradient buffer or a message. */
static int64_t UseBytes(const Chunk *chunk, const Parameter *parameter, int64_t uses)
{
  return RengaGradientBytes_Private(chunk, uses * parameter->stride);
}

/* Other stages use the parameter, too. */
bool RengaChunkIsTied_Private(const Chunk *chunk, const Parameter *parameter)
{
  for (int s = 0; s < chunk->outline->stages; s++)
    if (s != chunk->stage && UsesIn(chunk, parameter, s) >= 0) return true;
  return false;
}

/* Whether a stage sends uses of some parameter to another, of which one is the chunk's. */
bool RengaChunkExchanges_Private(const Chunk *chunk, int from, int to)
{
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    if (parameter->trained && UsesIn(chunk, parameter, from) > 0 &&
        UsesIn(chunk, parameter, to) >= 0)
      return true;
  }
  return false;
}

/* Memory for the uses of other stages, of one parameter at a time. */
int64_t RengaChunkTiedBytes_Private(const Chunk *chunk)
{
  int64_t bytes = 0;
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    if (!parameter->trained) continue;
    const int64_t needed =
        UseBytes(chunk, parameter, UsesElsewhere(chunk, parameter, chunk->outline->stages));
    if (needed > bytes) bytes = needed;
  }
  return bytes;
}

/* Messages of the exchange of a parameter, and bytes of the longest. */
static int CountExchange(const Chunk *chunk, const Parameter *parameter, int64_t *bytes)
{
  int count = 0;
  *bytes = UseBytes(chunk, parameter, parameter->n_uses);
  for (int s = 0; s < chunk->outline->stages; s++) {
    const int64_t uses = UsesIn(chunk, parameter, s);
    if (s == chunk->stage || uses < 0) continue;
    const int others = RengaPlanGetStage(chunk->outline->plan, s)->shape.replicas;
    if (uses > 0) count++;
    if (UseBytes(chunk, parameter, uses) > *bytes) *bytes = UseBytes(chunk, parameter, uses);
    for (int r = chunk->replica; parameter->n_uses > 0 && r < others; r += chunk->replicas) count++;
  }
  return count;
}

RengaErrorCode RengaChunkSetUpTied_Private(Chunk *chunk)
{
  const Rank *rank = chunk->pipeline->rank;
  int64_t room = 0;
  RengaCall(RengaMalloc(1, &chunk->tied));
  for (int p = 0; p < chunk->n_parameters; p++) {
    int64_t bytes;
    const int count = CountExchange(chunk, &chunk->parameter[p], &bytes);
    if (count == 0 || !chunk->parameter[p].trained) continue;
    if (count > chunk->tied->most) chunk->tied->most = count;
    if (bytes > room) room = bytes;
  }
  RengaCall(RengaMalloc(chunk->tied->most, &chunk->tied->parcel));
  for (int i = 0; i < chunk->tied->most; i++)
    RengaCall(RengaParcelCreate_Private(rank->transport, rank->all, (size_t)room,
                                        &chunk->tied->parcel[i]));
  return RENGA_SUCCESS;
}

/* However many there are. */
RengaErrorCode RengaChunkFreeTied_Private(Chunk *chunk)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (!chunk->tied) return RENGA_SUCCESS;
  for (int i = 0; chunk->tied->parcel && i < chunk->tied->most; i++)
    RengaKeepFirst_Private(&code, RengaParcelDestroy_Private(&chunk->tied->parcel[i]));
  RengaFree(&chunk->tied->parcel);
  RengaFree(&chunk->tied);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Add(Chunk *chunk, int64_t count, char **sum, char *use)
{
  if (!*sum)
    *sum = use;
  else
    RengaCall(RengaDeviceAdd(chunk->device, NULL, chunk->storage.gradient, count, *sum, use));
  return RENGA_SUCCESS;
}

/* Use u of this stage: what this replica updates of it. */
static char *OwnUse(const Chunk *chunk, const Parameter *parameter, int64_t u)
{
  const int64_t place = parameter->further + (u - 1) * parameter->stride + parameter->from;
  if (u == 0) return RengaChunkShareOf_Private(chunk, parameter, ROLE_GRADIENT).data;
  return chunk->gradients->sum + RengaGradientBytes_Private(chunk, place);
}

/* Uses of all stages in order; those of other stages lie in tied_work, by stage. */
static RengaErrorCode AddUses(Chunk *chunk, const Parameter *parameter)
{
  const int64_t count = parameter->to - parameter->from;
  char *own = OwnUse(chunk, parameter, 0), *other = chunk->at->tied, *sum = NULL;
  for (int s = 0; s < chunk->outline->stages; s++)
    for (int64_t u = 0; u < UsesIn(chunk, parameter, s); u++) {
      if (s == chunk->stage) {
        RengaCall(Add(chunk, count, &sum, OwnUse(chunk, parameter, u)));
      } else {
        RengaCall(Add(chunk, count, &sum, other));
        other += UseBytes(chunk, parameter, 1);
      }
    }
  if (sum && sum != own)
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_DEVICE, own, sum,
                              (size_t)RengaGradientBytes_Private(chunk, count)));
  return RENGA_SUCCESS;
}

/* Replica r of this stage sends to the replicas of another that ask it: r, r + replicas, … */
static RengaErrorCode PostSends(Chunk *chunk, Pass *pass, const Parameter *parameter, int stage)
{
  void *own = RengaChunkVectorOf_Private(chunk, parameter, ROLE_GRADIENT).data;
  const size_t bytes = (size_t)UseBytes(chunk, parameter, parameter->n_uses);
  const int tag = RengaOutlineTag_Private(chunk->outline, TAG_TIED);
  const int others = RengaPlanGetStage(chunk->outline->plan, stage)->shape.replicas;
  for (int r = chunk->replica; bytes > 0 && r < others; r += chunk->replicas) {
    const ChunkMessage message = {.parcel = chunk->tied->parcel[chunk->tied->count],
                                  .data = own,
                                  .bytes = bytes,
                                  .peer = RengaChunkPeer_Private(chunk, stage, r),
                                  .tag = tag};
    RengaCall(RengaChunkPost_Private(chunk, pass, &message));
    chunk->tied->count++;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PostOne(Chunk *chunk, Pass *pass, const Parameter *parameter, int stage)
{
  const int others = RengaPlanGetStage(chunk->outline->plan, stage)->shape.replicas;
  const ChunkMessage message = {
      .parcel = chunk->tied->parcel[chunk->tied->count],
      .receives = true,
      .data = chunk->at->tied + UseBytes(chunk, parameter, UsesElsewhere(chunk, parameter, stage)),
      .bytes = (size_t)UseBytes(chunk, parameter, UsesIn(chunk, parameter, stage)),
      .peer = RengaChunkPeer_Private(chunk, stage, chunk->replica % others),
      .tag = RengaOutlineTag_Private(chunk->outline, TAG_TIED)};
  RengaCall(RengaChunkPost_Private(chunk, pass, &message));
  chunk->tied->count++;
  return RENGA_SUCCESS;
}

/* The chunk's own part of a parameter of the network; NULL: it has none that is trained. */
static const Parameter *FindTrained(const Chunk *chunk, int number)
{
  int low = 0, high = chunk->n_parameters;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (chunk->parameter[middle].number < number)
      low = middle + 1;
    else
      high = middle;
  }
  const Parameter *found = &chunk->parameter[low];
  return low < chunk->n_parameters && found->number == number && found->trained ? found : NULL;
}

/* By sender, then receiver, as sends are: messages between two ranks keep their order. */
static RengaErrorCode PostReceives(RengaPipeline pipeline, Pass *pass, int number)
{
  for (int s = 0; s < pipeline->outline->stages; s++)
    for (int c = 0; c < pipeline->rank->n_chunks; c++) {
      Chunk *chunk = &pipeline->rank->chunk[c];
      const Parameter *parameter = FindTrained(chunk, number);
      if (parameter && s != chunk->stage && UsesIn(chunk, parameter, s) > 0)
        RengaCall(PostOne(chunk, pass, parameter, s));
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode SendUses(Chunk *chunk, Pass *pass, const Parameter *parameter)
{
  for (int s = 0; s < chunk->outline->stages; s++)
    if (s != chunk->stage && UsesIn(chunk, parameter, s) >= 0)
      RengaCall(PostSends(chunk, pass, parameter, s));
  return RENGA_SUCCESS;
}

static RengaErrorCode WaitAll(Chunk *chunk, Pass *pass, const Parameter *parameter)
{
  char does[256], what[384];
  snprintf(does, sizeof does, "exchanges the gradient of %s with the other stages that use it in",
           parameter->name);
  RengaChunkDescribe_Private(chunk, does, sizeof what, what);
  for (int i = 0; i < chunk->tied->count; i++)
    RengaCall(RengaChunkAwait_Private(chunk, pass, chunk->tied->parcel[i], what));
  return RENGA_SUCCESS;
}

static RengaErrorCode Exchange(RengaPipeline pipeline, Pass *pass, int number)
{
  Rank *rank = pipeline->rank;
  for (int c = 0; c < rank->n_chunks; c++) rank->chunk[c].tied->count = 0;
  RengaCall(PostReceives(pipeline, pass, number));
  for (int c = 0; c < rank->n_chunks; c++) {
    const Parameter *parameter = FindTrained(&rank->chunk[c], number);
    if (parameter) RengaCall(SendUses(&rank->chunk[c], pass, parameter));
  }
  for (int c = 0; c < rank->n_chunks; c++) {
    const Parameter *parameter = FindTrained(&rank->chunk[c], number);
    if (parameter) RengaCall(WaitAll(&rank->chunk[c], pass, parameter));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddAllUses(RengaPipeline pipeline, int number)
{
  for (int c = 0; c < pipeline->rank->n_chunks; c++) {
    Chunk *chunk = &pipeline->rank->chunk[c];
    const Parameter *parameter = FindTrained(chunk, number);
    if (parameter) RengaCall(AddUses(chunk, parameter));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SumUses(RengaPipeline pipeline, Pass *pass, int number)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_TIED);
  bool shared = false, several = false;
  int64_t bytes = 0;
  for (int c = 0; c < pipeline->rank->n_chunks; c++) {
    Chunk *chunk = &pipeline->rank->chunk[c];
    const Parameter *parameter = FindTrained(chunk, number);
    if (!parameter) continue;
    shared = shared || RengaChunkIsTied_Private(chunk, parameter);
    several = several || parameter->n_uses > 1;
    bytes = RengaGradientBytes_Private(chunk, parameter->count);
  }
  if (!shared && !several) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  RengaErrorCode code = shared ? Exchange(pipeline, pass, number) : RENGA_SUCCESS;
  if (!code && !pass->failed)
    code = RengaPipelineNote_Private(pipeline, pass, AddAllUses(pipeline, number));
  RengaLogEventEnd(event, 0, shared, bytes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The sum of all uses of each parameter; in each of the rank's stages it lies where the first use
   of this stage lay. Fails only where messages are left under way. */
RengaErrorCode RengaPipelineExchangeTied_Private(RengaPipeline pipeline, Pass *pass)
{
  if (pipeline->rank->n_chunks == 0) return RENGA_SUCCESS;
  for (int p = 0; p < pipeline->outline->n_parameters; p++) RengaCall(SumUses(pipeline, pass, p));
  return RENGA_SUCCESS;
}
