/* -log_trace: what each rank did when, for chrome://tracing or ui.perfetto.dev. */
#include "renga/private/number.h"
#include "renga/private/output.h"
#include "renga/private/wait.h"
#include "sys.h"
#include <string.h>

enum { NAME = 48, MOST_TRACKS = 64, MOST_NAMES = 4096, MOST_RECORDS = 1 << 22, MOST_LISTENERS = 4 };

typedef struct {
  double begin, end;
  int track, name;
} TraceRecord;

static struct {
  bool on;
  double origin; /* MPI_Wtime of all ranks leaving one barrier */
  TraceRecord *records;
  int64_t count, room, lost;
  char tracks[MOST_TRACKS][NAME];
  char (*names)[NAME];
  int n_tracks, n_names;
} trace;

static struct {
  int count;
  struct {
    RengaLogTraceListener hear;
    void *user;
  } of[MOST_LISTENERS];
} listeners;

static void ForgetListener(const void *user)
{
  int left = 0;
  for (int i = 0; i < listeners.count; i++)
    if (listeners.of[i].user != user) listeners.of[left++] = listeners.of[i];
  listeners.count = left;
}

/*@
   RengaLogTraceSetListener - be told of the bars of the timeline while the work goes on

   Input:
   . hear - a function that is called with each bar of this rank, whether or not -log_trace keeps
     them, by the thread that does the work. The strings are lent until it returns. NULL: this user
     is told no more
   . user - handed to it; of each user the last function that was set is told

   Errors: RENGA_ERR_SUPPORT where four other users are told already.

   Notes: while there is a listener, RengaLogTraceIsOn() is true.

   See also: RengaLogTrace(), RengaLogTraceIsOn()
@*/
RengaErrorCode RengaLogTraceSetListener(RengaLogTraceListener hear, void *user)
{
  ForgetListener(user);
  if (!hear) return RENGA_SUCCESS;
  RengaCheck(listeners.count < MOST_LISTENERS, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%d listeners are told of the timeline already, which is the most",
             (int)MOST_LISTENERS);
  listeners.of[listeners.count].hear = hear;
  listeners.of[listeners.count++].user = user;
  return RENGA_SUCCESS;
}

