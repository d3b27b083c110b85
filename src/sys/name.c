/* The closest of some names to a misspelt one, by edit distance. */
#include "sys.h"
#include <string.h>

enum { LONGEST = 127 };

static int SmallerInt(int a, int b)
{
  return a < b ? a : b;
}

/* Insertions, deletions, changes and exchanges of neighbours (optimal string alignment). */
static int Distance(const char *a, const char *b)
{
  int rows[3][LONGEST + 1];
  int n = SmallerInt((int)strlen(a), LONGEST), m = SmallerInt((int)strlen(b), LONGEST);
  int *before = rows[0], *last = rows[1], *now = rows[2];
  for (int j = 0; j <= m; j++) last[j] = j;
  for (int i = 1; i <= n; i++) {
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      int change = last[j - 1] + (a[i - 1] != b[j - 1]);
      now[j] = SmallerInt(change, SmallerInt(last[j], now[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = SmallerInt(now[j], before[j - 2] + 1);
    }
    int *spare = before;
    before = last;
    last = now;
    now = spare;
  }
  return last[m];
}

/* partition_data and layout_data: all but the first word is the same. */
static bool SharesLastWords(const char *a, const char *b)
{
  const char *x = strchr(a, '_'), *y = strchr(b, '_');
  return x && y && strcmp(x, y) == 0;
}

/*@
   RengaClosestName - the name that was probably meant

   Input:
   . name - the name, as it was typed
   . count, names - the names there are

   Errors: none; NULL where no name is close.

   Notes: one of names, or NULL where none is close.

   See also: RengaOptionsSetValue()
@*/
const char *RengaClosestName(const char *name, int count, const char *const names[])
{
  const char *closest = NULL;
  int length = (int)strlen(name), least = length / 3 > 2 ? length / 3 : 2;
  for (int i = 0; i < count; i++) {
    int distance = Distance(name, names[i]);
    bool extends = length >= 4 && strstr(names[i], name) != NULL;
    if (SharesLastWords(name, names[i])) distance -= 2 + (name[0] == names[i][0]);
    if (extends) distance = SmallerInt(distance, least);
    if (distance > least || (closest && distance == least)) continue;
    least = distance;
    closest = names[i];
  }
  return closest;
}
