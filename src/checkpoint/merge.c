/* W + alpha / rank * B A, block by block: no more than one weight's factors are in memory. */
#include "merge.h"
#include <string.h>

void RengaMergerFree(RengaMerger *merger)
{
  RengaFree(&merger->left);
  RengaFree(&merger->right);
  RengaFree(&merger->sum);
  merger->rows = merger->columns = 0;
}

/* from [rows, columns] */
static RengaErrorCode Transpose(int64_t rows, int64_t columns, float **from)
{
  float *to = NULL;
  RengaCall(RengaMalloc(rows * columns, &to));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) to[c * rows + r] = (*from)[r * columns + c];
  RengaFree(from);
  *from = to;
  return RENGA_SUCCESS;
}

/* LAYER.lora_A.weight or lora_B.weight; -1: there is none. */
static int FindFactorOf(const RengaMerger *merger, const char *layer, const char *part)
{
  char name[RENGA_ADAPTER_NAME + 32];
  snprintf(name, sizeof name, "%s.%s.weight", layer, part);
  return RengaCheckpointTableFind(merger->table, name);
}

static RengaErrorCode ReadFactor(const RengaMerger *merger, int entry, int64_t rows,
                                 int64_t columns, float **to)
{
  const RengaTensorSpec *spec = &merger->table->entries[entry].spec;
  RengaCheck(spec->ndim == 2 && spec->dim[0] == rows && spec->dim[1] == columns, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "the adapter %s is no [%lld, %lld]",
             merger->table->entries[entry].name, (long long)rows, (long long)columns);
  RengaCall(RengaMalloc(rows * columns, to));
  RengaCall(merger->read(merger->user, entry, 0, rows * columns, *to));
  return RENGA_SUCCESS;
}

/* a [rank, inputs], b [outputs, rank]; a weight [inputs, outputs] has both transposed. */
static RengaErrorCode ReadFactors(RengaMerger *merger, const char *layer, int a, int b)
{
  const RengaTensorSpec *weight = &merger->table->entries[merger->entry].spec;
  const int64_t rank = merger->adapters->rank;
  const bool transposed = RengaCheckpointIsTransposed_Private(merger->adapters, layer);
  const int64_t outputs = weight->dim[transposed], inputs = weight->dim[!transposed];
  RengaCall(ReadFactor(merger, b, outputs, rank, transposed ? &merger->right : &merger->left));
  RengaCall(ReadFactor(merger, a, rank, inputs, transposed ? &merger->left : &merger->right));
  if (transposed) RengaCall(Transpose(rank, inputs, &merger->left));
  if (transposed) RengaCall(Transpose(outputs, rank, &merger->right));
  merger->rows = weight->dim[0];
  merger->columns = weight->dim[1];
  RengaCall(RengaMalloc(merger->columns, &merger->sum));
  return RENGA_SUCCESS;
}

/* A weight LAYER.weight, or one that is named as its layer. */
static RengaErrorCode FindFactors(RengaMerger *merger, int entry)
{
  static const char end[] = ".weight";
  const char *name = merger->table->entries[entry].name;
  const size_t length = strlen(name), tail = sizeof end - 1;
  const bool has = length > tail && strcmp(name + length - tail, end) == 0;
  char layer[RENGA_ADAPTER_NAME];
  RengaMergerFree(merger);
  merger->entry = entry;
  snprintf(layer, sizeof layer, "%.*s", (int)(has ? length - tail : length), name);
  const int a = FindFactorOf(merger, layer, "lora_A"), b = FindFactorOf(merger, layer, "lora_B");
  if (a < 0 || b < 0 || merger->table->entries[entry].spec.ndim != 2) return RENGA_SUCCESS;
  RengaCall(ReadFactors(merger, layer, a, b));
  return RENGA_SUCCESS;
}

/* Elements [column, column + count) of a row. */
static void AddFactorsToRow(const RengaMerger *merger, int64_t row, int64_t column, int64_t count,
                            float to[])
{
  const int64_t rank = merger->adapters->rank;
  const double scale = merger->adapters->alpha / (double)rank;
  for (int64_t c = 0; c < count; c++) merger->sum[c] = 0;
  for (int64_t k = 0; k < rank; k++) {
    const double factor = (double)merger->left[row * rank + k];
    const float *right = merger->right + k * merger->columns + column;
    for (int64_t c = 0; c < count; c++) merger->sum[c] += factor * (double)right[c];
  }
  for (int64_t c = 0; c < count; c++) to[c] = (float)((double)to[c] + scale * merger->sum[c]);
}

RengaErrorCode RengaMergeElements(RengaMerger *merger, int entry, int64_t first, int64_t count,
                                  float to[])
{
  if (merger->entry != entry) RengaCall(FindFactors(merger, entry));
  if (merger->columns == 0) return RENGA_SUCCESS;
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / merger->columns, column = (first + done) % merger->columns;
    const int64_t rest = merger->columns - column, left = count - done;
    const int64_t some = rest < left ? rest : left;
    AddFactorsToRow(merger, row, column, some, to + done);
    done += some;
  }
  return RENGA_SUCCESS;
}
