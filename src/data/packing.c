/* Data: documents in rows of one length. A document goes to the row, of some that are open, that it
   fills most; where it fits in none a new one is opened, and the fullest closed if too many are
   open (best fit with bounded space: Johnson 1974; Ding et al. 2024, "Fewer truncations"). The
   documents are visited twice, first to count the rows.

   Where a document begins a decoder finds by its input position_ids: a token's place in its row
   less its position. Masks and angles of that are prepared values, which each stage makes itself.
 */
#include "packing.h"
#include <string.h>

enum { OPEN_ROWS = 64, ROW_BATCH = 256, ROW_FIELDS = 3 };
typedef enum { ROW_TOKENS, ROW_LABELS, ROW_POSITIONS } RowField;
static const char *const row_fields[ROW_FIELDS] = {"tokens", "labels", "position_ids"};

typedef struct {
  int64_t used;
  int32_t *field[ROW_FIELDS]; /* [sequence] */
} OpenRow;

struct RengaPacking {
  const RengaPackingTask *task;
  RengaDataWriter output; /* NULL: count only */
  int fields;
  int64_t counts[RENGA_DATA_ROW_COUNTS], kept[RENGA_DATA_PARTS];
  int dataset[RENGA_DATA_PARTS][ROW_FIELDS];
  OpenRow row[OPEN_ROWS]; /* in the order in which they were opened */
  int n_open;
  int32_t *batch[ROW_FIELDS]; /* [ROW_BATCH][sequence] of rows that are closed */
  int64_t n_batch, written;
};

static RengaErrorCode FlushRows(RengaPacking *p)
{
  for (int64_t at = 0, n; at < p->n_batch; at += n) {
    const int part = p->written >= p->kept[0];
    const int64_t first = p->written - (part ? p->kept[0] : 0), left = p->kept[part] - first;
    n = p->n_batch - at < left ? p->n_batch - at : left;
    RengaCheck(n > 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s changed while it was read",
               p->task->source);
    for (int f = 0; f < p->fields; f++)
      RengaCall(RengaDataWriterWrite(p->output, p->dataset[part][f], first, n,
                                     p->batch[f] + at * p->task->rows->sequence));
    p->written += n;
  }
  p->n_batch = 0;
  return RENGA_SUCCESS;
}

/* The rest of the row is padding, which is a document of its own. */
static RengaErrorCode CloseRow(RengaPacking *p, int number)
{
  const int64_t sequence = p->task->rows->sequence;
  const OpenRow row = p->row[number];
  p->counts[RENGA_DATA_COUNT_ROWS]++;
  if (p->output) {
    if (p->n_batch == ROW_BATCH) RengaCall(FlushRows(p));
    for (int64_t i = row.used; i < sequence; i++) {
      row.field[ROW_TOKENS][i] = (int32_t)p->task->padding;
      row.field[ROW_LABELS][i] = RENGA_LABEL_IGNORED;
      row.field[ROW_POSITIONS][i] = (int32_t)(i - row.used);
    }
    for (int f = 0; f < p->fields; f++)
      memcpy(p->batch[f] + p->n_batch * sequence, row.field[f],
             (size_t)sequence * sizeof *row.field[f]);
    p->n_batch++;
  }
  memmove(&p->row[number], &p->row[number + 1], (size_t)(p->n_open - number - 1) * sizeof *p->row);
  p->row[--p->n_open] = row; /* its memory is used again */
  return RENGA_SUCCESS;
}

static int FullestRow(const RengaPacking *p, int64_t room)
{
  int found = -1;
  for (int r = 0; r < p->n_open; r++)
    if (p->row[r].used + room <= p->task->rows->sequence &&
        (found < 0 || p->row[r].used > p->row[found].used))
      found = r;
  return found;
}

