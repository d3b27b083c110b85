/* Messages that each stage takes part in. */
#include "scheduleimpl.h"

static RengaRowsKind KindOfSend(const RengaMessage *message)
{
  return message->backward ? RENGA_ROWS_SEND_BACKWARD : RENGA_ROWS_SEND_FORWARD;
}

static RengaRowsKind KindOfReceive(const RengaMessage *message)
{
  return message->backward ? RENGA_ROWS_RECEIVE_BACKWARD : RENGA_ROWS_RECEIVE_FORWARD;
}

/* Where the rows of a stage and kind are counted, then where the next one goes. */
static int *StartAt(RengaSchedule schedule, int stage, RengaRowsKind kind)
{
  return &schedule->row_start[stage * RENGA_ROWS_KINDS + (int)kind];
}

RengaErrorCode RengaScheduleIndexRows_Private(RengaSchedule schedule)
{
  const int kinds = schedule->stages * RENGA_ROWS_KINDS;
  RengaCall(RengaMalloc(kinds + 1, &schedule->row_start));
  RengaCall(RengaMalloc(2 * schedule->n_messages + 1, &schedule->row));
  for (int m = 0; m < schedule->n_messages; m++) {
    const RengaMessage *message = &schedule->message[m];
    ++*StartAt(schedule, message->from, KindOfSend(message));
    ++*StartAt(schedule, message->to, KindOfReceive(message));
  }
  for (int k = 1; k <= kinds; k++) schedule->row_start[k] += schedule->row_start[k - 1];
  for (int m = schedule->n_messages - 1; m >= 0; m--) {
    const RengaMessage *message = &schedule->message[m];
    schedule->row[--*StartAt(schedule, message->from, KindOfSend(message))] = m;
    schedule->row[--*StartAt(schedule, message->to, KindOfReceive(message))] = m;
  }
  return RENGA_SUCCESS;
}

const int *RengaScheduleRows_Private(RengaSchedule schedule, int stage, RengaRowsKind kind,
                                     int *count)
{
  const int *start = schedule->row_start + stage * RENGA_ROWS_KINDS + (int)kind;
  *count = start[1] - start[0];
  return schedule->row + start[0];
}
