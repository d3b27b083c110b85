/* What lies in the host's memory instead of the device's.

   Moments of the optimizer (Ren et al., "ZeRO-Offload", USENIX ATC
   2021, but the device computes). They are vectors as on the device. An update cuts these into
   ranges, each of which comes to a window of the device's memory, is updated with its parameters,
   and goes back; while one window is updated the other is filled. Updates are elementwise and
   parameters are cut between pieces of RENGA_VECTOR_PIECE elements, so that bits are the same. */
#include "renga/private/optimizer.h"
#include "updates.h"
#include <string.h>

enum { WINDOW = 16 * RENGA_VECTOR_PIECE }; /* elements of each moment, at the most */

static int64_t CountMomentElements(const Chunk *chunk, int64_t own)
{
  return chunk->sizes->moment_count + own;
}

/* Elements of a window; other: there is a second one. */
static int64_t SizeWindow(const Chunk *chunk, int64_t own, bool *other)
{
  const int64_t all = CountMomentElements(chunk, own);
  *other = all > WINDOW;
  return *other ? WINDOW : all;
}

static bool OffloadsMoments(const Chunk *chunk)
{
  return RengaSettingsOffloadsMoments_Private(chunk->outline->settings) &&
         chunk->sizes->n_moments > 0;
}

/* Of the device; own: elements of sharded parameters that the replica updates. */
int64_t RengaChunkMomentBytes_Private(const Chunk *chunk, int64_t own)
{
  bool other;
  int64_t elements = CountMomentElements(chunk, own);
  if (OffloadsMoments(chunk)) elements = SizeWindow(chunk, own, &other) * (other ? 2 : 1);
  return chunk->sizes->n_moments * RengaChunkRoleBytes_Private(chunk, ROLE_MOMENT, elements);
}

static int64_t CountAwayBytes(const Chunk *chunk)
{
  return RengaChunkKeepsAway_Private(chunk) ? chunk->memory->slots * chunk->sizes->slot_bytes[true]
                                            : 0;
}

/* Of the host. */
static int64_t CountHostMoments(const Chunk *chunk)
{
  if (!OffloadsMoments(chunk)) return 0;
  return chunk->sizes->n_moments *
         RengaChunkRoleBytes_Private(chunk, ROLE_MOMENT,
                                     CountMomentElements(chunk, chunk->memory->own));
}

int64_t RengaChunkOffloadedBytes_Private(const Chunk *chunk)
{
  return CountHostMoments(chunk) + CountAwayBytes(chunk);
}

/* Where a parameter's share begins among the elements of a moment. */
static int64_t PlaceAmongMoments(const Chunk *chunk, const RengaParameterUpdate *update)
{
  const int64_t bytes = (char *)update->moment[0].data - chunk->updates->offload.host;
  return bytes / RengaChunkRoleBytes_Private(chunk, ROLE_MOMENT, 1);
}

/* Elements [from, from + count) of an update go into the range that is being made, or begin a new
   one. */
static RengaErrorCode AddToRange(Chunk *chunk, int number, int64_t place, int64_t from,
                                 int64_t count)
{
  OffloadedMoments *offload = &chunk->updates->offload;
  OffloadRange *range = offload->n_ranges > 0 ? &offload->range[offload->n_ranges - 1] : NULL;
  const int64_t first = place + from;
  if (!range || first < range->first + range->count ||
      first + count > range->first + offload->window) {
    RengaCall(RengaRealloc(offload->n_ranges + 1, &offload->range));
    range = &offload->range[offload->n_ranges++];
    *range = (OffloadRange){.first = first, .rows = offload->n_rows};
  }
  RengaCall(RengaRealloc(offload->n_rows + 1, &offload->row));
  offload->row[offload->n_rows++] = (OffloadRow){number, from, count};
  range->count = first + count - range->first;
  range->n_rows++;
  if (range->n_rows > offload->most_rows) offload->most_rows = range->n_rows;
  return RENGA_SUCCESS;
}

/* Room that is left in the range for elements from `first` on. */
static int64_t LeftInRange(const OffloadedMoments *offload, int64_t first)
{
  const OffloadRange *range = offload->n_ranges > 0 ? &offload->range[offload->n_ranges - 1] : NULL;
  if (!range || first < range->first + range->count) return 0;
  return range->first + offload->window - first;
}