static RengaErrorCode LeaveTogether(MPI_Comm comm, double *when)
{
  MPI_Request request;
  RengaCallStart(MPI_Ibarrier(comm, &request));
  RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to start their clocks"));
  *when = MPI_Wtime();
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLogTraceStart(MPI_Comm comm)
{
  RengaCall(RengaErrorAgree(comm, RengaMalloc(MOST_NAMES, &trace.names)));
  RengaCall(LeaveTogether(comm, &trace.origin));
  trace.on = true;
  return RENGA_SUCCESS;
}

void RengaLogTraceFinish(void)
{
  RengaFree(&trace.records);
  RengaFree(&trace.names);
  memset(&trace, 0, sizeof trace);
}

/*@
   RengaLogTraceIsOn - whether bars of the timeline are wanted

   See also: RengaLogTrace(), RengaLogTraceWrite()
@*/
bool RengaLogTraceIsOn(void)
{
  return trace.on || listeners.count > 0;
}

/* The place of text in a table of names, adding it; the last place where the table is full. */
static int Intern(char (*table)[NAME], int *count, int most, const char *text)
{
  char clean[NAME];
  size_t length = 0;
  for (; text[length] && length < NAME - 1; length++) {
    unsigned char letter = (unsigned char)text[length];
    clean[length] = letter == '"' || letter == '\\' || letter < ' ' ? '_' : (char)letter;
  }
  clean[length] = '\0';
  for (int i = 0; i < *count; i++)
    if (strcmp(table[i], clean) == 0) return i;
  if (*count == most) return most - 1;
  memcpy(table[*count], clean, NAME);
  return (*count)++;
}

/*@
   RengaLogTrace - keep one bar of the timeline

   Input:
   . track - the row, below the rank's own: "compute", "send", ...
   . name - the name of the work
   . begin, end - seconds of MPI_Wtime, any numbers

   Errors: none: where memory runs out the record is counted as lost.

   Notes: nothing is kept without -log_trace, but a listener is told of the bar. At most four
   million bars are kept on a rank; the file says how many were not.

   See also: RengaLogTraceIsOn(), RengaLogTraceSetListener(), RengaLogTraceWrite()
@*/
void RengaLogTrace(const char *track, const char *name, double begin, double end)
{
  for (int i = 0; i < listeners.count; i++)
    listeners.of[i].hear(listeners.of[i].user, track, name, begin, end);
  if (!trace.on) return;
  if (trace.count == trace.room) {
    int64_t room = trace.room ? 2 * trace.room : 4096;
    if (room > MOST_RECORDS || RengaRealloc(room, &trace.records) != RENGA_SUCCESS) {
      trace.lost++;
      return;
    }
    trace.room = room;
  }
  TraceRecord *record = &trace.records[trace.count++];
  record->begin = begin;
  record->end = end;
  record->track = Intern(trace.tracks, &trace.n_tracks, MOST_TRACKS, track);
  record->name = Intern(trace.names, &trace.n_names, MOST_NAMES, name);
}

typedef struct {
  char *bytes;
  size_t used, room;
} Text;

static RengaErrorCode AppendRecord(Text *text, const char *line)
{
  size_t length = strlen(line);
  if (text->used + length + 1 > text->room) {
    text->room = 2 * text->room + length + 4096;
    RengaCall(RengaRealloc(text->room, &text->bytes));
  }
  memcpy(text->bytes + text->used, line, length + 1);
  text->used += length;
  return RENGA_SUCCESS;
}

/* This rank's part of the JSON array, each line ending with a comma. */
static RengaErrorCode FormatRank(int rank, double origin, Text *text)
{
  char line[512];
  snprintf(
      line, sizeof line,
      "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d\"}},\n"
      "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}},\n",
      rank, rank, rank, rank);
  RengaCall(AppendRecord(text, line));
  for (int i = 0; i < trace.n_tracks; i++) {
    snprintf(line, sizeof line,
             "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%"
             "s\"}},\n",
             rank, i, trace.tracks[i]);
    RengaCall(AppendRecord(text, line));
  }
  for (int64_t i = 0; i < trace.count; i++) {
    const TraceRecord *record = &trace.records[i];
    RengaTextFormat(
        line, sizeof line,
        "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f},\n", rank,
        record->track, trace.names[record->name], (record->begin - origin) * 1e6,
        (record->end - record->begin) * 1e6);
    RengaCall(AppendRecord(text, line));
  }
  return RENGA_SUCCESS;
}

/* The clock's zero: ranks of one node share a clock, so they take that of its first rank. own: when
   this rank left a barrier. */
static RengaErrorCode FindOrigin(MPI_Comm comm, double own, double *origin)
{
  typedef struct {
    uint64_t node;
    double origin;
  } Clock;
  int rank, size, length;
  char node[MPI_MAX_PROCESSOR_NAME] = "";
  Clock mine, *all = NULL;
  MPI_Request request;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Comm_size(comm, &size));
  RengaCallMPI(MPI_Get_processor_name(node, &length));
  mine = (Clock){RengaHash(node, strlen(node), 0), own};
  RengaErrorCode code = RengaErrorAgree(comm, RengaMalloc(size, &all));
  if (code) RengaFree(&all);
  RengaCall(code);
  RengaCallStart(
      MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, comm, &request));
  RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to hand in their timelines"));
  int first = 0;
  while (all[first].node != mine.node) first++;
  *origin = all[first].origin;
  RengaFree(&all);
  return RENGA_SUCCESS;
}

