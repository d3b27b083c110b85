/* -log_view: the table of all ranks. */
#include "renga/private/gather.h"
#include "renga/private/log.h"
#include "renga/private/number.h"
#include "renga/private/wait.h"
#include "sys.h"
#include <string.h>

/* One event over all ranks. */
typedef struct {
  RengaLogRecord sum;
  int64_t most_calls;
  double longest, shortest;
  int ranks; /* that have it */
} EventRow;

static void MergeRecord(EventRow rows[], int *count, const RengaLogRecord *record)
{
  int i = 0;
  while (i < *count && strcmp(rows[i].sum.name, record->name) != 0) i++;
  if (i == *count) {
    memset(&rows[i], 0, sizeof rows[i]);
    memcpy(rows[i].sum.name, record->name, sizeof record->name);
    rows[i].shortest = record->seconds;
    ++*count;
  }
  EventRow *row = &rows[i];
  row->ranks++;
  if (record->count > row->most_calls) row->most_calls = record->count;
  if (record->seconds > row->longest) row->longest = record->seconds;
  if (record->seconds < row->shortest) row->shortest = record->seconds;
  row->sum.count += record->count;
  row->sum.seconds += record->seconds;
  row->sum.flops += record->flops;
  row->sum.messages += record->messages;
  row->sum.bytes += record->bytes;
}

static void PrintEventRow(FILE *file, const EventRow *row, int ranks, double total)
{
  char ratio[16] = "-", rate[16] = "-", flops[16], messages[16], bytes[16];
  double shortest = row->ranks < ranks ? 0 : row->shortest;
  if (shortest > 0 && row->longest / shortest < 1000)
    RengaTextFormat(ratio, sizeof ratio, "%.1f", row->longest / shortest);
  RengaFormatCount(row->sum.flops, sizeof flops, flops);
  RengaFormatCount((double)row->sum.messages, sizeof messages, messages);
  RengaFormatBytes((double)row->sum.bytes, sizeof bytes, bytes);
  if (row->sum.flops > 0 && row->longest > 0)
    RengaTextFormat(rate, sizeof rate, "%.2f", row->sum.flops / row->longest * 1e-9);
  RengaFilePrint(file, "%-32s %9lld %10.4f %6s %5.1f %8s %8s %8s %10s\n", row->sum.name,
                 (long long)row->most_calls, row->longest, ratio, 100 * row->longest / total, flops,
                 rate, messages, bytes);
}

/* Seconds of all ranks in an event. */
static double SecondsOf(const EventRow rows[], int count, const char *name)
{
  for (int i = 0; i < count; i++)
    if (strcmp(rows[i].sum.name, name) == 0) return rows[i].sum.seconds;
  return 0;
}

/* How much of the sums over replicas went on while ranks computed. */
static void PrintHidden(FILE *file, const EventRow rows[], int count, int ranks)
{
  const double moved = SecondsOf(rows, count, RENGA_LOG_UNDERWAY);
  const double awaited = SecondsOf(rows, count, RENGA_LOG_AWAITED);
  const double hidden = awaited < moved ? moved - awaited : 0;
  if (moved > 0)
    RengaFilePrint(file,
                   "sums over replicas were under way for %.4f s of a rank, %.0f %% of it hidden\n",
                   moved / ranks, 100 * hidden / moved);
}

static void PrintEvents(FILE *file, const EventRow rows[], int count, int ranks, double total)
{
  fprintf(file, "%-32s %9s %10s %6s %5s %8s %8s %8s %10s\n", "event", "calls", "time (s)", "ratio",
          "%time", "flop", "Gflop/s", "messages", "bytes");
  for (int i = 0; i < count; i++)
    if (rows[i].sum.count > 0) PrintEventRow(file, &rows[i], ranks, total);
  fprintf(file, "calls, time: the rank with the most; ratio: most / least time of ranks;\n"
                "flop, Gflop/s, messages, bytes: all ranks together\n");
  PrintHidden(file, rows, count, ranks);
}

typedef struct {
  RengaLogMemoryRecord most;
  int64_t all_measured;
} MemoryRow;

static void MergeMemory(MemoryRow rows[], int *count, const RengaLogMemoryRecord *record)
{
  int i = 0;
  while (i < *count && strcmp(rows[i].most.name, record->name) != 0) i++;
  if (i == *count) {
    rows[i].most = *record;
    rows[i].all_measured = 0;
    ++*count;
  }
  if (record->forecast > rows[i].most.forecast) rows[i].most.forecast = record->forecast;
  if (record->measured > rows[i].most.measured) rows[i].most.measured = record->measured;
  if (record->measured > 0) rows[i].all_measured += record->measured;
}

