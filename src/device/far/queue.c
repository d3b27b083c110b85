/* Streams and events of the far device. Nothing runs before somebody waits or asks; then a seeded
   scheduler takes work from the streams in as bad an order as the events allow: it prefers now
   this stream, now that, and does no more of the others than it has to. */
#include "far.h"

static uint64_t DrawDelay_Far(FarDevice *far)
{
  uint64_t z = (far->random += UINT64_C(0x9e3779b97f4a7c15)); /* SplitMix64 */
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static bool CanRun(const RengaStream stream)
{
  const FarItem *item = stream->first;
  return item && (!item->awaited || item->awaited->done >= item->place);
}

/* One of the streams that can go on; NULL: there is no work. */
static RengaStream Choose_Far(FarDevice *far)
{
  RengaStream chosen = NULL;
  uint64_t count = 0;
  if (far->favourite && CanRun(far->favourite) && DrawDelay_Far(far) % 8 != 0)
    return far->favourite;
  for (RengaStream s = far->streams; s; s = s->next)
    if (CanRun(s) && DrawDelay_Far(far) % ++count == 0) chosen = s;
  if (DrawDelay_Far(far) % 4 == 0) far->favourite = chosen;
  return chosen;
}

static bool IsIdle(const FarDevice *far)
{
  for (RengaStream s = far->streams; s; s = s->next)
    if (s->first) return false;
  return true;
}

static void RunFirst(RengaDevice device, RengaStream stream)
{
  FarDevice *far = device->data;
  FarItem *item = stream->first;
  stream->first = item->next;
  if (!stream->first) stream->last = NULL;
  if (item->run) {
    RengaClosedSay_Private(far->space, item->what);
    const RengaErrorCode code = item->run(device, item->argument);
    RengaClosedSay_Private(far->space, NULL);
    if (!far->code) far->code = code;
  }
  stream->done++;
  if (IsIdle(far)) far->used = 0;
}

/* Until stream has done `place` pieces; NULL: until all have done all. The order of any two pieces
   is that of the streams and of events; an event names what was queued before, so that some stream
   can always go on. most: no more pieces than that. */
static RengaErrorCode Run_Far(RengaDevice device, RengaStream stream, int64_t place, int64_t most)
{
  FarDevice *far = device->data;
  if (most == 0 || (stream ? stream->done >= place : IsIdle(far))) return RENGA_SUCCESS;
  RengaDeviceHoldSignals_Private();
  if (DrawDelay_Far(far) % 3 == 0) far->favourite = stream;
  for (int64_t i = 0; i < most && (stream ? stream->done < place : !IsIdle(far)); i++)
    RunFirst(device, Choose_Far(far));
  RengaDeviceReleaseSignals_Private();
  RengaCall(RengaClosedClose_Private(far->space));
  return RENGA_SUCCESS;
}

/* Somebody waits for a place of a stream. */
static RengaErrorCode RunUntil(RengaDevice device, RengaStream stream, int64_t place)
{
  FarDevice *far = device->data;
  const bool busy = !IsIdle(far);
  RengaCall(Run_Far(device, stream, place, INT64_MAX));
  far->idle += busy && IsIdle(far);
  return RENGA_SUCCESS;
}

/* For tests: how often the device had nothing left to do because somebody waited. */
int64_t RengaFarGetIdle_Private(RengaDevice device)
{
  const FarDevice *far = device->data;
  return far->idle;
}

/* The error of work that ran since the last wait, if there was one. */
static RengaErrorCode TakeError(FarDevice *far)
{
  const RengaErrorCode code = far->code;
  far->code = RENGA_SUCCESS;
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindStream(RengaDevice device, RengaStream *stream)
{
  FarDevice *far = device->data;
  RengaCheck(!*stream || (*stream)->device == device, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the stream belongs to another device");
  RengaCheck(!*stream || !(*stream)->destroyed, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the stream is destroyed");
  if (!*stream) *stream = far->compute;
  return RENGA_SUCCESS;
}

/* What the work that runs now says that it reads or writes. */
RengaErrorCode RengaFarOpen_Private(RengaDevice device, const void *at, size_t bytes)
{
  FarDevice *far = device->data;
  if (at) RengaCall(RengaClosedOpen_Private(far->space, at, bytes));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFarWaitAll_Private(RengaDevice device)
{
  RengaCall(Run_Far(device, NULL, 0, INT64_MAX));
  RengaCall(TakeError(device->data));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFarQueue_Private(RengaDevice device, RengaStream stream, const char *what,
                                     FarFunction run, size_t bytes, void *pointer_to_argument)
{
  FarDevice *far = device->data;
  const size_t whole = (sizeof(FarItem) + bytes + 63) / 64 * 64;
  void **argument = pointer_to_argument;
  RengaCall(FindStream(device, &stream));
  RengaCheck(whole <= FAR_QUEUE_BYTES, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s takes %zu bytes of the queue, which has %d", what, whole, FAR_QUEUE_BYTES);
  if (far->used + whole > FAR_QUEUE_BYTES) RengaCall(Run_Far(device, NULL, 0, INT64_MAX));
  FarItem *item = (FarItem *)(void *)(far->memory + far->used);
  *item = (FarItem){.what = what, .run = run};
  far->used += whole;
  if (stream->last)
    stream->last->next = item;
  else
    stream->first = item;
  stream->last = item;
  stream->queued++;
  *argument = item->argument;
  return RENGA_SUCCESS;
}

/* One that was destroyed is used again, and goes on counting: events that name it stay done. */
static RengaErrorCode StreamCreate_Far(RengaDevice device, RengaStream *stream)
{
  FarDevice *far = device->data;
  RengaStream made = far->streams;
  while (made && !made->destroyed) made = made->next;
  if (!made) {
    RengaCall(RengaMalloc(1, &made));
    made->device = device;
    made->next = far->streams;
    far->streams = made;
  }
  made->destroyed = false;
  *stream = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamSynchronize_Far(RengaDevice device, RengaStream stream)
{
  RengaCall(FindStream(device, &stream));
  RengaCall(RunUntil(device, stream, stream->queued));
  RengaCall(TakeError(device->data));
  return RENGA_SUCCESS;
}

static RengaErrorCode StreamDestroy_Far(RengaDevice device, RengaStream *stream)
{
  RengaCall(StreamSynchronize_Far(device, *stream));
  if (*stream) (*stream)->destroyed = true; /* the default one stays */
  *stream = NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventCreate_Far(RengaDevice device, RengaEvent *event)
{
  RengaEvent made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->device = device;
  *event = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckEvent(RengaDevice device, RengaEvent event)
{
  RengaCheck(event->device == device, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the event belongs to another device");
  return RENGA_SUCCESS;
}

static RengaErrorCode NoteTime(RengaDevice device, void *argument)
{
  RengaEvent *event = argument;
  (void)device;
  (*event)->time = MPI_Wtime();
  return RENGA_SUCCESS;
}

static RengaErrorCode EventRecord_Far(RengaDevice device, RengaEvent event, RengaStream stream)
{
  RengaEvent *noted;
  RengaCall(CheckEvent(device, event));
  RengaCall(FindStream(device, &stream));
  if (event->timed) {
    event->time = 0;
    RengaCall(RengaFarQueue_Private(device, stream, "A note of the time", NoteTime, sizeof *noted,
                                    &noted));
    *noted = event;
  }
  event->stream = stream;
  event->place = stream->queued;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventWait_Far(RengaDevice device, RengaEvent event, RengaStream stream)
{
  char *argument;
  RengaCall(CheckEvent(device, event));
  RengaCall(FindStream(device, &stream));
  if (!event->stream || event->stream == stream) return RENGA_SUCCESS;
  const RengaStream awaited = event->stream;
  const int64_t place = event->place;
  RengaCall(RengaFarQueue_Private(device, stream, "A wait for an event", NULL, 0, &argument));
  stream->last->awaited = awaited;
  stream->last->place = place;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventSynchronize_Far(RengaDevice device, RengaEvent event)
{
  RengaCall(CheckEvent(device, event));
  if (event->stream) RengaCall(RunUntil(device, event->stream, event->place));
  RengaCall(TakeError(device->data));
  return RENGA_SUCCESS;
}

/* A few pieces of work may end meanwhile. */
static RengaErrorCode EventQuery_Far(RengaDevice device, RengaEvent event, bool *done)
{
  FarDevice *far = device->data;
  RengaCall(CheckEvent(device, event));
  const int64_t pieces = (int64_t)(DrawDelay_Far(far) % 4);
  const bool busy = !IsIdle(far);
  if (event->stream) RengaCall(Run_Far(device, event->stream, event->place, pieces));
  far->idle += busy && IsIdle(far);
  RengaCall(TakeError(far));
  *done = !event->stream || event->stream->done >= event->place;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventCreateTimed_Far(RengaDevice device, RengaEvent *event)
{
  RengaCall(EventCreate_Far(device, event));
  (*event)->timed = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode EventSeconds_Far(RengaDevice device, RengaEvent from, RengaEvent to,
                                       bool *done, double *seconds)
{
  RengaCall(CheckEvent(device, from));
  RengaCall(CheckEvent(device, to));
  *done = from->time > 0 && to->time > 0;
  *seconds = to->time - from->time;
  return RENGA_SUCCESS;
}

/* A note of the time must not come after it. */
static RengaErrorCode EventDestroy_Far(RengaDevice device, RengaEvent *event)
{
  RengaCall(CheckEvent(device, *event));
  if ((*event)->timed && (*event)->stream)
    RengaCall(Run_Far(device, (*event)->stream, (*event)->place, INT64_MAX));
  RengaFree(event);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFarBegin_Private(RengaDevice device)
{
  FarDevice *far = device->data;
  far->random = (uint64_t)far->options.seed;
  RengaCall(RengaMalloc(FAR_QUEUE_BYTES, &far->memory));
  RengaCall(StreamCreate_Far(device, &far->compute));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFarEnd_Private(RengaDevice device)
{
  FarDevice *far = device->data;
  const RengaErrorCode code = far->memory ? RengaFarWaitAll_Private(device) : RENGA_SUCCESS;
  while (far->streams) {
    RengaStream next = far->streams->next;
    RengaFree(&far->streams);
    far->streams = next;
  }
  far->compute = far->favourite = NULL;
  RengaFree(&far->memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaFarSetQueue_Private(RengaDevice device)
{
  device->ops->streamcreate = StreamCreate_Far;
  device->ops->streamsynchronize = StreamSynchronize_Far;
  device->ops->streamdestroy = StreamDestroy_Far;
  device->ops->eventcreate = EventCreate_Far;
  device->ops->eventrecord = EventRecord_Far;
  device->ops->eventwait = EventWait_Far;
  device->ops->eventsynchronize = EventSynchronize_Far;
  device->ops->eventquery = EventQuery_Far;
  device->ops->eventdestroy = EventDestroy_Far;
  device->ops->eventcreatetimed = EventCreateTimed_Far;
  device->ops->eventseconds = EventSeconds_Far;
}