/*@
   RengaLogTraceFindZero - a moment that is the same on all ranks, by each rank's own clock

   Collective

   Input:
   . comm - the ranks

   Output:
   . zero - seconds of MPI_Wtime, any number: bars less this are on one clock

   Errors: RENGA_ERR_TIMEOUT where a rank does not come.

   Notes: ranks of one node share a clock; between nodes it is as exact as a barrier.

   See also: RengaLogTrace(), RengaLogTraceSetListener()
@*/
RengaErrorCode RengaLogTraceFindZero(MPI_Comm comm, double *zero)
{
  double own;
  RengaCall(LeaveTogether(comm, &own));
  RengaCall(FindOrigin(comm, own, zero));
  return RENGA_SUCCESS;
}

/* The parts of all ranks, one after the other, through rank 0. */
static RengaErrorCode WriteTraceRanks(MPI_Comm comm, FILE *file, Text *mine)
{
  int rank, size;
  MPI_Request request;
  int64_t length = (int64_t)mine->used;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Comm_size(comm, &size));
  if (rank != 0) {
    RengaCallStart(MPI_Isend(&length, 1, MPI_INT64_T, 0, 0, comm, &request));
    RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to hand in their timelines"));
    RengaCallStart(MPI_Isend(mine->bytes, (int)length, MPI_CHAR, 0, 1, comm, &request));
    RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to hand in their timelines"));
    return RENGA_SUCCESS;
  }
  fwrite(mine->bytes, 1, mine->used, file);
  for (int from = 1; from < size; from++) {
    char *text;
    RengaCallStart(MPI_Irecv(&length, 1, MPI_INT64_T, from, 0, comm, &request));
    RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to hand in their timelines"));
    RengaCall(RengaMalloc(length, &text));
    RengaCallStart(MPI_Irecv(text, (int)length, MPI_CHAR, from, 1, comm, &request));
    RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to hand in their timelines"));
    fwrite(text, 1, (size_t)length, file);
    RengaFree(&text);
  }
  return RENGA_SUCCESS;
}

/* From all ranks; file: of rank 0, NULL on others. */
static RengaErrorCode WriteTraceText(MPI_Comm comm, int rank, FILE *file)
{
  double origin = 0;
  Text text = {NULL, 0, 0};
  RengaCall(FindOrigin(comm, trace.origin, &origin));
  const RengaErrorCode code = RengaErrorAgree(comm, FormatRank(rank, origin, &text));
  if (code) RengaFree(&text.bytes);
  RengaCall(code);
  if (file) fprintf(file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  RengaCall(WriteTraceRanks(comm, file, &text)); /* where it fails MPI may still read the text */
  if (file)
    fprintf(file, "{\"ph\":\"M\",\"pid\":0,\"name\":\"lost\",\"args\":{\"records\":%lld}}\n]}\n",
            (long long)trace.lost);
  RengaFree(&text.bytes);
  return RENGA_SUCCESS;
}

/*@
   RengaLogTraceWrite - write the timeline of all ranks as a Chrome trace

   Collective

   Input:
   . comm - the ranks: one process each in the file
   . file_name - written by rank 0

   Options:
   . -log_trace FILE - keep records, and write them at the end

   Errors: RENGA_ERR_FILE_WRITE where rank 0 cannot write the file, which is as it was;
   RENGA_ERR_TIMEOUT where a rank does not come.

   See also: RengaLogTrace(), RengaLogView()
@*/
RengaErrorCode RengaLogTraceWrite(MPI_Comm comm, const char *file_name)
{
  int rank;
  RengaOutput output = {.stream = NULL};
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  if (rank == 0) code = RengaOutputOpen_Private(file_name, &output);
  RengaCall(RengaErrorAgree(comm, code));
  code = WriteTraceText(comm, rank, output.stream);
  code = RengaOutputClose_Private(&output, code);
  RengaCall(RengaErrorAgree(comm, code));
  return RENGA_SUCCESS;
}
