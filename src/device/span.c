/* Spans of work on a device (span.h). The clocks of device and host are compared once for each time
   that the host waits: the mark that was queued behind all work is over when the wait ends. So a
   bar of the trace stands as much too late as that wait took to see it, and clocks that drift apart
   do no harm. What was queued after one wait and taken after the next one lies between both. */
#include "renga/private/span.h"
#include "renga/private/device.h"
#include "renga/private/log.h"
#include <string.h>

enum { MOST_SPANS = 8192, NAME = 48, MOST_TRACKS = 64 };

typedef struct {
  RengaEvent begin, end;
  bool ended;
  const char *record;
  double flops;
  char track[NAME], name[NAME];
} Span;

/* Where the last bar of a row ended. */
typedef struct {
  char name[NAME];
  double end;
} SpanTrack;

struct _RengaDeviceSpans {
  RengaEvent mark;
  bool marked;
  int count, made; /* rows with events are kept */
  int64_t lost;    /* in this step */
  Span row[MOST_SPANS];
  int n_tracks;
  SpanTrack track[MOST_TRACKS];
};

bool RengaDeviceHasSpans_Private(RengaDevice device)
{
  return device->ops->eventseconds && RengaLogIsWanted_Private();
}

static RengaErrorCode NeedSpans(RengaDevice device)
{
  RengaDeviceSpans *spans;
  if (device->spans) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, &spans));
  device->spans = spans;
  return RENGA_SUCCESS;
}

/* The next row, whose events are made when it is used first; NULL: there are too many. */
static RengaErrorCode AddSpan(RengaDevice device, Span **span)
{
  RengaDeviceSpans *spans = device->spans;
  *span = NULL;
  if (spans->count == MOST_SPANS) {
    spans->lost++;
    return RENGA_SUCCESS;
  }
  Span *row = &spans->row[spans->count];
  if (spans->count == spans->made) spans->made++;
  if (!row->begin) RengaCall(device->ops->eventcreatetimed(device, &row->begin));
  if (!row->end) RengaCall(device->ops->eventcreatetimed(device, &row->end));
  row->ended = false;
  *span = row;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSpanBegin_Private(RengaDevice device, RengaStream stream, RengaSpan *span)
{
  Span *row = NULL;
  *span = RENGA_SPAN_NONE;
  if (!RengaDeviceHasSpans_Private(device)) return RENGA_SUCCESS;
  RengaCall(NeedSpans(device));
  RengaCall(AddSpan(device, &row));
  if (!row) return RENGA_SUCCESS;
  RengaCall(RengaEventRecord(device, row->begin, stream));
  *span = device->spans->count++;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSpanEnd_Private(RengaDevice device, RengaStream stream, RengaSpan span,
                                    const char *track, const char *record, double flops,
                                    const char *name)
{
  if (span == RENGA_SPAN_NONE) return RENGA_SUCCESS;
  Span *row = &device->spans->row[span];
  RengaCall(RengaEventRecord(device, row->end, stream));
  row->record = record;
  row->flops = flops;
  snprintf(row->track, sizeof row->track, "%s", track);
  snprintf(row->name, sizeof row->name, "%s", name);
  row->ended = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSpansMark_Private(RengaDevice device)
{
  RengaDeviceSpans *spans = device->spans;
  if (!spans || spans->count == 0) return RENGA_SUCCESS;
  if (!spans->mark) RengaCall(device->ops->eventcreatetimed(device, &spans->mark));
  RengaCall(RengaEventRecord(device, spans->mark, NULL));
  spans->marked = true;
  return RENGA_SUCCESS;
}

/* The end of what the row has; a row that there is no room for begins anew with each bar. */
static double *EndOfTrack(RengaDeviceSpans *spans, const char *name)
{
  int t = 0;
  while (t < spans->n_tracks && strcmp(spans->track[t].name, name) != 0) t++;
  if (t == MOST_TRACKS) return NULL;
  if (t == spans->n_tracks) {
    spans->n_tracks++;
    spans->track[t].end = 0;
    memcpy(spans->track[t].name, name, NAME);
  }
  return &spans->track[t].end;
}

/* Two comparisons of the clocks differ a little: bars of one row do not overlap for it. */
static RengaErrorCode KeepSpan(RengaDeviceSpans *spans, const Span *row, double begin, double end)
{
  double *last = EndOfTrack(spans, row->track);
  RengaLogEvent event;
  const double seconds = end - begin;
  if (last && begin < *last) {
    begin = *last;
    if (end < begin) end = begin;
  }
  if (last) *last = end;
  RengaLogTrace(row->track, row->name, begin, end);
  if (!row->record) return RENGA_SUCCESS;
  RengaCall(RengaLogEventRegister(row->record, &event));
  RengaLogEventAdd_Private(event, seconds, row->flops);
  return RENGA_SUCCESS;
}

/* now: the host's time at the mark. gone: it was over, or its times cannot be read. */
static RengaErrorCode TakeSpan(RengaDevice device, const Span *row, double now, bool *gone)
{
  double before, length;
  bool done = false;
  *gone = true;
  RengaCall(device->ops->eventseconds(device, row->begin, row->end, &done, &length));
  *gone = done;
  if (!done) return RENGA_SUCCESS;
  RengaCall(device->ops->eventseconds(device, row->begin, device->spans->mark, &done, &before));
  *gone = done;
  if (!done) return RENGA_SUCCESS;
  RengaCall(KeepSpan(device->spans, row, now - before, now - before + length));
  return RENGA_SUCCESS;
}

static void TellLost(RengaDeviceSpans *spans)
{
  if (spans->lost)
    RengaWarning(MPI_COMM_SELF,
                 "the log lacks the device's time of %lld pieces of work: it keeps %d between two "
                 "waits for the device; a larger -microbatch_size has fewer",
                 (long long)spans->lost, MOST_SPANS);
  spans->lost = 0;
}

RengaErrorCode RengaSpansTake_Private(RengaDevice device)
{
  RengaDeviceSpans *spans = device->spans;
  RengaErrorCode code = RENGA_SUCCESS;
  const double now = MPI_Wtime();
  int left = 0;
  if (!spans || !spans->marked) return RENGA_SUCCESS;
  spans->marked = false;
  for (int s = 0; s < spans->count; s++) {
    bool gone = true; /* also of work that failed before its end */
    if (spans->row[s].ended)
      RengaKeepFirst_Private(&code, TakeSpan(device, &spans->row[s], now, &gone));
    if (gone) continue;
    const Span kept = spans->row[s]; /* rows change places: none loses its events */
    spans->row[s] = spans->row[left];
    spans->row[left++] = kept;
  }
  spans->count = left;
  TellLost(spans);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeSpanEvent(RengaDevice device, RengaEvent *event)
{
  if (*event) RengaCall(device->ops->eventdestroy(device, event));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceFreeSpans_Private(RengaDevice device)
{
  RengaDeviceSpans *spans = device->spans;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int s = 0; spans && s < spans->made; s++) {
    RengaKeepFirst_Private(&code, FreeSpanEvent(device, &spans->row[s].begin));
    RengaKeepFirst_Private(&code, FreeSpanEvent(device, &spans->row[s].end));
  }
  if (spans) RengaKeepFirst_Private(&code, FreeSpanEvent(device, &spans->mark));
  RengaFree(&device->spans);
  RengaCall(code);
  return RENGA_SUCCESS;
}