static RengaErrorCode OpenRowFor(RengaPacking *p, int64_t count, int *number)
{
  *number = p->task->rows->packed ? FullestRow(p, count) : -1;
  if (*number >= 0) return RENGA_SUCCESS;
  if (p->n_open == OPEN_ROWS) RengaCall(CloseRow(p, FullestRow(p, 0)));
  *number = p->n_open++;
  p->row[*number].used = 0;
  for (int f = 0; f < ROW_FIELDS; f++)
    if (!p->row[*number].field[f])
      RengaCall(RengaMalloc(p->task->rows->sequence, &p->row[*number].field[f]));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakePiece(RengaPacking *p, int64_t count, const int64_t tokens[],
                                const int64_t labels[])
{
  int number;
  RengaCall(OpenRowFor(p, count, &number));
  OpenRow *row = &p->row[number];
  for (int64_t i = 0; i < count; i++) {
    row->field[ROW_TOKENS][row->used + i] = (int32_t)tokens[i];
    row->field[ROW_LABELS][row->used + i] = (int32_t)labels[i];
    row->field[ROW_POSITIONS][row->used + i] = (int32_t)i;
  }
  row->used += count;
  if (!p->task->rows->packed || row->used == p->task->rows->sequence)
    RengaCall(CloseRow(p, number));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPackingTake_Private(RengaPacking *p, int64_t count, const int64_t tokens[],
                                        const int64_t labels[])
{
  const int64_t sequence = p->task->rows->sequence;
  p->counts[RENGA_DATA_COUNT_DOCUMENTS]++;
  p->counts[RENGA_DATA_COUNT_CUT] += count > sequence;
  if (p->task->cuts && count > sequence) count = sequence;
  p->counts[RENGA_DATA_COUNT_TOKENS] += count;
  for (int64_t i = 0; i < count; i++)
    p->counts[RENGA_DATA_COUNT_LABELS] += labels[i] != RENGA_LABEL_IGNORED;
  for (int64_t at = 0; at < count; at += sequence)
    RengaCall(
        TakePiece(p, count - at < sequence ? count - at : sequence, tokens + at, labels + at));
  return RENGA_SUCCESS;
}

static RengaErrorCode FillRows(RengaPacking *p)
{
  memset(p->counts, 0, sizeof p->counts);
  RengaCall(p->task->visit(p->task->user, p));
  while (p->n_open > 0) RengaCall(CloseRow(p, 0));
  return RENGA_SUCCESS;
}

static RengaErrorCode SplitRows(RengaPacking *p)
{
  const int64_t rows = p->counts[RENGA_DATA_COUNT_ROWS];
  p->kept[1] = (int64_t)((double)rows * p->task->rows->validation_share);
  p->kept[0] = rows - p->kept[1];
  RengaCheck(p->kept[0] > 0 && (p->kept[1] > 0 || p->task->rows->validation_share == 0),
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s has %lld rows of documents, which is too few: %lld for training, %lld for "
             "validation",
             p->task->source, (long long)rows, (long long)p->kept[0], (long long)p->kept[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddRowDatasets(RengaPacking *p)
{
  static const char *const groups[RENGA_DATA_PARTS] = {"training", "validation"};
  RengaCall(RengaVocabularyPut_Private(p->task->vocabulary, p->output));
  for (int part = 0; part < RENGA_DATA_PARTS; part++)
    for (int f = 0; f < ROW_FIELDS && f < p->fields && p->kept[part] > 0; f++) {
      char path[64];
      const RengaTensorSpec spec = {
          .type = RENGA_INT32, .ndim = 2, .dim = {p->kept[part], p->task->rows->sequence}};
      snprintf(path, sizeof path, "/%s/%s", groups[part], row_fields[f]);
      RengaCall(RengaDataWriterAdd(p->output, path, &spec, &p->dataset[part][f]));
    }
  for (int f = 0; f < p->fields; f++)
    RengaCall(RengaMalloc(ROW_BATCH * p->task->rows->sequence, &p->batch[f]));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteAllRows(RengaPacking *p)
{
  RengaCall(FillRows(p));
  RengaCall(SplitRows(p));
  RengaCall(RengaDataWriterCreate(p->task->out_file, &p->output));
  RengaCall(AddRowDatasets(p));
  RengaCall(FillRows(p));
  RengaCall(FlushRows(p));
  RengaCheck(p->written == p->kept[0] + p->kept[1], MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "%s changed while it was read", p->task->source);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPackingWrite_Private(const RengaPackingTask *task,
                                         int64_t counts[RENGA_DATA_ROW_COUNTS])
{
  RengaPacking p = {.task = task, .fields = task->rows->packed ? ROW_FIELDS : ROW_POSITIONS};
  RengaErrorCode code = WriteAllRows(&p);
  code = RengaDataWriterClose(&p.output, code);
  for (int r = 0; r < OPEN_ROWS; r++)
    for (int f = 0; f < ROW_FIELDS; f++) RengaFree(&p.row[r].field[f]);
  for (int f = 0; f < ROW_FIELDS; f++) RengaFree(&p.batch[f]);
  RengaCall(code);
  memcpy(counts, p.counts, sizeof p.counts);
  return RENGA_SUCCESS;
}
