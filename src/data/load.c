/* Data: what the stores of a rank lack is read from the files of the set, in the order in which it
   lies there. */
#include "placement.h"
#include <stdlib.h>
#include <string.h>

/* A sample that a store lacks, and the slot for it. */
typedef struct {
  RengaDataStore *store;
  int64_t slot;
} Lacking;

typedef struct {
  int64_t count;
  int64_t *sample; /* [count] */
  Lacking *to;     /* [count] */
  char *buffer;    /* of one sample */
  struct _RengaPlacement *placement;
} LoadList;

/* A sample that lies in a slot already. */
typedef struct {
  int64_t sample, slot;
} HeldSample;

static int CompareHeld(const void *a, const void *b)
{
  const HeldSample *x = a, *y = b;
  return (x->sample > y->sample) - (x->sample < y->sample);
}

/* The sample that belongs to a place, or (behind these) comes in. */
static int64_t SampleFor(RengaData data, const RengaDataStore *store, int64_t epoch, int64_t place)
{
  if (place < store->places) return RengaDataSampleOf_Private(data, epoch, store->owner, place);
  const int64_t w = place - store->places;
  const RengaDataMove move = RengaDataMoveTo_Private(data, epoch + 1, store->owner, w);
  return RengaDataSampleOf_Private(data, epoch, move.from, move.from_place);
}

/* Slots that hold what a place wants are its own from now on; slot -1 where there is none. */
static void TakeFound(RengaDataStore *store, int64_t wanted, const int64_t sample[], int64_t n_held,
                      HeldSample held[])
{
  for (int64_t place = 0; place < store->slots; place++) {
    const HeldSample key = {place < wanted ? sample[place] : -1, 0};
    HeldSample *found =
        n_held > 0 ? bsearch(&key, held, (size_t)n_held, sizeof *held, CompareHeld) : NULL;
    store->slot[place] = found && key.sample >= 0 ? found->slot : -1;
    if (store->slot[place] >= 0)
      found->slot = -1; /* of equal ones the others are no longer found */
  }
}

/* The slots that are left go to the places that have none. */
static void ShareRest(RengaDataStore *store, bool taken[])
{
  int64_t next = 0;
  for (int64_t place = 0; place < store->slots; place++)
    if (store->slot[place] >= 0) taken[store->slot[place]] = true;
  for (int64_t place = 0; place < store->slots; place++) {
    if (store->slot[place] >= 0) continue;
    while (taken[next]) next++;
    store->slot[place] = next++;
  }
}

static RengaErrorCode AssignWith(RengaDataStore *store, int64_t wanted, const int64_t sample[],
                                 HeldSample held[], bool taken[])
{
  int64_t n = 0;
  for (int64_t s = 0; s < store->slots; s++)
    if (store->held[s] >= 0) held[n++] = (HeldSample){store->held[s], s};
  qsort(held, (size_t)n, sizeof *held, CompareHeld);
  TakeFound(store, wanted, sample, n, held);
  ShareRest(store, taken);
  return RENGA_SUCCESS;
}

static RengaErrorCode AssignSlots(RengaDataStore *store, int64_t wanted, const int64_t sample[])
{
  HeldSample *held = NULL;
  bool *taken = NULL;
  RengaErrorCode code = RengaMalloc(store->slots, &held);
  if (!code) code = RengaMalloc(store->slots, &taken);
  if (!code) code = AssignWith(store, wanted, sample, held, taken);
  RengaFree(&held);
  RengaFree(&taken);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What one store lacks, onto the list. */
static RengaErrorCode ListLacking(RengaData data, RengaDataStore *store, int64_t epoch,
                                  int64_t incoming, LoadList *list)
{
  const int64_t wanted = store->places + incoming;
  int64_t *sample;
  RengaCall(RengaMalloc(wanted, &sample));
  for (int64_t p = 0; p < wanted; p++) sample[p] = SampleFor(data, store, epoch, p);
  const RengaErrorCode code = AssignSlots(store, wanted, sample);
  for (int64_t p = 0; p < wanted && !code; p++) {
    if (store->held[store->slot[p]] == sample[p]) continue;
    list->sample[list->count] = sample[p];
    list->to[list->count++] = (Lacking){store, store->slot[p]};
  }
  RengaFree(&sample);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PutLoaded(void *user, int64_t index, int64_t sample, size_t bytes,
                                const char *raw)
{
  LoadList *list = user;
  RengaDataStore *store = list->to[index].store;
  if (bytes < store->bytes) /* of a file with smaller numbers than others */
    raw = memcpy(list->buffer, raw, bytes);
  RengaCheck(RengaStorePut_Private(store, list->to[index].slot, sample, raw), MPI_COMM_SELF,
             RENGA_ERR_FILE_WRITE, "data cache %s cannot be written", store->name);
  list->placement->traffic.loaded_samples++;
  list->placement->traffic.loaded_bytes += (int64_t)store->bytes;
  return RENGA_SUCCESS;
}

static RengaErrorCode LoadField(RengaData data, int field, int64_t epoch, int64_t incoming,
                                LoadList *list)
{
  struct _RengaPlacement *p = data->placement;
  list->count = 0;
  for (int s = 0; s < p->n_stores; s++)
    if (p->store[s].field == field)
      RengaCall(ListLacking(data, &p->store[s], epoch, incoming, list));
  RengaCall(RengaDataVisitFile_Private(data, field, list->count, list->sample, PutLoaded, list));
  return RENGA_SUCCESS;
}

static int64_t MostSlots(const struct _RengaPlacement *p, int field)
{
  int64_t slots = 0;
  for (int s = 0; s < p->n_stores; s++)
    if (p->store[s].field == field) slots += p->store[s].slots;
  return slots;
}

RengaErrorCode RengaPlacementLoad_Private(RengaData data, int64_t epoch, int64_t incoming)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int f = 0; f < data->n_fields && !code; f++) {
    LoadList list = {.placement = data->placement};
    const int64_t slots = MostSlots(data->placement, f);
    if (slots == 0) continue;
    code = RengaMalloc(slots, &list.sample);
    if (!code) code = RengaMalloc(slots, &list.to);
    if (!code) code = RengaMalloc((int64_t)RengaDataRawBytes_Private(data, f), &list.buffer);
    if (!code) code = LoadField(data, f, epoch, incoming, &list);
    RengaFree(&list.sample);
    RengaFree(&list.to);
    RengaFree(&list.buffer);
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}
