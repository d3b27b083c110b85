/* -help: the complete table of options, by section. */
#include "sys.h"
#include "renga/private/number.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_words[] = {
    [RENGA_OPTION_BOOL] = "bool",
    [RENGA_OPTION_INT] = "int",
    [RENGA_OPTION_INT64] = "int",
    [RENGA_OPTION_REAL] = "real",
    [RENGA_OPTION_BYTES] = "bytes",
    [RENGA_OPTION_STRING] = "text",
    [RENGA_OPTION_SECRET] = "text, not shown anywhere",
    [RENGA_OPTION_ENUM] = "text",
};

enum { HELP_WIDTH = 80, HELP_INDENT = 37 };

/* Words in lines of the width, all but the first indented; the first begins at column. */
static void PrintWrapped(FILE *file, int column, int indent, const char *text)
{
  for (int length; *text; text += length) {
    length = (int)strcspn(text + 1, " ") + 1; /* a word, with the space before it */
    if (column > indent && column + length > HELP_WIDTH) {
      fprintf(file, "\n%*s", indent, "");
      column = indent;
      if (*text == ' ') text++, length--;
    }
    column += fprintf(file, "%.*s", length, text);
  }
  fputc('\n', file);
}

/* "real, >= 0; default 0.01". */
static void PrintValues(FILE *file, const RengaOptionRow *row)
{
  fprintf(file, "%s", row->choices ? row->choices : kind_words[row->kind]);
  if (RengaOptionHasRange(row)) {
    if (isinf(row->high) || row->high >= 1e18)
      RengaFilePrint(file, ", >= %g", row->low);
    else
      RengaFilePrint(file, ", %g to %.10g", row->low, row->high);
  }
  RengaTypePrintChoices(file, row->name);
  if (row->value) fprintf(file, "; default %s", row->value);
}

static void PrintRow(FILE *file, const RengaOptionRow *row)
{
  char *values = NULL;
  size_t size;
  const int column = fprintf(file, "  -%-33s ", row->name);
  PrintWrapped(file, column, HELP_INDENT, row->help);
  FILE *text = open_memstream(&values, &size);
  fprintf(file, "%*s", HELP_INDENT + 2, "");
  PrintValues(text ? text : file, row);
  if (text) fclose(text);
  PrintWrapped(file, HELP_INDENT + 2, HELP_INDENT + 2, values ? values : "");
  free(values);
}

static bool IsFirstOfTitle(const RengaOptionSection sections[], int number)
{
  for (int j = 0; j < number; j++)
    if (strcmp(sections[j].section, sections[number].section) == 0) return false;
  return true;
}

/* All rows of a title, under one heading. */
static void PrintSection(FILE *file, int count, const RengaOptionSection sections[],
                         const char *title, RengaOptionFilter wants, void *user)
{
  bool begun = false;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < sections[i].count && strcmp(sections[i].section, title) == 0; j++) {
      const RengaOptionRow *row = &sections[i].rows[j];
      if (wants && !wants(title, row->name, user)) continue;
      if (!begun) fprintf(file, "\n%s\n", title);
      begun = true;
      PrintRow(file, row);
    }
}

/*@
   RengaOptionsHelp - print what options there are, by section

   Input:
   . file - open for writing
   . wants - chooses by section and name of the option (without the dash); NULL: all
   . user - handed to it

   See also: RengaOptionsWriteAll(), RengaAnswerHelp()
@*/
RengaErrorCode RengaOptionsHelp(FILE *file, RengaOptionFilter wants, void *user)
{
  const RengaOptionSection *sections;
  const int count = RengaOptionsGetSections(&sections);
  fprintf(file, "\nOptions are -name value, from -options_file FILE, then the variable\n"
                "RENGA_OPTIONS, then the command line; the last one wins.\n");
  for (int i = 0; i < count; i++)
    if (IsFirstOfTitle(sections, i))
      PrintSection(file, count, sections, sections[i].section, wants, user);
  return RENGA_SUCCESS;
}

/* "# help", "#   kind, range; default", "#-name default". */
static void WriteRow(FILE *file, const RengaOptionRow *row)
{
  const char *value = row->value ? row->value : "";
  const bool quoted = row->value && (value[0] == '\0' || strpbrk(value, " \t#\"") != NULL);
  fprintf(file, "# %s\n#   %s", row->help, row->choices ? row->choices : kind_words[row->kind]);
  RengaTypePrintChoices(file, row->name);
  fprintf(file, "\n#-%s %s%s%s\n\n", row->name, quoted ? "\"" : "", value, quoted ? "\"" : "");
}

/*@
   RengaOptionsWriteAll - write every option as a comment of an options file

   Input:
   . file - open for writing

   Errors: RENGA_ERR_FILE_WRITE where the file does not take them.

   Notes: each with what it does, what it may be, and a line "#-name default" that counts when the #
   is taken away. -help and -version are left out.

   See also: RengaOptionsView(), RengaOptionsHelp()
@*/
RengaErrorCode RengaOptionsWriteAll(FILE *file)
{
  const RengaOptionSection *sections;
  const int count = RengaOptionsGetSections(&sections);
  fprintf(file,
          "# Options of Renga %s: take away the # before a dash, and name this file in\n"
          "# -options_file FILE. The command line comes after it.\n",
          RENGA_VERSION);
  for (int i = 0; i < count; i++) {
    if (!IsFirstOfTitle(sections, i)) continue;
    fprintf(file, "\n# ---- %s ----\n\n", sections[i].section);
    for (int k = i; k < count; k++)
      for (int j = 0; j < sections[k].count; j++)
        if (strcmp(sections[k].section, sections[i].section) == 0 &&
            strcmp(sections[k].rows[j].name, "help") && strcmp(sections[k].rows[j].name, "version"))
          WriteRow(file, &sections[k].rows[j]);
  }
  RengaCheck(!ferror(file), MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "the options: %s",
             strerror(errno));
  return RENGA_SUCCESS;
}
