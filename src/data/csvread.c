/* Data: reading tables of text (RFC 4180): cells between commas, semicolons or tabs, in ratings
   between colons or blanks, too; a cell in quotes may hold separators, line ends and doubled
   quotes. */
#include "csv.h"
#include "renga/private/open.h"
#include <errno.h>
#include <string.h>

enum { LONGEST_ROW = 64 * 1024 * 1024 };

static RengaErrorCode PutByte(RengaCsv *csv, char byte)
{
  if (csv->n_text == csv->text_room) {
    RengaCheck(csv->n_text < LONGEST_ROW, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s %s: the row at line %lld is longer than %d MiB; is a quote left open?",
               csv->kind, csv->name, (long long)csv->line, LONGEST_ROW / 1024 / 1024);
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
               "%s %s: a quote that opens at line %lld is never closed", csv->kind, csv->name,
               (long long)begin);
    if (byte == '\n') csv->line++;
    RengaCall(PutByte(csv, (char)byte));
  }
}

/* Blanks around what a cell holds are none of it. */
static RengaErrorCode EndCell(RengaCsv *csv)
{
  const int64_t begin = csv->cell[csv->n_cells - 1];
  while (csv->n_text > begin && strchr(" \t", csv->text[csv->n_text - 1])) csv->n_text--;
  RengaCall(PutByte(csv, '\0'));
  return RENGA_SUCCESS;
}

/* Windows ends a line with two bytes, old spreadsheets of Macintosh with the first of them. */
static bool IsLineEnd(RengaCsv *csv, int byte)
{
  if (byte != '\r') return byte == '\n' || byte == EOF;
  const int next = getc(csv->file);
  if (next != '\n' && next != EOF) ungetc(next, csv->file);
  return true;
}

/* Any run of blanks is one separator where they separate; two colons are one where they do. */
static bool IsSeparator(RengaCsv *csv, int byte)
{
  if (csv->separator == ' ') return byte == ' ' || byte == '\t';
  if (byte != csv->separator || !csv->doubled) return byte == csv->separator;
  const int next = getc(csv->file);
  if (next == byte) return true;
  if (next != EOF) ungetc(next, csv->file);
  return false;
}

/* A byte within a line. */
static RengaErrorCode TakeByte(RengaCsv *csv, int byte)
{
  const bool is_empty = csv->cell[csv->n_cells - 1] == csv->n_text;
  if (IsSeparator(csv, byte)) {
    if (csv->separator == ' ' && is_empty) return RENGA_SUCCESS;
    RengaCall(EndCell(csv));
    RengaCall(BeginCell(csv));
  } else if (byte == '"' && is_empty) {
    RengaCall(ReadQuoted(csv));
  } else if (!is_empty || (byte != ' ' && byte != '\t')) {
    RengaCall(PutByte(csv, (char)byte));
  }
  return RENGA_SUCCESS;
}

/* A row as it stands; *any: there was one. */
static RengaErrorCode ReadCsvRow(RengaCsv *csv, bool *any)
{
  int byte = getc(csv->file);
  csv->n_cells = 0;
  csv->n_text = 0;
  csv->line++;
  *any = byte != EOF;
  RengaCall(BeginCell(csv));
  for (; !IsLineEnd(csv, byte); byte = getc(csv->file)) RengaCall(TakeByte(csv, byte));
  const bool ends_blank =
      csv->separator == ' ' && csv->n_cells > 1 && csv->cell[csv->n_cells - 1] == csv->n_text;
  RengaCall(EndCell(csv));
  csv->n_cells -= ends_blank;
  RengaCheck(!ferror(csv->file), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s %s, line %lld: %s",
             csv->kind, csv->name, (long long)csv->line, RengaFileReason_Private(errno));
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
  RengaCheck(!*more || !csv->n_columns || csv->n_cells == csv->n_columns, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "table %s, line %lld: %d cells, but there are %d headings",
             csv->name, (long long)csv->line, csv->n_cells, csv->n_columns);
  return RENGA_SUCCESS;
}

const char *RengaCsvCell_Private(const RengaCsv *csv, int column)
{
  const char *cell = csv->text + csv->cell[column];
  return cell + strspn(cell, " \t");
}

/* What separates the cells of the first line with any: what stands there most of commas,
   semicolons and tabs, outside of quotes; in ratings else two colons, a colon or blanks. */
static void FindSeparator(RengaCsv *csv, bool is_table)
{
  static const char candidates[] = ",;\t:";
  int count[4] = {0}, best = 0, doubled = 0;
  bool quoted = false, any = false;
  for (int byte = getc(csv->file), last = 0; byte != EOF; last = byte, byte = getc(csv->file)) {
    if (!quoted && strchr("\r\n", byte) && (any || is_table)) break;
    any = any || !strchr(" \t\r\n", byte);
    quoted = quoted != (byte == '"');
    for (int c = 0; c < 4 && !quoted; c++) count[c] += byte == candidates[c];
    doubled += byte == ':' && last == ':';
  }
  for (int c = 1; c < 3; c++)
    if (count[c] > count[best]) best = c;
  csv->separator = count[best] > 0 || is_table ? candidates[best] : count[3] > 0 ? ':' : ' ';
  csv->doubled = csv->separator == ':' && doubled > 0;
  rewind(csv->file);
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

static RengaErrorCode OpenCsv(const char *kind, const char *name, RengaCsv *csv)
{
  *csv = (RengaCsv){.kind = kind, .name = name, .file = RengaFileOpen_Private(name, "rb")};
  RengaCheck(csv->file != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s %s: %s", kind, name,
             RengaFileReason_Private(errno));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCsvOpen_Private(const char *name, RengaCsv *csv)
{
  RengaCall(OpenCsv("table", name, csv));
  FindSeparator(csv, true);
  PassMark(csv->file);
  RengaCall(ReadHeadings(csv));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCsvOpenRatings_Private(const char *name, RengaCsv *csv)
{
  RengaCall(OpenCsv("ratings", name, csv));
  FindSeparator(csv, false);
  PassMark(csv->file);
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