static void FormatKnownBytes(int64_t bytes, char text[16])
{
  if (bytes < 0)
    snprintf(text, 16, "-");
  else
    RengaFormatBytes((double)bytes, 16, text);
}

static void PrintMemory(FILE *file, const MemoryRow rows[], int count)
{
  fprintf(file, "\n%-32s %14s %14s %14s\n", "memory", "forecast", "measured", "all ranks");
  for (int i = 0; i < count; i++) {
    char forecast[16], measured[16], all[16];
    FormatKnownBytes(rows[i].most.forecast, forecast);
    FormatKnownBytes(rows[i].most.measured, measured);
    FormatKnownBytes(rows[i].all_measured, all);
    fprintf(file, "%-32s %14s %14s %14s\n", rows[i].most.name, forecast, measured, all);
  }
  fprintf(file, "forecast, measured: the rank with the most\n");
}

/* Rank 0: the records of all ranks to rows and print them. */
static RengaErrorCode ViewEvents(FILE *file, int ranks, const char *all, size_t bytes, double total)
{
  EventRow *rows;
  int count = 0;
  size_t records = bytes / sizeof(RengaLogRecord);
  RengaCall(RengaMalloc(records, &rows));
  for (size_t i = 0; i < records; i++) {
    RengaLogRecord record;
    memcpy(&record, all + i * sizeof record, sizeof record);
    MergeRecord(rows, &count, &record);
  }
  PrintEvents(file, rows, count, ranks, total);
  RengaFree(&rows);
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewMemory(FILE *file, const char *all, size_t bytes)
{
  MemoryRow *rows;
  int count = 0;
  size_t records = bytes / sizeof(RengaLogMemoryRecord);
  RengaCall(RengaMalloc(records, &rows));
  for (size_t i = 0; i < records; i++) {
    RengaLogMemoryRecord record;
    memcpy(&record, all + i * sizeof record, sizeof record);
    MergeMemory(rows, &count, &record);
  }
  PrintMemory(file, rows, count);
  RengaFree(&rows);
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherRecords(MPI_Comm comm, const void *mine, size_t bytes, char **all,
                                    size_t *total)
{
  int size;
  size_t *sizes;
  RengaCallMPI(MPI_Comm_size(comm, &size));
  RengaCall(RengaGatherBytes(comm, mine, bytes, all, &sizes, "all ranks to hand in their events"));
  *total = 0;
  for (int i = 0; sizes && i < size; i++) *total += sizes[i];
  RengaFree(&sizes);
  return RENGA_SUCCESS;
}

/*@
   RengaLogView - the table of events and memory of all ranks

   Collective

   Input:
   . comm - the ranks
   . file - open for writing on rank 0; others may pass NULL

   Options:
   . -log_view - print it to standard output at the end

   Errors: RENGA_ERR_SUPPORT where the records of all ranks are more than 2 GiB;
   RENGA_ERR_TIMEOUT where a rank does not come; RENGA_ERR_LIBRARY from MPI.

   See also: RengaLogTraceWrite(), RengaLogEventRegister()
@*/
RengaErrorCode RengaLogView(MPI_Comm comm, FILE *file)
{
  const RengaLogRecord *records;
  const RengaLogMemoryRecord *memory;
  int rank, size, n_memory;
  char *all_records, *all_memory = NULL;
  size_t record_bytes, memory_bytes;
  double total = MPI_Wtime() - RengaLogGetStart();
  RengaLogMemory("process (resident at the end)", -1, (int64_t)RengaMemoryResident());
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Comm_size(comm, &size));
  int n_records = RengaLogGetRecords(&records);
  n_memory = RengaLogGetMemory(&memory);
  RengaCall(GatherRecords(comm, records, (size_t)n_records * sizeof *records, &all_records,
                          &record_bytes));
  RengaErrorCode code =
      GatherRecords(comm, memory, (size_t)n_memory * sizeof *memory, &all_memory, &memory_bytes);
  if (rank == 0 && !code) {
    RengaFilePrint(file, "\nRenga %s on %d ranks, %.3f s\n\n", RENGA_VERSION, size, total);
    code = ViewEvents(file, size, all_records, record_bytes, total);
    if (!code) code = ViewMemory(file, all_memory, memory_bytes);
    fflush(file);
  }
  RengaFree(&all_records);
  RengaFree(&all_memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}
