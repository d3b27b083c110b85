/* TEST ranks: 1 2 */
/* Tables of text: separators, quotes, classes, targets, normalisation, parts; and what is
   refused. */
#include "datatest.h"
#include <math.h>

static char table_name[64],
    set_name[64]; /* for each number of ranks, since tests run side by side */

static RengaErrorCode WriteTable(RengaComm comm, const char *text)
{
  if (RengaCommGetRank(comm) == 0) {
    FILE *file = fopen(table_name, "wb");
    Expect(file != NULL);
    fputs(text, file);
    fclose(file);
  }
  RengaCall(RengaCommBarrier(comm, "the table"));
  return RENGA_SUCCESS;
}

/* The samples of a part, in order. */
static RengaErrorCode ReadPart(RengaComm comm, bool classes, RengaDataPart part, int columns,
                               int64_t samples, float x[], void *y)
{
  const char *const names[] = {"x", classes ? "labels" : "y"};
  const RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 1, columns, 0),
                                   classes ? Spec(RENGA_INT64, 0, 0, 0)
                                           : Spec(RENGA_FLOAT32, 1, 2, 0)};
  RengaData data;
  int64_t count;
  RengaCall(RengaOptionsSetValue("data_shuffle", "false"));
  RengaCall(RengaDataCreate(comm, &data));
  RengaCall(RengaDataSetFromOptions(data));
  RengaCall(RengaDataSetFile(data, set_name));
  RengaCall(RengaDataSetFields(data, 2, names, specs, NULL));
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataGetCount(data, part, &count));
  Expect(count == samples);
  RengaCall(RengaDataRead(data, part, 0, 0, 0, samples, x));
  RengaCall(RengaDataRead(data, part, 1, 0, 0, samples, y));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static bool IsNear(float a, double b)
{
  return fabs((double)a - b) <= 1e-6 * (1 + fabs(b));
}

/* Four rows to train with, one to validate; a mark of the encoding, quotes over two lines, Windows'
   line ends, an empty line, a column that does not change. */
static RengaErrorCode CheckClasses(RengaComm comm)
{
  const double deviation = sqrt(5.0); /* of 1, 3, 5, 7 around 4 */
  int64_t numbers[3], label[4];
  float x[8];
  RengaCall(WriteTable(comm,
                       "\xEF\xBB\xBF"
                       "width;\"the \"\"kind\"\"\";note;same\r\n"
                       "1;10;\"a;b\nc\";4\r\n3;9;;4\r\n\r\n5; 10;x;4\r\n7;cat;x;4\r\n9;9;x;5"));
  RengaCall(
      RengaDataWriteCsv(comm, table_name, set_name, "the \"kind\"", NULL, "note", 0.2, numbers));
  if (RengaCommGetRank(comm) == 0) Expect(numbers[0] == 5 && numbers[1] == 2 && numbers[2] == 3);
  RengaCall(ReadPart(comm, true, RENGA_DATA_TRAINING, 2, 4, x, label));
  for (int i = 0; i < 4; i++) {
    Expect(IsNear(x[2 * i], (2 * i + 1 - 4) / deviation) && x[2 * i + 1] == 0);
    Expect(label[i] == (i == 3 ? 2 : i == 1 ? 0 : 1)); /* 9, 10, cat */
  }
  RengaCall(ReadPart(comm, true, RENGA_DATA_VALIDATION, 2, 1, x, label));
  Expect(IsNear(x[0], 5 / deviation) && x[1] == 1 && label[0] == 0);
  return RENGA_SUCCESS;
}

/* Blanks around a class are none of it; lines that end as those of old spreadsheets do; a heading
   that holds separators of another kind. */
static RengaErrorCode CheckBlanks(RengaComm comm)
{
  static const char *const tables[] = {"a,kind\n1,x \n2,x\n3,\ty\n4, \"y\" \n",
                                       "a,kind\r1,x\r2,\"x\"\r\r3,y\r4,y\r",
                                       "\"1,2,3\";kind\n1;x\n2;x\n3;y\n4;y\n"};
  for (int i = 0; i < COUNT_OF(tables); i++) {
    int64_t numbers[3], label[4];
    float x[4];
    RengaCall(WriteTable(comm, tables[i]));
    RengaCall(RengaDataWriteCsv(comm, table_name, set_name, "kind", NULL, NULL, 0, numbers));
    if (RengaCommGetRank(comm) == 0) Expect(numbers[0] == 4 && numbers[1] == 1 && numbers[2] == 2);
    RengaCall(ReadPart(comm, true, RENGA_DATA_TRAINING, 1, 4, x, label));
    for (int row = 0; row < 4; row++)
      Expect(label[row] == row / 2 && IsNear(x[row], (row - 1.5) / sqrt(1.25)));
  }
  return RENGA_SUCCESS;
}

