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
  if (row->value) fprintf(file, "; default %s", row->value);
  fputc('\n', file);
}

void RengaOptionsHelp(FILE *file, const char help[])
{
  const RengaOptionSection *sections;
  int count = RengaOptionsGetSections(&sections);
  if (help) fprintf(file, "%s%s", help, help[0] && help[strlen(help) - 1] == '\n' ? "" : "\n");
  fprintf(file,
          "\nOptions are -name value, from -options_file FILE, then the variable RENGA_OPTIONS,\n"
          "then the command line; the last one wins.\n");
  for (int i = 0; i < count; i++) {
    fprintf(file, "\n%s\n", sections[i].section);
    for (int j = 0; j < sections[i].count; j++) PrintRow(file, &sections[i].rows[j]);
  }
}
