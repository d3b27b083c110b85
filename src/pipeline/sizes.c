/* Programs, places and sizes of all that a chunk keeps in memory. Set-up takes what is worked out
   here; a forecast for others (forecasts.c) runs the same code for any stage and takes nothing. */
#include "exchange.h"
#include "gradients.h"
#include "rows.h"
#include "updates.h"
#include "window.h"

/* Whether some replica may add the gradients of a micro-batch to those of another. */
static bool MayAdd(Chunk *chunk)
{
  if (!chunk->outline->has_loss || !RengaChunkIsOrdered_Private(chunk) ||
      RengaChunkShardsGradients_Private(chunk))
    return false;
  for (int i = 0; i < chunk->outline->n_batches; i++)
    if (chunk->outline->batch[i] > chunk->outline->microbatch) return true;
  return false;
}

static RengaErrorCode CompileSize(Chunk *chunk, int64_t samples)
{
  Program *program;
  int count;
  const RengaValue *output;
  if (chunk->outline->has_loss)
    RengaCall(
        RengaChunkGetProgram_Private(chunk, PROGRAM_TRAINING, samples, RENGA_VALUE_NONE, &program));
  RengaCall(RengaChunkGetProgram_Private(chunk, PROGRAM_EVALUATION, samples, chunk->loss->value,
                                         &program));
  if (MayAdd(chunk)) RengaCall(RengaChunkGetAdding_Private(chunk, samples, &program));
  if (chunk->n_sums > 0)
    RengaCall(
        RengaChunkGetProgram_Private(chunk, PROGRAM_PROLOGUE, samples, RENGA_VALUE_NONE, &program));
  RengaCall(RengaGraphGetOutputs(chunk->outline->graph, &count, &output));
  for (int o = 0; o < count; o++) {
    const char *name = RengaGraphGetValue(chunk->outline->graph, output[o])->name;
    const RengaValue here = RengaGraphFindValue(chunk->sub, name);
    if (here != RENGA_VALUE_NONE && RengaGraphGetValue(chunk->sub, here)->producer >= 0)
      RengaCall(RengaChunkGetProgram_Private(chunk, PROGRAM_EVALUATION, samples, here, &program));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CompileAll(Chunk *chunk)
{
  for (int i = 0; i < chunk->outline->n_batches; i++) {
    const int64_t samples = chunk->outline->batch[i], rest = samples % chunk->outline->microbatch;
    if (samples >= chunk->outline->microbatch)
      RengaCall(CompileSize(chunk, chunk->outline->microbatch));
    if (rest > 0) RengaCall(CompileSize(chunk, rest));
  }
  ChunkSizes *sizes = chunk->sizes;
  for (int p = 0; p < chunk->programs->count; p++) {
    const Program *program = chunk->programs->row[p];
    const bool training = program->kind == PROGRAM_TRAINING;
    int64_t *temporary = &sizes->temporary_bytes[training];
    if (program->adds && RengaChunkIsOrdered_Private(chunk)) temporary = &sizes->adding_bytes;
    if (program->saved_bytes > sizes->slot_bytes[training])
      sizes->slot_bytes[training] = program->saved_bytes;
    if (program->sent_bytes > sizes->sent_bytes[training])
      sizes->sent_bytes[training] = program->sent_bytes;
    if (program->kept_bytes > sizes->kept_bytes[training])
      sizes->kept_bytes[training] = program->kept_bytes;
    if (program->folded_bytes > sizes->folded_bytes) sizes->folded_bytes = program->folded_bytes;
    if (program->temporary_bytes > *temporary) *temporary = program->temporary_bytes;
  }
  return RENGA_SUCCESS;
}

/* Of two sums at a time, to which each replica of a group gives the gradients of a micro-batch, or
   each group its part of the batch. */
static void CountFoldWork(Chunk *chunk, int64_t count, int64_t bounds[])
{
  const Outline *outline = chunk->outline;
  const int groups = RengaChunkGroups_Private(chunk), each = RengaChunkEach_Private(chunk);
  for (int r = 0; r <= each; r++) bounds[r] = r;
  size_t most = RengaCommTreeWork(each, each, bounds, chunk->storage.gradient, count);
  for (int i = 0; i < outline->n_batches && groups > 1; i++) {
    const int64_t all = RengaPlanMicrobatches(outline->plan, outline->batch[i]);
    RengaChunkBoundGroups_Private(chunk, all, bounds);
    const size_t work = RengaCommTreeWork(groups, RengaOutlineLeaves_Private(outline, all), bounds,
                                          chunk->storage.gradient, count);
    if (work > most) most = work;
  }
  chunk->memory->work_bytes = RENGA_SUMS_AT_ONCE * (size_t)RengaAlign_Private((int64_t)most);
}

/* Work memory of the sums over the replicas, the same on each of them and for each bucket: the most
   of all batches. */
static RengaErrorCode CountWork(Chunk *chunk)
{
  const int replicas = chunk->replicas;
  const BucketCounts counts = RengaChunkBuckets_Private(chunk);
  const int64_t buckets = counts.all;
  const int64_t count = (chunk->sizes->gradient_count + buckets - 1) / buckets;
  const RengaDataType type = chunk->storage.gradient;
  int64_t *bounds;
  chunk->memory->n_buckets = counts.all;
  chunk->memory->n_shared = counts.shared;
  chunk->memory->work_bytes = 0;
  if (replicas == 1 || !RengaChunkIsOrdered_Private(chunk)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(replicas + 1, &bounds));
  if (RengaChunkShardsGradients_Private(chunk)) CountFoldWork(chunk, count, bounds);
  for (int i = 0; i < chunk->outline->n_batches && !RengaChunkShardsGradients_Private(chunk); i++) {
    const int64_t leaves = RengaOutlineLeaves_Private(
        chunk->outline, RengaPlanMicrobatches(chunk->outline->plan, chunk->outline->batch[i]));
    for (int r = 0; r <= replicas; r++) bounds[r] = RengaPlanBound(leaves, replicas, r);
    const int64_t work =
        buckets *
        RengaAlign_Private((int64_t)RengaCommTreeWork(replicas, leaves, bounds, type, count));
    if ((size_t)work > chunk->memory->work_bytes) chunk->memory->work_bytes = (size_t)work;
  }
  RengaFree(&bounds);
  return RENGA_SUCCESS;
}

/* How far gradients of parameters are behind: the most of all batches. Decides the parts of
   programs. */
RengaErrorCode RengaChunkCountLag_Private(Chunk *chunk)
{
  const Outline *outline = chunk->outline;
  chunk->memory->lag = 0;
  for (int i = 0; i < outline->n_batches && outline->has_loss; i++) {
    const int64_t all = RengaPlanMicrobatches(outline->plan, outline->batch[i]);
    int64_t lag;
    RengaSchedule schedule;
    RengaCall(RengaOutlineGetShape_Private(chunk->outline, all, false, &schedule));
    RengaCall(RengaScheduleGetLag(schedule, chunk->stage, &lag));
    if (lag > chunk->memory->lag) chunk->memory->lag = lag;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CountInFlight(Chunk *chunk, int64_t microbatches, bool forward_only)
{
  int64_t in_flight;
  RengaSchedule schedule;
  RengaCall(RengaOutlineGetShape_Private(chunk->outline, microbatches, forward_only, &schedule));
  RengaCall(RengaScheduleGetInFlight(schedule, chunk->stage, &in_flight));
  if (in_flight > chunk->memory->slots) chunk->memory->slots = (int)in_flight;
  return RENGA_SUCCESS;
}

/* Micro-batches in flight: the most of all batches. Where a rank has several stages evaluation may
   need more of them. */
static RengaErrorCode CountSlots(Chunk *chunk)
{
  const Outline *outline = chunk->outline;
  const bool several = RengaPlanGetStage(outline->plan, chunk->stage)->shape.chunks > 1;
  chunk->memory->slots = 1;
  for (int i = 0; i < outline->n_batches; i++) {
    const int64_t all = RengaPlanMicrobatches(outline->plan, outline->batch[i]);
    RengaCall(CountInFlight(chunk, all, !outline->has_loss));
    if (several && outline->has_loss) RengaCall(CountInFlight(chunk, all, true));
  }
  return RENGA_SUCCESS;
}

/* Micro-batches of this replica: the most of all batches. */
static int64_t CountMostLocal(const Chunk *chunk)
{
  int64_t most = 1, first, last;
  for (int i = 0; i < chunk->outline->n_batches; i++) {
    RengaChunkRange_Private(chunk,
                            RengaPlanMicrobatches(chunk->outline->plan, chunk->outline->batch[i]),
                            &first, &last);
    if (last - first > most) most = last - first;
  }
  return most;
}

/* Its buffers of the tree: the most of all batches. */
static RengaErrorCode CountMostBuffers(const Chunk *chunk, int *most)
{
  *most = 1;
  for (int i = 0; i < chunk->outline->n_batches; i++) {
    const int64_t all = RengaPlanMicrobatches(chunk->outline->plan, chunk->outline->batch[i]);
    int buffers;
    RengaCall(RengaChunkCountTreeBuffers_Private(chunk, all, &buffers));
    if (buffers > *most) *most = buffers;
  }
  return RENGA_SUCCESS;
}

/* Instances of a message that a replica holds. Gradients of parameters need those of the stage's
   inputs and outputs. */
static int64_t RingOf(const Chunk *chunk, bool backward, int64_t most_local)
{
  const int64_t wanted =
      backward ? RENGA_SCHEDULE_GRADIENTS + chunk->memory->lag : chunk->memory->slots + 1;
  return wanted < most_local ? wanted : most_local;
}

/* What is sent forward lies in its slot, anything else in instances of its own. */
static bool IsSaved(const Chunk *chunk, int m)
{
  return !chunk->link[m].incoming && !chunk->outline->message[m].backward;
}

static void SetRings(Chunk *chunk, int64_t most_local)
{
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    const bool backward = chunk->outline->message[m].backward;
    if (!chunk->link[m].active) continue;
    chunk->link[m].ring =
        (int)(IsSaved(chunk, m) ? chunk->memory->slots : RingOf(chunk, backward, most_local));
  }
}

static void CountLinkBytes(Chunk *chunk)
{
  chunk->sizes->instance_bytes[0] = chunk->sizes->instance_bytes[1] = 0;
  for (int m = 0; m < chunk->outline->n_messages; m++)
    if (chunk->link[m].active && !IsSaved(chunk, m))
      chunk->sizes->instance_bytes[chunk->outline->message[m].backward] += chunk->link[m].bytes;
}

static void PlacePersistent(Chunk *chunk)
{
  int64_t offset = RengaChunkParameterBytes_Private(chunk);
  for (int s = 0; s < chunk->states->count; s++) {
    chunk->states->offset[s] = offset;
    offset += RengaAlign_Private((int64_t)RengaTensorSpecBytes(
        &RengaGraphGetValue(chunk->sub, chunk->states->value[s])->spec));
  }
  for (int l = 0; l < chunk->uses->rows->n_leaves; l++) {
    const RengaValue v = chunk->uses->rows->leaf[l];
    const RengaGraphValue *value = RengaGraphGetValue(chunk->sub, v);
    if (value->kind != RENGA_VALUE_CONSTANT) continue;
    chunk->value_place[v] = (Place){REGION_PERSISTENT, offset};
    offset += RengaAlign_Private((int64_t)RengaTensorSpecBytes(&value->spec));
  }
  if (chunk->loss->seed != RENGA_VALUE_NONE) {
    chunk->value_place[chunk->loss->seed] = (Place){REGION_PERSISTENT, offset};
    offset += PIPELINE_ALIGNMENT;
  }
  for (int s = 0; s < chunk->n_sums; s++) {
    chunk->sum[s].offset = offset;
    chunk->value_place[chunk->sum[s].sum] = (Place){REGION_PERSISTENT, offset};
    offset += PIPELINE_ALIGNMENT;
  }
  chunk->sizes->persistent_bytes = offset;
}

/* Places of what the programs do not make. */
static RengaErrorCode PlaceGiven(Chunk *chunk)
{
  const int count = RengaGraphGetValueCount(chunk->sub);
  RengaCall(RengaMalloc(count + 1, &chunk->value_place));
  for (RengaValue v = 0; v < count; v++) chunk->value_place[v].region = REGION_ABSENT;
  PlacePersistent(chunk);
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    chunk->value_place[parameter->value] = RengaChunkPlaceOf_Private(chunk, parameter);
  }
  for (RengaValue v = 0; v < count; v++)
    if (chunk->uses->same[v] != v) chunk->value_place[v] = chunk->value_place[chunk->uses->same[v]];
  for (int s = 0; s < chunk->states->count; s++)
    chunk->value_place[chunk->states->value[s]] =
        (Place){REGION_PERSISTENT, chunk->states->offset[s]};
  for (int f = 0; f < chunk->inputs->n_fields; f++)
    chunk->value_place[chunk->inputs->field[f].value] =
        (Place){REGION_INPUTS, chunk->inputs->field[f].offset};
  for (int m = 0; m < chunk->outline->n_messages; m++)
    if (chunk->link[m].active && chunk->link[m].incoming)
      chunk->value_place[chunk->link[m].value] = (Place){REGION_MESSAGE + m, 0};
  RengaCall(RengaChunkPlaceJoined_Private(chunk));
  return RENGA_SUCCESS;
}

/* A slot for each micro-batch in flight; where the stage recomputes, that holds what is sent and
   what is kept all the same. One slot is shared, of what comes back from the host or is made again
   for a backward in two parts. */
int64_t RengaChunkKeptBytes_Private(const Chunk *chunk, bool training)
{
  const int64_t saved = chunk->sizes->slot_bytes[training],
                sent = chunk->sizes->sent_bytes[training];
  const int64_t kept = chunk->sizes->kept_bytes[training];
  return chunk->recompute ? chunk->memory->slots * (sent + kept) + saved
                          : chunk->memory->slots * saved;
}

/* Training has its slots, then its temporary tensors; evaluation cuts the same memory elsewhere. A
   replica of one micro-batch adds no gradients. */
static void ShareMemory(Chunk *chunk, const ReplicaShare *share, RengaPipelineMemory *memory)
{
  int64_t most = 0;
  for (int k = 0; k < 2; k++) {
    int64_t temporary = chunk->sizes->temporary_bytes[k];
    if (k == 1 && share->most_local > 1 && chunk->sizes->adding_bytes > temporary)
      temporary = chunk->sizes->adding_bytes;
    const int64_t bytes = RengaChunkKeptBytes_Private(chunk, k) + temporary;
    if (bytes > most) most = bytes;
  }
  memory->saved = RengaChunkKeptBytes_Private(chunk, true);
  memory->temporary = most - memory->saved;
}

/* Of masters and values of sharded parameters, of which a replica has a share, and of the window.
   */
static int64_t CountShareBytes(const Chunk *chunk, int64_t own)
{
  const bool fetches = RengaChunkFetches_Private(chunk);
  const bool masters = RengaChunkHasMasters_Private(chunk);
  int64_t bytes = fetches ? chunk->sizes->window_bytes : 0;
  if (fetches || masters) bytes += RengaChunkRoleBytes_Private(chunk, ROLE_MASTER, own);
  if (fetches && masters) bytes += RengaValueBytes_Private(chunk, own);
  return bytes;
}

/* All memory of one replica. */
static void SizeReplica(Chunk *chunk, const ReplicaShare *share, RengaPipelineMemory *memory)
{
  const bool folds = RengaChunkShardsGradients_Private(chunk);
  const int groups = RengaChunkGroups_Private(chunk);
  const int64_t buffer =
      RengaGradientBytes_Private(chunk, folds ? share->folded : chunk->sizes->gradient_count);
  *memory = (RengaPipelineMemory){0};
  memory->parameters = chunk->sizes->persistent_bytes + chunk->sizes->folded_bytes;
  memory->parameters += CountShareBytes(chunk, share->own);
  memory->gradients = share->n_buffers * buffer + (folds ? chunk->sizes->local_bytes : 0) +
                      (groups > 1 ? RengaGradientBytes_Private(chunk, share->kept) : 0) +
                      (int64_t)chunk->memory->work_bytes + chunk->sizes->tied_bytes +
                      chunk->sizes->row_bytes;
  memory->optimizer = RengaChunkMomentBytes_Private(chunk, share->own);
  ShareMemory(chunk, share, memory);
  for (int backward = 0; backward < 2; backward++)
    memory->messages +=
        RingOf(chunk, backward, share->most_local) * chunk->sizes->instance_bytes[backward];
  memory->inputs = chunk->memory->slots * chunk->sizes->input_bytes;
  memory->forecast = memory->parameters + memory->gradients + memory->optimizer + memory->saved +
                     memory->temporary + memory->messages + memory->inputs;
}

/* What is the same for all replicas, and however many there are: programs and the places of what is
   given. */
RengaErrorCode RengaChunkSizeStage_Private(Chunk *chunk)
{
  const char *const *moments;
  RengaCall(PlaceGiven(chunk));
  RengaChunkPlaceRows_Private(chunk);
  RengaCall(CompileAll(chunk));
  RengaChunkCountExchanges_Private(chunk);
  RengaCall(RengaChunkPlaceLocal_Private(chunk));
  RengaCall(RengaChunkPlaceWindow_Private(chunk));
  CountLinkBytes(chunk);
  RengaCall(RengaOptimizerGetMoments(chunk->outline->settings->optimizer, &chunk->sizes->n_moments,
                                     &moments));
  chunk->sizes->tied_bytes = RengaChunkTiedBytes_Private(chunk);
  return RENGA_SUCCESS;
}

/* Before the first step; where a rank has several stages evaluation may be impossible too. */
static RengaErrorCode ProveSchedules(Chunk *chunk)
{
  const Outline *outline = chunk->outline;
  const bool several = RengaPlanGetStage(outline->plan, chunk->stage)->shape.chunks > 1;
  for (int i = 0; i < outline->n_batches; i++) {
    const int64_t all = RengaPlanMicrobatches(outline->plan, outline->batch[i]);
    RengaSchedule schedule;
    RengaCall(RengaOutlineGetSchedule_Private(chunk->outline, all, !outline->has_loss, &schedule));
    if (several) RengaCall(RengaOutlineGetSchedule_Private(chunk->outline, all, true, &schedule));
  }
  return RENGA_SUCCESS;
}

/* Of sharded parameters. */
static RengaErrorCode CountOwn(Chunk *chunk, ReplicaShare *share)
{
  const int place = RengaChunkPlace_Private(chunk, chunk->replica);
  int64_t *own;
  RengaCall(RengaMalloc(3 * (int64_t)chunk->replicas, &own));
  int64_t *kept = own + chunk->replicas, *folded = kept + chunk->replicas;
  RengaErrorCode code = RengaChunkCountShares_Private(chunk, own);
  if (!code) code = RengaChunkCountScattered_Private(chunk, own, kept, folded);
  share->own = chunk->memory->own = own[place];
  share->kept = chunk->memory->kept = kept[place];
  share->folded = chunk->memory->folded = folded[place];
  RengaFree(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Fills all sizes and memory.forecast of this rank's stage and replica. */
RengaErrorCode RengaChunkSize_Private(Chunk *chunk)
{
  ReplicaShare share = {0};
  RengaCall(ProveSchedules(chunk));
  RengaCall(RengaChunkCountLag_Private(chunk));
  RengaCall(RengaChunkSizeStage_Private(chunk));
  RengaCall(CountSlots(chunk));
  RengaCall(CountWork(chunk));
  share.most_local = CountMostLocal(chunk);
  RengaCall(CountMostBuffers(chunk, &share.n_buffers));
  RengaCall(CountOwn(chunk, &share));
  chunk->memory->n_buffers = share.n_buffers;
  SetRings(chunk, share.most_local);
  SizeReplica(chunk, &share, &chunk->memory->bytes);
  for (int k = 0; k < 2; k++)
    chunk->sizes->temporary_bytes[k] = chunk->memory->bytes.saved + chunk->memory->bytes.temporary -
                                       RengaChunkKeptBytes_Private(chunk, k);
  return RENGA_SUCCESS;
}

/* Shares of the replicas that may need most: one with fewer micro-batches and no more buffers than
   another is left out. */
static void AddShare(ReplicaShares *shares, const ReplicaShare *share)
{
  for (int i = 0; i < shares->count; i++)
    if (shares->row[i].most_local >= share->most_local &&
        shares->row[i].n_buffers >= share->n_buffers)
      return;
  shares->row[shares->count++] = *share;
}

/* Replicas that fold their gradients have as many buffers each. */
static RengaErrorCode CountAllShares(Chunk *chunk, ReplicaShares *shares)
{
  ReplicaShare share = {0};
  RengaCall(RengaMalloc(shares->replicas, &shares->all));
  RengaCall(RengaMalloc(shares->replicas, &shares->row));
  for (int r = 0; r < shares->replicas; r++) {
    chunk->replica = r;
    share.most_local = CountMostLocal(chunk);
    if (r == 0 || !shares->folds) RengaCall(CountMostBuffers(chunk, &share.n_buffers));
    AddShare(shares, &share);
    shares->all[r] = share;
  }
  return RENGA_SUCCESS;
}

static void FreeShares(ReplicaShares *shares)
{
  RengaFree(&shares->all);
  RengaFree(&shares->row);
}

/* They are the same in all stages with as many replicas. */
static RengaErrorCode FindShares(Chunk *chunk, ShareTable *table, const ReplicaShares **found)
{
  ReplicaShares made = {.replicas = chunk->replicas,
                        .folds = RengaChunkShardsGradients_Private(chunk)};
  for (int i = 0; i < table->count; i++) {
    *found = &table->row[i];
    if ((*found)->replicas == made.replicas && (*found)->folds == made.folds) return RENGA_SUCCESS;
  }
  RengaCall(RengaRealloc(table->count + 1, &table->row));
  const RengaErrorCode code = CountAllShares(chunk, &made);
  if (code) FreeShares(&made);
  RengaCall(code);
  *found = &table->row[table->count++];
  table->row[table->count - 1] = made;
  return RENGA_SUCCESS;
}

void RengaFreeShares_Private(ShareTable *table)
{
  for (int i = 0; i < table->count; i++) FreeShares(&table->row[i]);
  RengaFree(&table->row);
}

/* Shares of sharded parameters differ by a few pieces: each replica is looked at. */
static void SizeWorstShare(Chunk *chunk, const ReplicaShares *shares, const int64_t own[],
                           RengaPipelineMemory *worst)
{
  const int64_t *kept = own + chunk->replicas, *folded = kept + chunk->replicas;
  for (int r = 0; r < chunk->replicas; r++) {
    ReplicaShare share = shares->all[r];
    RengaPipelineMemory memory;
    chunk->replica = r;
    const int place = RengaChunkPlace_Private(chunk, r);
    share.own = own[place];
    share.kept = kept[place];
    share.folded = folded[place];
    SizeReplica(chunk, &share, &memory);
    if (memory.forecast > worst->forecast) *worst = memory;
  }
}

static RengaErrorCode SizeWorstSharded(Chunk *chunk, const ReplicaShares *shares,
                                       RengaPipelineMemory *worst)
{
  int64_t *own; /* kept and folded behind it */
  RengaCall(RengaMalloc(3 * (int64_t)chunk->replicas, &own));
  int64_t *kept = own + chunk->replicas;
  RengaErrorCode code = RengaChunkCountShares_Private(chunk, own);
  if (!code) code = RengaChunkCountScattered_Private(chunk, own, kept, kept + chunk->replicas);
  if (!code) SizeWorstShare(chunk, shares, own, worst);
  RengaFree(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The replica that needs most of a chunk whose own sizes are there; table: of its outline. */
RengaErrorCode RengaChunkSizeWorst_Private(Chunk *chunk, ShareTable *table,
                                           RengaPipelineMemory *worst)
{
  const ReplicaShares *shares = NULL;
  *worst = (RengaPipelineMemory){0};
  RengaCall(CountSlots(chunk));
  RengaCall(CountWork(chunk));
  RengaCall(FindShares(chunk, table, &shares));
  if (chunk->sizes->n_parts > 0 || shares->folds) {
    RengaCall(SizeWorstSharded(chunk, shares, worst));
    return RENGA_SUCCESS;
  }
  for (int i = 0; i < shares->count; i++) {
    RengaPipelineMemory memory;
    SizeReplica(chunk, &shares->row[i], &memory);
    if (memory.forecast > worst->forecast) *worst = memory;
  }
  return RENGA_SUCCESS;
}