/* More rows than a block; targets as they stand. */
static RengaErrorCode CheckTargets(RengaComm comm)
{
  enum { ROWS = 5000 };
  char *text;
  float *x, *y;
  int64_t numbers[3];
  size_t used = 0;
  RengaCall(RengaMalloc(ROWS * 40, &text));
  RengaCall(RengaMalloc(ROWS, &x));
  RengaCall(RengaMalloc(2 * ROWS, &y));
  used += (size_t)sprintf(text, "a,b,c\n");
  for (int i = 0; i < ROWS; i++)
    used += (size_t)sprintf(text + used, "%d,%g,1e%d\n", i, 0.5 * i, i % 3);
  RengaCall(WriteTable(comm, text));
  RengaCall(RengaDataWriteCsv(comm, table_name, set_name, NULL, "c,a", NULL, 0, numbers));
  if (RengaCommGetRank(comm) == 0) Expect(numbers[0] == ROWS && numbers[1] == 1 && numbers[2] == 2);
  RengaCall(ReadPart(comm, false, RENGA_DATA_TRAINING, 1, ROWS, x, y));
  const double mean = 0.25 * (ROWS - 1), deviation = 0.5 * sqrt(((double)ROWS * ROWS - 1) / 12);
  for (int i = 0; i < ROWS; i++) {
    Expect(IsNear(x[i], (0.5 * i - mean) / deviation));
    Expect(y[2 * i] == (float)i && y[2 * i + 1] == (float)pow(10, i % 3));
  }
  RengaFree(&text);
  RengaFree(&x);
  RengaFree(&y);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefusals(RengaComm comm)
{
  static const struct {
    const char *text, *label, *targets, *dropped, *message;
  } rows[] = {
      {"a,b\n1,2\n3,x\n", NULL, "b", NULL,
       "line 3, column b: \"x\" is no number; leave the line out, or the column (-data_drop b)"},
      {"a,b\n1,2\n,2\n", NULL, "b", NULL, "line 3, column a: \"\" is no number"},
      {"a,b\n1,inf\n", NULL, "b", NULL, "\"inf\" is no number"},
      {"a,b\n0x10,1\n", NULL, "b", NULL, "column a: \"0x10\" is no number"},
      {"a,b\n1,2\n1,-1e39\n", NULL, "b", NULL, "line 3, column b: -1e39 is more than a float"},
      {"a,b\n1,2,3\n", "b", NULL, NULL, "line 2: 3 cells, but there are 2 headings"},
      {"a,b\n1,\"2\n", "b", NULL, NULL, "a quote that opens at line 2 is never closed"},
      {"a,b\n1,\n", "b", NULL, NULL, "line 2, column b: there is no class"},
      {"width,b\n1,2\n", "widht", NULL, NULL, "has no column widht; did you mean width?"},
      {"a,b\n1,2\n", "b", NULL, "a", "no column is left to learn from"},
      {"a,b\n1,2\n", "b", "a", NULL, "what is to be learned?"},
      {"a,b\n1,2\n", NULL, NULL, NULL, "what is to be learned?"},
      {"a,b\n", "b", NULL, NULL, "has no rows to train with"},
      {"", "b", NULL, NULL, "its first line must name the columns"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    FILE *file;
    RengaCall(WriteTable(comm, rows[i].text));
    const int saved = BeginErrors(&file);
    const RengaErrorCode code = RengaDataWriteCsv(comm, table_name, "csv-refused.h5", rows[i].label,
                                                  rows[i].targets, rows[i].dropped, 0, NULL);
    const char *said = EndErrors(file, saved);
    Expect(code != RENGA_SUCCESS && access("csv-refused.h5", F_OK) != 0);
    const bool names_it = strstr(said, rows[i].message) != NULL;
    if (RengaCommGetRank(comm) == 0 && !names_it) printf("no \"%s\" in: %s", rows[i].message, said);
    Expect(RengaCommGetRank(comm) != 0 || names_it);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  snprintf(table_name, sizeof table_name, "csv-%d.csv", RengaCommGetSize(comm));
  snprintf(set_name, sizeof set_name, "csv-%d.h5", RengaCommGetSize(comm));
  RengaCall(CheckClasses(comm));
  RengaCall(CheckBlanks(comm));
  RengaCall(CheckTargets(comm));
  RengaCall(CheckRefusals(comm));
  RengaCall(RengaCommBarrier(comm, "the end"));
  if (RengaCommGetRank(comm) == 0) unlink(table_name), unlink(set_name);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
