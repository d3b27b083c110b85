/* Data: a set from a table of text. Columns of numbers become the input x, each less its mean
   and divided by its deviation; one column of classes becomes labels, or columns of numbers
   become the targets y. The table is read twice: to check and to measure, then to write; it is
   never in memory as a whole. */
#include "csv.h"
#include "renga/private/number.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_ROWS = 4096, MOST_CLASSES = 100000 };
typedef enum { COLUMN_INPUT, COLUMN_LABEL, COLUMN_TARGET, COLUMN_DROPPED } ColumnRole;

typedef struct {
  RengaCsv csv;
  ColumnRole *role;         /* [columns] */
  double *mean, *deviation; /* [columns] of the training part */
  int n_roles[COLUMN_DROPPED + 1];
  int n_classes;
  char **class;           /* [n_classes] in the order of their names; whole numbers by value */
  int64_t rows, training; /* training: the first of the rows */
} CsvSet;

/* Is the name one of a list with commas? */
static bool ListHasName(const char *list, const char *name)
{
  const size_t length = strlen(name);
  for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (!strncmp(at, name, length) && (at[length] == ',' || !at[length])) return true;
  return false;
}

/* Every name of a list is a column. */
static RengaErrorCode CheckColumnNames(const CsvSet *set, const char *list)
{
  for (const char *at = list; at && *at;) {
    const size_t length = strcspn(at, ",");
    const char *closest;
    char name[256];
    bool found = false;
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    for (int c = 0; c < set->csv.n_columns; c++)
      found = found || !strcmp(set->csv.heading[c], name);
    closest = RengaClosestName(name, set->csv.n_columns, (const char *const *)set->csv.heading);
    RengaCheck(found, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "table %s has no column %s%s%s%s",
               set->csv.name, name, closest ? "; did you mean " : "", closest ? closest : "",
               closest ? "?" : "");
    at += length + (at[length] == ',');
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AssignColumns(CsvSet *set, const char *label, const char *targets,
                                    const char *dropped)
{
  RengaCheck(!label != !targets, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "table %s: what is to be learned? Either one column of classes or columns of numbers",
             set->csv.name);
  RengaCall(CheckColumnNames(set, label));
  RengaCall(CheckColumnNames(set, targets));
  RengaCall(CheckColumnNames(set, dropped));
  RengaCall(RengaMalloc(set->csv.n_columns, &set->role));
  RengaCall(RengaMalloc(set->csv.n_columns, &set->mean));
  RengaCall(RengaMalloc(set->csv.n_columns, &set->deviation));
  for (int c = 0; c < set->csv.n_columns; c++) {
    const char *name = set->csv.heading[c];
    set->role[c] = label && !strcmp(label, name) ? COLUMN_LABEL
                   : ListHasName(targets, name)  ? COLUMN_TARGET
                   : ListHasName(dropped, name)  ? COLUMN_DROPPED
                                                 : COLUMN_INPUT;
    set->n_roles[set->role[c]]++;
  }
  RengaCheck(!label || set->n_roles[COLUMN_LABEL] == 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "table %s: one column of classes is needed, \"%s\" fits %d", set->csv.name,
             label ? label : "", set->n_roles[COLUMN_LABEL]);
  RengaCheck(set->n_roles[COLUMN_INPUT] > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "table %s: no column is left to learn from", set->csv.name);
  return RENGA_SUCCESS;
}

static RengaErrorCode NumberAt(const CsvSet *set, int column, double *value)
{
  const char *cell = RengaCsvCell_Private(&set->csv, column);
  char *end;
  *value = RengaReadReal(cell, &end);
  const bool hexadecimal = strpbrk(cell, "xX") != NULL; /* a code, not a quantity */
  RengaCheck(end != cell && end[strspn(end, " ")] == '\0' && isfinite(*value) && !hexadecimal,
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "table %s, line %lld, column %s: \"%.40s\" is no number; leave the line out, or "
             "the column (-data_drop %s)",
             set->csv.name, (long long)set->csv.line, set->csv.heading[column], cell,
             set->csv.heading[column]);
  RengaCheck(fabs(*value) <= FLT_MAX, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "table %s, line %lld, column %s: %.40s is more than a float32 holds; leave the line "
             "out, or the column (-data_drop %s)",
             set->csv.name, (long long)set->csv.line, set->csv.heading[column], cell,
             set->csv.heading[column]);
  return RENGA_SUCCESS;
}

/* Whole numbers by value, then texts. */
static int CompareClasses(const void *a, const void *b)
{
  const char *x = *(char *const *)a, *y = *(char *const *)b;
  char *end_x, *end_y;
  const long long i = strtoll(x, &end_x, 10), j = strtoll(y, &end_y, 10);
  const bool is_x = end_x != x && !*end_x, is_y = end_y != y && !*end_y;
  if (is_x && is_y && i != j) return i < j ? -1 : 1;
  if (is_x != is_y) return is_x ? -1 : 1;
  return strcmp(x, y);
}

/* The place of a class in the list, which has none at first; NULL where it is new. */
static char **ClassNamed(const CsvSet *set, const char *name)
{
  if (set->n_classes == 0) return NULL;
  return bsearch(&name, set->class, (size_t)set->n_classes, sizeof *set->class, CompareClasses);
}

/* The list stays in order. */
static RengaErrorCode AddClass(CsvSet *set, const char *name)
{
  char *copy;
  if (ClassNamed(set, name)) return RENGA_SUCCESS;
  RengaCheck(set->n_classes < MOST_CLASSES, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "table %s, line %lld: more than %d classes; are these numbers to be learned as such?",
             set->csv.name, (long long)set->csv.line, MOST_CLASSES);
  RengaCall(RengaStringCopy(name, &copy));
  RengaErrorCode code = RengaRealloc(set->n_classes + 1, &set->class);
  if (code != RENGA_SUCCESS) RengaFree(&copy);
  RengaCall(code);
  int at = set->n_classes++;
  for (; at > 0 && CompareClasses(&copy, &set->class[at - 1]) < 0; at--)
    set->class[at] = set->class[at - 1];
  set->class[at] = copy;
  return RENGA_SUCCESS;
}

static RengaErrorCode ClassAt(const CsvSet *set, int column, const char **name)
{
  *name = RengaCsvCell_Private(&set->csv, column);
  RengaCheck(**name, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "table %s, line %lld, column %s: there is no class", set->csv.name,
             (long long)set->csv.line, set->csv.heading[column]);
  return RENGA_SUCCESS;
}

/* Checks each cell, collects classes, counts. */
static RengaErrorCode Survey(CsvSet *set)
{
  bool more;
  for (;;) {
    RengaCall(RengaCsvRead_Private(&set->csv, &more));
    if (!more) return RENGA_SUCCESS;
    set->rows++;
    for (int c = 0; c < set->csv.n_columns; c++) {
      const char *class;
      double value;
      if (set->role[c] == COLUMN_INPUT || set->role[c] == COLUMN_TARGET)
        RengaCall(NumberAt(set, c, &value));
      if (set->role[c] != COLUMN_LABEL) continue;
      RengaCall(ClassAt(set, c, &class));
      RengaCall(AddClass(set, class));
    }
  }
}

/* Mean and deviation of each input over the training part, by Welford's recurrence. */
static RengaErrorCode MeasureTable(CsvSet *set)
{
  bool more;
  RengaCall(RengaCsvRewind_Private(&set->csv));
  for (int64_t row = 0; row < set->training; row++) {
    RengaCall(RengaCsvRead_Private(&set->csv, &more));
    for (int c = 0; c < set->csv.n_columns && more; c++) {
      double value;
      if (set->role[c] != COLUMN_INPUT) continue;
      RengaCall(NumberAt(set, c, &value));
      const double before = value - set->mean[c];
      set->mean[c] += before / (double)(row + 1);
      set->deviation[c] += before * (value - set->mean[c]);
    }
  }
  for (int c = 0; c < set->csv.n_columns; c++) {
    set->deviation[c] = sqrt(set->deviation[c] / (double)set->training);
    if (!(set->deviation[c] > 0)) set->deviation[c] = 1; /* a column that does not change */
  }
  return RENGA_SUCCESS;
}

/* Rows of a block: inputs, and targets or labels. */
typedef struct {
  float *x, *y;
  int64_t *label;
  int64_t count;
} CsvBlock;

static RengaErrorCode TakeRow(const CsvSet *set, CsvBlock *block)
{
  float *x = block->x + block->count * set->n_roles[COLUMN_INPUT];
  float *y = block->y + block->count * set->n_roles[COLUMN_TARGET];
  for (int c = 0; c < set->csv.n_columns; c++) {
    const char *class;
    double value;
    if (set->role[c] == COLUMN_DROPPED) continue;
    if (set->role[c] == COLUMN_LABEL) {
      RengaCall(ClassAt(set, c, &class));
      char **found = ClassNamed(set, class);
      RengaCheck(found, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
                 "table %s was changed while it was read", set->csv.name);
      block->label[block->count] = found - set->class;
      continue;
    }
    RengaCall(NumberAt(set, c, &value));
    if (set->role[c] == COLUMN_INPUT)
      *x++ = (float)((value - set->mean[c]) / set->deviation[c]);
    else
      *y++ = (float)value;
  }
  block->count++;
  return RENGA_SUCCESS;
}

static RengaErrorCode WritePart(CsvSet *set, RengaDataWriter output, const char *group,
                                int64_t rows, CsvBlock *block)
{
  const bool classes = set->n_roles[COLUMN_LABEL] > 0;
  const RengaTensorSpec x = {
      .type = RENGA_FLOAT32, .ndim = 2, .dim = {rows, set->n_roles[COLUMN_INPUT]}};
  const RengaTensorSpec y = {
      .type = RENGA_FLOAT32, .ndim = 2, .dim = {rows, set->n_roles[COLUMN_TARGET]}};
  const RengaTensorSpec label = {.type = RENGA_INT64, .ndim = 1, .dim = {rows}};
  char path[2][64];
  int dataset[2];
  bool more = true;
  snprintf(path[0], sizeof path[0], "/%s/x", group);
  snprintf(path[1], sizeof path[1], "/%s/%s", group, classes ? "labels" : "y");
  RengaCall(RengaDataWriterAdd(output, path[0], &x, &dataset[0]));
  RengaCall(RengaDataWriterAdd(output, path[1], classes ? &label : &y, &dataset[1]));
  for (int64_t row = 0; row < rows;) {
    const int64_t end = rows - row < BLOCK_ROWS ? rows : row + BLOCK_ROWS;
    block->count = 0;
    for (int64_t r = row; r < end; r++) {
      RengaCall(RengaCsvRead_Private(&set->csv, &more));
      RengaCheck(more, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
                 "table %s became shorter while it was read", set->csv.name);
      RengaCall(TakeRow(set, block));
    }
    RengaCall(RengaDataWriterWrite(output, dataset[0], row, end - row, block->x));
    RengaCall(RengaDataWriterWrite(output, dataset[1], row, end - row,
                                   classes ? (void *)block->label : block->y));
    row = end;
  }
  return RENGA_SUCCESS;
}

/* Takes the inputs' columns of the three lists to their front. */
static int GatherInputs(CsvSet *set)
{
  int inputs = 0;
  for (int c = 0; c < set->csv.n_columns; c++) {
    if (set->role[c] != COLUMN_INPUT) continue;
    char *name = set->csv.heading[inputs];
    set->csv.heading[inputs] = set->csv.heading[c];
    set->csv.heading[c] = name;
    set->mean[inputs] = set->mean[c];
    set->deviation[inputs++] = set->deviation[c];
  }
  return inputs;
}

/* What is needed to read other rows in the same way. */
static RengaErrorCode DescribeColumns(CsvSet *set, RengaDataWriter output)
{
  const int inputs = GatherInputs(set);
  const RengaTensorSpec spec = {.type = RENGA_FLOAT64, .ndim = 1, .dim = {inputs}};
  int dataset;
  RengaCall(RengaDataWriterPutNames_Private(output, "columns", inputs, set->csv.heading));
  if (set->n_classes > 0)
    RengaCall(RengaDataWriterPutNames_Private(output, "classes", set->n_classes, set->class));
  RengaCall(RengaDataWriterAdd(output, "/x_mean", &spec, &dataset));
  RengaCall(RengaDataWriterWrite(output, dataset, 0, inputs, set->mean));
  RengaCall(RengaDataWriterAdd(output, "/x_deviation", &spec, &dataset));
  RengaCall(RengaDataWriterWrite(output, dataset, 0, inputs, set->deviation));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteTableRows(CsvSet *set, RengaDataWriter output)
{
  CsvBlock block = {.count = 0};
  RengaErrorCode code = RengaMalloc(BLOCK_ROWS * set->n_roles[COLUMN_INPUT] + 1, &block.x);
  if (!code) code = RengaMalloc(BLOCK_ROWS * set->n_roles[COLUMN_TARGET] + 1, &block.y);
  if (!code) code = RengaMalloc(BLOCK_ROWS, &block.label);
  if (!code) code = RengaCsvRewind_Private(&set->csv);
  if (!code) code = WritePart(set, output, "training", set->training, &block);
  if (!code && set->training < set->rows)
    code = WritePart(set, output, "validation", set->rows - set->training, &block);
  if (!code) code = DescribeColumns(set, output);
  RengaFree(&block.x);
  RengaFree(&block.y);
  RengaFree(&block.label);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareTable(CsvSet *set, const char *label, const char *targets,
                                   const char *dropped, double share)
{
  RengaCall(AssignColumns(set, label, targets, dropped));
  RengaCall(Survey(set));
  set->training = set->rows - (int64_t)((double)set->rows * share);
  RengaCheck(set->training > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "table %s has no rows to train with", set->csv.name);
  RengaCall(MeasureTable(set));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteCsv(CsvSet *set, const char *table, const char *out_file,
                               const char *label, const char *targets, const char *dropped,
                               double share)
{
  RengaDataWriter output = NULL;
  RengaErrorCode code = RengaCsvOpen_Private(table, &set->csv);
  if (!code) code = PrepareTable(set, label, targets, dropped, share);
  if (!code) code = RengaDataWriterCreate(out_file, &output);
  if (!code) code = WriteTableRows(set, output);
  code = RengaDataWriterClose(&output, code);
  for (int k = 0; k < set->n_classes; k++) RengaFree(&set->class[k]);
  RengaFree(&set->class);
  RengaFree(&set->role);
  RengaFree(&set->mean);
  RengaFree(&set->deviation);
  RengaCsvClose_Private(&set->csv);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteCsv - make a set from a table of text

   Collective; rank 0 works

   Input:
   . table - a file with cells between commas, semicolons or tabs; its first line names the columns
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . label - column of classes, whole numbers or texts, or NULL
   . targets - columns of numbers to be learned, with commas, or NULL; one of the two is given
   . dropped - columns to leave out, with commas, or NULL
   . validation_share - the share of the rows, from the end, for the validation part; at least 0,
     below 1

   Output:
   . numbers - [3], the numbers of rows, of inputs, and of classes or targets. Rank 0 knows them

   Errors: RENGA_ERR_FILE_FORMAT names the line and the column of a cell that is no number.

   Notes: all other columns are numbers: x float32 [N, columns], each less its mean and divided by
   its deviation over the training part (datasets x_mean and x_deviation). labels int64 [N] number
   the classes in the order of their names, whole numbers by value; y float32 [N, targets] is as it
   stands. Attributes columns and classes of the file hold the names, one in a line.

   See also: RengaDataWriteNpy(), RengaDataSetFile()
@*/
RengaErrorCode RengaDataWriteCsv(RengaComm comm, const char *table, const char *out_file,
                                 const char *label, const char *targets, const char *dropped,
                                 double validation_share, int64_t numbers[3])
{
  RengaCheckPointers(comm, table, out_file);
  CsvSet set = {.rows = 0};
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCheck(validation_share >= 0 && validation_share < 1, mpi, RENGA_ERR_ARGUMENT,
             "a share of %g for validation; at least 0 and below 1 is possible", validation_share);
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) code = WriteCsv(&set, table, out_file, label, targets, dropped, validation_share);
  RengaCall(RengaErrorAgree(mpi, code));
  if (numbers != NULL) {
    numbers[0] = set.rows;
    numbers[1] = set.n_roles[COLUMN_INPUT];
    numbers[2] = label ? set.n_classes : set.n_roles[COLUMN_TARGET];
  }
  return RENGA_SUCCESS;
}
