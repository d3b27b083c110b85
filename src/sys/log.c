/* The log: events with count, time, flops, messages and bytes; memory by category. */
#include "renga/private/log.h"
#include "sys.h"
#include <string.h>

enum { MOST_EVENTS = 256, MOST_CATEGORIES = 32 };

static struct {
  RengaLogRecord records[MOST_EVENTS];
  double began[MOST_EVENTS];
  int depth[MOST_EVENTS]; /* an event inside itself counts its time once */
  int n_records;
  RengaLogMemoryRecord memory[MOST_CATEGORIES];
  int n_memory;
  double start;
  bool wanted;
} events;

RengaErrorCode RengaLogStart(MPI_Comm comm, bool view, bool trace)
{
  events.wanted = view || trace;
  events.start = MPI_Wtime();
  if (trace) RengaCall(RengaLogTraceStart(comm));
  return RENGA_SUCCESS;
}

void RengaLogFinish(void)
{
  RengaLogTraceFinish();
  memset(&events, 0, sizeof events);
}

bool RengaLogIsWanted_Private(void)
{
  return events.wanted;
}

double RengaLogGetStart(void)
{
  return events.start;
}

int RengaLogGetRecords(const RengaLogRecord **records)
{
  *records = events.records;
  return events.n_records;
}

int RengaLogGetMemory(const RengaLogMemoryRecord **records)
{
  *records = events.memory;
  return events.n_memory;
}

/*@
   RengaLogEventRegister - a kind of work to be timed

   Input:
   . name - up to 39 letters; a name that is known gives its event again

   Output:
   . event - the event's number, for RengaLogEventBegin and RengaLogEventEnd

   Errors: RENGA_ERR_INTERNAL where there are too many events.

   See also: RengaLogEventBegin(), RengaLogEventEnd()
@*/
RengaErrorCode RengaLogEventRegister(const char *name, RengaLogEvent *event)
{
  for (int i = 0; i < events.n_records; i++)
    if (strncmp(events.records[i].name, name, sizeof events.records[i].name - 1) == 0) {
      *event = i;
      return RENGA_SUCCESS;
    }
  RengaCheck(events.n_records < MOST_EVENTS, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s: there are already %d log events", name, MOST_EVENTS);
  *event = events.n_records++;
  snprintf(events.records[*event].name, sizeof events.records[*event].name, "%s", name);
  return RENGA_SUCCESS;
}

/*@
   RengaLogEventBegin - the work begins

   Input:
   . event - the number that RengaLogEventRegister gave

   Notes: on the thread that calls MPI.

   See also: RengaLogEventEnd(), RengaLogEventRegister()
@*/
void RengaLogEventBegin(RengaLogEvent event)
{
  if (events.depth[event]++ == 0) events.began[event] = MPI_Wtime();
}

/*@
   RengaLogEventEnd - the work has ended

   Input:
   . event - the number that RengaLogEventRegister gave
   . flops, messages, bytes - floating point operations, messages sent, and bytes sent or written
     since RengaLogEventBegin, each at least 0

   See also: RengaLogEventBegin(), RengaLogView()
@*/
void RengaLogEventEnd(RengaLogEvent event, double flops, int64_t messages, int64_t bytes)
{
  RengaLogRecord *record = &events.records[event];
  if (--events.depth[event] == 0) record->seconds += MPI_Wtime() - events.began[event];
  record->count++;
  record->flops += flops;
  record->messages += messages;
  record->bytes += bytes;
}

void RengaLogEventAdd_Private(RengaLogEvent event, double seconds, double flops)
{
  events.records[event].seconds += seconds;
  events.records[event].count++;
  events.records[event].flops += flops;
}

/*@
   RengaLogMemory - what was forecast and what was used, for -log_view

   Input:
   . category - "parameters", "saved activations", ...; a name that is known is replaced
   . forecast_bytes, measured_bytes - bytes on this rank; -1 where unknown

   See also: RengaLogView()
@*/
void RengaLogMemory(const char *category, int64_t forecast_bytes, int64_t measured_bytes)
{
  int i = 0;
  while (i < events.n_memory && strcmp(events.memory[i].name, category) != 0) i++;
  if (i == MOST_CATEGORIES) return;
  if (i == events.n_memory) events.n_memory++;
  snprintf(events.memory[i].name, sizeof events.memory[i].name, "%s", category);
  events.memory[i].forecast = forecast_bytes;
  events.memory[i].measured = measured_bytes;
}
