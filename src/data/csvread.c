/* Data: reading tables of text (RFC 4180): cells between commas, semicolons or tabs; a cell in
   quotes may hold separators, line ends and doubled quotes. */
#include "csv.h"
#include "renga/private/open.h"
#include <errno.h>
#include <string.h>

enum { LONGEST_ROW = 64 * 1024 * 1024 };

static RengaErrorCode PutByte(RengaCsv *csv, char byte)
{
  if (csv->n_text == csv->text_room) {
    RengaCheck(csv->n_text < LONGEST_ROW, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "table %s: the row at line %lld is longer than %d MiB; is a quote left open?",
               csv->name, (long long)csv->line, LONGEST_ROW / 1024 / 1024);
    RengaCall(RengaRealloc(2 * csv->text_room + 1024, &csv->text));
    csv->text_room = 2 * csv->text_room + 1024;
  }
  csv->text[csv->n_text++] = byte;
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginCell(RengaCsv *csv)
{
  if (csv->n_cells == csv->cell_room) {
    RengaCall(RengaRealloc(2 * csv->cell_room + 16, &csv->cell));
    csv->cell_room = 2 * csv->cell_room + 16;
  }
  csv->cell[csv->n_cells++] = csv->n_text;
  return RENGA_SUCCESS;
}

/* What is between quotes, the first of which was read. */
static RengaErrorCode ReadQuoted(RengaCsv *csv)
{
  const int64_t begin = csv->line;
  for (;;) {
    int byte = getc(csv->file);
    if (byte == '"') {
      byte = getc(csv->file);
      if (byte != '"') {
        if (byte != EOF) ungetc(byte, csv->file);
        return RENGA_SUCCESS;
      }
    }
    RengaCheck(byte != EOF, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "table %s: a quote that opens at line %lld is never closed", csv->name,
               (long long)begin);
    if (byte == '\n') csv->line++;
    RengaCall(PutByte(csv, (char)byte));
  }
}

/* A row as it stands; *any: there was one. */
static RengaErrorCode ReadCsvRow(RengaCsv *csv, bool *any)
{
  csv->n_cells = 0;
  csv->n_text = 0;
  csv->line++;
  *any = false;
  RengaCall(BeginCell(csv));
  for (;;) {
    const int byte = getc(csv->file);
    if (byte == EOF || byte == '\n') {
      *any = *any || byte == '\n';
      break;
    }
    *any = true;
    if (byte == '\r') continue;
    if (byte == csv->separator) {
      RengaCall(PutByte(csv, '\0'));
      RengaCall(BeginCell(csv));
    } else if (byte == '"' && csv->cell[csv->n_cells - 1] == csv->n_text) {
      RengaCall(ReadQuoted(csv));
    } else {
      RengaCall(PutByte(csv, (char)byte));
    }
  }
  RengaCall(PutByte(csv, '\0'));
  RengaCheck(!ferror(csv->file), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "table %s, line %lld: %s",
             csv->name, (long long)csv->line, RengaFileReason_Private(errno));
  return RENGA_SUCCESS;
}

static bool IsEmptyRow(const RengaCsv *csv)
{
  return csv->n_cells == 1 && csv->text[strspn(csv->text, " \t")] == '\0';
}

RengaErrorCode RengaCsvRead_Private(RengaCsv *csv, bool *more)
{
  do RengaCall(ReadCsvRow(csv, more));
  while (*more && IsEmptyRow(csv));
  RengaCheck(!*more || csv->n_cells == csv->n_columns, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "table %s, line %lld: %d cells, but there are %d headings", csv->name,
             (long long)csv->line, csv->n_cells, csv->n_columns);
  return RENGA_SUCCESS;
}

const char *RengaCsvCell_Private(const RengaCsv *csv, int column)
{
  const char *cell = csv->text + csv->cell[column];
  return cell + strspn(cell, " ");
}

static char FindSeparator(FILE *file)
{
  static const char candidates[] = ",;\t";
  int count[3] = {0}, best = 0;
  for (int byte = getc(file); byte != EOF && byte != '\n'; byte = getc(file))
    for (int c = 0; c < 3; c++) count[c] += byte == candidates[c];
  for (int c = 1; c < 3; c++)
    if (count[c] > count[best]) best = c;
  rewind(file);
  return candidates[best];
}

/* Files of spreadsheets begin with a mark of their encoding. */
static void PassMark(FILE *file)
{
  unsigned char mark[3];
  if (fread(mark, 1, 3, file) != 3 || mark[0] != 0xEF || mark[1] != 0xBB || mark[2] != 0xBF)
    rewind(file);
}

static RengaErrorCode ReadHeadings(RengaCsv *csv)
{
  bool more;
  RengaCall(ReadCsvRow(csv, &more));
  RengaCheck(more && !IsEmptyRow(csv), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "table %s: its first line must name the columns", csv->name);
  RengaCall(RengaMalloc(csv->n_cells, &csv->heading));
  csv->n_columns = csv->n_cells;
  for (int c = 0; c < csv->n_columns; c++)
    RengaCall(RengaStringCopy(RengaCsvCell_Private(csv, c), &csv->heading[c]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCsvOpen_Private(const char *name, RengaCsv *csv)
{
  *csv = (RengaCsv){.name = name, .file = RengaFileOpen_Private(name, "rb")};
  RengaCheck(csv->file != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "table %s: %s", name,
             RengaFileReason_Private(errno));
  csv->separator = FindSeparator(csv->file);
  PassMark(csv->file);
  RengaCall(ReadHeadings(csv));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCsvRewind_Private(RengaCsv *csv)
{
  bool more;
  rewind(csv->file);
  PassMark(csv->file);
  csv->line = 0;
  RengaCall(ReadCsvRow(csv, &more));
  return RENGA_SUCCESS;
}

void RengaCsvClose_Private(RengaCsv *csv)
{
  for (int c = 0; c < csv->n_columns; c++) RengaFree(&csv->heading[c]);
  RengaFree(&csv->heading);
  RengaFree(&csv->cell);
  RengaFree(&csv->text);
  if (csv->file) fclose(csv->file);
  *csv = (RengaCsv){.name = NULL};
}
