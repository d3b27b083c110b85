/* -help: the complete table of options, by section. */
#include "sys.h"
#include <math.h>
#include <string.h>

static const char *const kind_words[] = {
    [RENGA_OPTION_BOOL] = "bool", [RENGA_OPTION_INT] = "int",     [RENGA_OPTION_INT64] = "int",
    [RENGA_OPTION_REAL] = "real", [RENGA_OPTION_BYTES] = "bytes", [RENGA_OPTION_STRING] = "text",
};

static void PrintRow(FILE *file, const RengaOptionRow *row)
{
  char left[96], range[96] = "";
  snprintf(left, sizeof left, "-%s", row->name);
  bool numeric = row->kind != RENGA_OPTION_BOOL && row->kind != RENGA_OPTION_STRING;
  if (numeric && row->low < row->high) {
    if (isinf(row->high) || row->high >= 1e18)
      snprintf(range, sizeof range, ", >= %g", row->low);
    else
      snprintf(range, sizeof range, ", %g to %.10g", row->low, row->high);
  }
  fprintf(file, "  %-34s %s\n", left, row->help);
  fprintf(file, "  %-34s   %s%s", "", row->choices ? row->choices : kind_words[row->kind], range);
  RengaTypePrintChoices(file, row->name);
  if (row->value) fprintf(file, "; default %s", row->value);
  fputc('\n', file);
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

   Not collective

   Input:
   . file - open for writing
   . wants - chooses by section and name of the option (without the dash); NULL: all
   . user - handed to it

   Errors: none beyond bad arguments.

   See also: RengaOptionsWriteAll(), RengaAnswerHelp()
@*/
RengaErrorCode RengaOptionsHelp(FILE *file, RengaOptionFilter wants, void *user)
{
  const RengaOptionSection *sections;
  const int count = RengaOptionsGetSections(&sections);
  fprintf(file,
          "\nOptions are -name value, from -options_file FILE, then the variable RENGA_OPTIONS,\n"
          "then the command line; the last one wins.\n");
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

   Not collective

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
  RengaCheck(!ferror(file), MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "the options cannot be written");
  return RENGA_SUCCESS;
}