static RengaErrorCode CutUpdate(Chunk *chunk, int number)
{
  const RengaParameterUpdate *update = &chunk->updates->update[number];
  const int64_t place = PlaceAmongMoments(chunk, update), all = update->parameter.count;
  for (int64_t from = 0; from < all;) {
    int64_t count = all - from, left = LeftInRange(&chunk->updates->offload, place + from);
    if (left < RENGA_VECTOR_PIECE && left < count) left = chunk->updates->offload.window;
    if (count > left) count = left / RENGA_VECTOR_PIECE * RENGA_VECTOR_PIECE;
    RengaCall(AddToRange(chunk, number, place, from, count));
    from += count;
  }
  return RENGA_SUCCESS;
}

/* Behind the table of updates. */
RengaErrorCode RengaChunkSetUpOffload_Private(Chunk *chunk)
{
  OffloadedMoments *offload = &chunk->updates->offload;
  if (!offload->host) return RENGA_SUCCESS;
  offload->window = SizeWindow(chunk, chunk->memory->own, &offload->other);
  for (int u = 0; u < chunk->updates->n_updates; u++) RengaCall(CutUpdate(chunk, u));
  RengaCall(RengaMalloc(offload->most_rows + 1, &offload->update));
  for (int w = 0; w < 2; w++) {
    RengaCall(RengaEventCreate(chunk->device, &offload->arrived[w]));
    RengaCall(RengaEventCreate(chunk->device, &offload->updated[w]));
  }
  RengaCall(RengaEventCreate(chunk->device, &offload->back));
  return RENGA_SUCCESS;
}

/* Zero moments, before anything is queued with them. */
RengaErrorCode RengaChunkTakeOffload_Private(Chunk *chunk)
{
  const int64_t bytes = CountHostMoments(chunk), away = CountAwayBytes(chunk);
  if (away > 0) RengaCall(RengaDeviceHostMalloc(chunk->device, (size_t)away, &chunk->at->away));
  if (bytes == 0) return RENGA_SUCCESS;
  RengaCall(RengaDeviceHostMalloc(chunk->device, (size_t)bytes, &chunk->updates->offload.host));
  memset(chunk->updates->offload.host, 0, (size_t)bytes);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkFreeOffload_Private(Chunk *chunk)
{
  OffloadedMoments *offload = &chunk->updates->offload;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int w = 0; w < 2; w++) {
    if (offload->arrived[w])
      RengaKeepFirst_Private(&code, RengaEventDestroy(chunk->device, &offload->arrived[w]));
    if (offload->updated[w])
      RengaKeepFirst_Private(&code, RengaEventDestroy(chunk->device, &offload->updated[w]));
  }
  if (offload->back)
    RengaKeepFirst_Private(&code, RengaEventDestroy(chunk->device, &offload->back));
  if (offload->host)
    RengaKeepFirst_Private(&code, RengaDeviceHostFree(chunk->device, &offload->host));
  if (chunk->at->away)
    RengaKeepFirst_Private(&code, RengaDeviceHostFree(chunk->device, &chunk->at->away));
  RengaFree(&offload->range);
  RengaFree(&offload->row);
  RengaFree(&offload->update);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static char *WindowOf(const Chunk *chunk, int w, int moment)
{
  const int64_t place = chunk->updates->offload.window * (w * chunk->sizes->n_moments + moment);
  return chunk->at->moments + RengaChunkRoleBytes_Private(chunk, ROLE_MOMENT, place);
}

/* A range of all moments, to window w or from it. */
static RengaErrorCode QueueRange(Chunk *chunk, const OffloadRange *range, int w, bool up)
{
  const int64_t all = CountMomentElements(chunk, chunk->memory->own);
  const RengaStream copies = chunk->pipeline->rank->copies;
  const size_t bytes = (size_t)RengaChunkRoleBytes_Private(chunk, ROLE_MOMENT, range->count);
  for (int m = 0; m < chunk->sizes->n_moments; m++) {
    char *window = WindowOf(chunk, w, m);
    char *host = chunk->updates->offload.host +
                 RengaChunkRoleBytes_Private(chunk, ROLE_MOMENT, m * all + range->first);
    RengaCall(RengaDeviceCopy(chunk->device, copies,
                              up ? RENGA_HOST_TO_DEVICE : RENGA_DEVICE_TO_HOST, up ? window : host,
                              up ? host : window, bytes));
  }
  return RENGA_SUCCESS;
}

static int WindowOfRange(const OffloadedMoments *offload, int r)
{
  return offload->other ? r % 2 : 0;
}

static RengaErrorCode FetchRange(Chunk *chunk, int r)
{
  const OffloadedMoments *offload = &chunk->updates->offload;
  const int w = WindowOfRange(offload, r);
  if (r >= offload->n_ranges) return RENGA_SUCCESS;
  RengaCall(QueueRange(chunk, &offload->range[r], w, true));
  RengaCall(RengaEventRecord(chunk->device, offload->arrived[w], chunk->pipeline->rank->copies));
  return RENGA_SUCCESS;
}

static RengaVector CutVector(RengaVector vector, int64_t from, int64_t count)
{
  if (vector.data)
    vector.data = (char *)vector.data + from * (int64_t)RengaDataTypeSize(vector.type);
  vector.count = count;
  return vector;
}

/* Of the rows of a range, with moments in window w. */
static void FillUpdates(Chunk *chunk, const OffloadRange *range, int w)
{
  OffloadedMoments *offload = &chunk->updates->offload;
  for (int i = 0; i < range->n_rows; i++) {
    const OffloadRow *row = &offload->row[range->rows + i];
    const RengaParameterUpdate *whole = &chunk->updates->update[row->number];
    const int64_t at = PlaceAmongMoments(chunk, whole) + row->from - range->first;
    RengaParameterUpdate *update = &offload->update[i];
    *update = *whole;
    update->parameter = CutVector(whole->parameter, row->from, row->count);
    update->gradient = CutVector(whole->gradient, row->from, row->count);
    update->value = CutVector(whole->value, row->from, row->count);
    for (int m = 0; m < chunk->sizes->n_moments; m++) {
      update->moment[m].data =
          WindowOf(chunk, w, m) + RengaChunkRoleBytes_Private(chunk, ROLE_MOMENT, at);
      update->moment[m].count = row->count;
    }
  }
}

static RengaErrorCode UpdateRange(Chunk *chunk, int r, double scale)
{
  OffloadedMoments *offload = &chunk->updates->offload;
  const OffloadRange *range = &offload->range[r];
  const RengaStream copies = chunk->pipeline->rank->copies;
  const int w = WindowOfRange(offload, r);
  FillUpdates(chunk, range, w);
  RengaCall(RengaEventWait(chunk->device, offload->arrived[w], NULL));
  RengaCall(RengaOptimizerUpdateAll(chunk->outline->settings->optimizer, chunk->device, NULL,
                                    chunk->pipeline->step, scale, range->n_rows, offload->update));
  RengaCall(RengaEventRecord(chunk->device, offload->updated[w], NULL));
  RengaCall(RengaEventWait(chunk->device, offload->updated[w], copies));
  RengaCall(QueueRange(chunk, range, w, false));
  return RENGA_SUCCESS;
}

/* Where there is a second window it is filled while the first is updated: what was in it has been
   queued back. Stream NULL goes on when all is back: who waits for it may look at the moments. */
RengaErrorCode RengaChunkQueueOffloaded_Private(Chunk *chunk, double scale)
{
  const OffloadedMoments *offload = &chunk->updates->offload;
  if (offload->other) RengaCall(FetchRange(chunk, 0));
  for (int r = 0; r < offload->n_ranges; r++) {
    RengaCall(FetchRange(chunk, offload->other ? r + 1 : r));
    RengaCall(UpdateRange(chunk, r, scale));
  }
  RengaCall(RengaEventRecord(chunk->device, offload->back, chunk->pipeline->rank->copies));
  RengaCall(RengaEventWait(chunk->device, offload->back, NULL));
  return RENGA_SUCCESS;
}

/* The slot of saved tensors, in the order of the work on stream NULL: forward has filled it, the
   next forward fills it again. */
static RengaErrorCode QueueSlot(Chunk *chunk, int64_t i, bool up)
{
  const int64_t bytes = chunk->sizes->slot_bytes[true];
  char *host = chunk->at->away + i % chunk->memory->slots * bytes,
       *slot = chunk->at->region[REGION_SAVED];
  RengaSpan span;
  if (bytes == 0) return RENGA_SUCCESS;
  RengaCall(RengaSpanBegin_Private(chunk->device, NULL, &span));
  const RengaErrorCode code =
      RengaDeviceCopy(chunk->device, NULL, up ? RENGA_HOST_TO_DEVICE : RENGA_DEVICE_TO_HOST,
                      up ? slot : host, up ? host : slot, (size_t)bytes);
  const RengaErrorCode ended = RengaSpanEnd_Private(
      chunk->device, NULL, span, "compute", "Copy of saved activations", 0, "saved activations");
  RengaCall(code ? code : ended);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkSendAway_Private(Chunk *chunk, int64_t i)
{
  RengaCall(QueueSlot(chunk, i, false));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkFetch_Private(Chunk *chunk, int64_t i)
{
  RengaCall(QueueSlot(chunk, i, true));
  return RENGA_SUCCESS;
}
