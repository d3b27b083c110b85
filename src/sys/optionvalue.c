/* The text of an option's value to the value, checked against the row of its table. */
#include "sys.h"
#include "renga/private/choice.h"
#include "renga/private/number.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *text;
  bool value;
} bool_texts[] = {{"true", true},   {"yes", true}, {"on", true},   {"1", true},
                  {"false", false}, {"no", false}, {"off", false}, {"0", false}};

static bool ParseBool(const char *text, bool *value)
{
  for (size_t i = 0; i < sizeof bool_texts / sizeof bool_texts[0]; i++)
    if (RengaIsSameWord(text, bool_texts[i].text)) {
      *value = bool_texts[i].value;
      return true;
    }
  return false;
}

bool RengaOptionIsBool(const char *text)
{
  bool value;
  return ParseBool(text, &value);
}

static bool ParseInt64(const char *text, int64_t *value)
{
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0) return false;
  *value = number;
  return true;
}

static bool ParseReal(const char *text, double *value)
{
  char *end;
  errno = 0;
  double number = RengaReadReal(text, &end);
  if (end == text || *end != '\0' || isnan(number) || (errno == ERANGE && isinf(number)))
    return false;
  *value = number;
  return true;
}

static const struct {
  const char *unit;
  double bytes;
} units[] = {{"", 1},       {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
             {"TB", 1e12},  {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
             {"K", 0x1p10}, {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40}};

static bool ParseByteText(const char *text, int64_t *bytes)
{
  char *end;
  double number = RengaReadReal(text, &end);
  if (end == text || !(number >= 0)) return false;
  while (*end == ' ') end++;
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (RengaIsSameWord(end, units[i].unit)) {
      if (number * units[i].bytes >= 0x1p63) return false;
      *bytes = (int64_t)(number * units[i].bytes);
      return true;
    }
  return false;
}

/*@
   RengaParseBytes - a size in bytes from text

   Input:
   . text - a number, with a unit or without: 1024, 512MB (decimal), 8GiB, 8G (binary)

   Output:
   . bytes - the size in bytes, at least 0

   Errors: RENGA_ERR_ARGUMENT for a text that is no number of bytes.

   See also: RengaFormatBytes()
@*/
RengaErrorCode RengaParseBytes(const char *text, int64_t *bytes)
{
  RengaCheck(text && ParseByteText(text, bytes), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s is not a size in bytes; write 1024, 512MB or 8GiB", text ? text : "nothing");
  return RENGA_SUCCESS;
}

/* Is a text one of the words of a choice, which stand with = between them? */
static bool IsChoice(const char *text, const char *choice, size_t own)
{
  const size_t length = strlen(text);
  for (const char *at = choice, *end = choice + own; at < end;) {
    const size_t word = strcspn(at, "|=");
    const bool open = word > 0 && at[word - 1] == ':';
    if (word > 0 && strncmp(at, text, word) == 0 && (open ? length > word : length == word))
      return true;
    at += word + 1;
  }
  return false;
}

int RengaFindChoice_Private(const char *text, const char *choices)
{
  int number = 0;
  for (const char *at = choices; at; at = strchr(at, '|'), at = at ? at + 1 : NULL, number++)
    if (IsChoice(text, at, strcspn(at, "|"))) return number;
  return -1;
}

bool RengaOptionNormalize(const RengaOptionRow *row, const char *text, char word[64])
{
  const char *at = row->kind == RENGA_OPTION_ENUM ? row->choices : NULL;
  while (at && !IsChoice(text, at, strcspn(at, "|"))) {
    at = strchr(at, '|');
    at = at ? at + 1 : NULL;
  }
  if (at) snprintf(word, 64, "%.*s", (int)strcspn(at, "|="), at);
  return at != NULL;
}

bool RengaOptionSame(const RengaOptionRow *row, const char *a, const char *b)
{
  char message[RENGA_OPTION_MESSAGE], first[sizeof(double)] = "", second[sizeof(double)] = "";
  if (strcmp(a, b) == 0) return true;
  return !RengaOptionIsText(row->kind) && RengaOptionParse(row, a, first, message) &&
         RengaOptionParse(row, b, second, message) &&
         memcmp(first, second, RengaOptionSize(row->kind)) == 0;
}

/* Behind the message: the choice that was probably meant. */
static void AddClosest(const char *text, const char *choices, char message[RENGA_OPTION_MESSAGE])
{
  enum { MOST = 32 };
  char copy[RENGA_OPTION_MESSAGE], *place;
  const char *names[MOST], *closest;
  const size_t used = strlen(message);
  int count = 0;
  snprintf(copy, sizeof copy, "%s", choices);
  for (char *word = strtok_r(copy, "|=", &place); word && count < MOST;
       word = strtok_r(NULL, "|=", &place))
    names[count++] = word;
  closest = RengaClosestName(text, count, names);
  if (closest && closest[1])
    snprintf(message + used, RENGA_OPTION_MESSAGE - used, "; did you mean %s?", closest);
}

typedef union {
  bool boolean;
  int integer;
  int64_t whole;
  double real;
  const char *string;
} Value;

static const struct {
  size_t size;
  const char *wanted;
} kinds[] = {
    [RENGA_OPTION_BOOL] = {sizeof(bool), "true or false"},
    [RENGA_OPTION_INT] = {sizeof(int), "a whole number"},
    [RENGA_OPTION_INT64] = {sizeof(int64_t), "a whole number"},
    [RENGA_OPTION_REAL] = {sizeof(double), "a number"},
    [RENGA_OPTION_BYTES] = {sizeof(int64_t), "a size in bytes such as 1024, 512MB or 8GiB"},
    [RENGA_OPTION_STRING] = {sizeof(char *), "text"},
    [RENGA_OPTION_SECRET] = {sizeof(char *), "text"},
    [RENGA_OPTION_ENUM] = {sizeof(int), "text"},
};

bool RengaOptionIsText(RengaOptionKind kind)
{
  return kind == RENGA_OPTION_STRING || kind == RENGA_OPTION_SECRET;
}

bool RengaOptionIsNumber(RengaOptionKind kind)
{
  return kind >= RENGA_OPTION_INT && kind <= RENGA_OPTION_BYTES;
}

size_t RengaOptionSize(RengaOptionKind kind)
{
  return kinds[kind].size;
}

/* The value by its kind, and as a number for the range. */
static bool ParseKind(RengaOptionKind kind, const char *text, Value *value, double *number)
{
  bool good = true;
  *number = 0;
  switch (kind) {
  case RENGA_OPTION_BOOL:
    return ParseBool(text, &value->boolean);
  case RENGA_OPTION_STRING:
  case RENGA_OPTION_SECRET:
  case RENGA_OPTION_ENUM: /* the choice is found below */
    value->string = text;
    return true;
  case RENGA_OPTION_REAL:
    good = ParseReal(text, &value->real);
    break;
  case RENGA_OPTION_BYTES:
    good = ParseByteText(text, &value->whole);
    break;
  case RENGA_OPTION_INT:
  case RENGA_OPTION_INT64:
    good = ParseInt64(text, &value->whole);
    break;
  }
  if (!good) return false;
  *number = kind == RENGA_OPTION_REAL ? value->real : (double)value->whole;
  if (kind == RENGA_OPTION_INT) {
    int64_t whole = value->whole;
    value->integer = (int)whole;
    return value->integer == whole;
  }
  return true;
}

bool RengaOptionHasRange(const RengaOptionRow *row)
{
  const bool one = !(row->low < row->high) && !(row->low > row->high) && row->low > 0;
  return RengaOptionIsNumber(row->kind) && (row->low < row->high || one);
}

static void DescribeRange(const RengaOptionRow *row, char text[96])
{
  if (!(row->low < row->high)) {
    RengaTextFormat(text, 96, "%g, as no other is supported", row->low);
    return;
  }
  if (isinf(row->high) || row->high >= 1e300)
    RengaTextFormat(text, 96, "at least %g", row->low);
  else if (isinf(row->low) || row->low <= -1e300)
    RengaTextFormat(text, 96, "at most %g", row->high);
  else
    RengaTextFormat(text, 96, "from %.10g to %.10g", row->low, row->high);
}

bool RengaOptionParse(const RengaOptionRow *row, const char *text, void *destination,
                      char message[RENGA_OPTION_MESSAGE])
{
  Value value = {.whole = 0};
  double number;
  if (text == NULL && RengaOptionIsText(row->kind)) {
    memset(destination, 0, sizeof(char *));
    return true;
  }
  if (text == NULL) text = "";
  if (!ParseKind(row->kind, text, &value, &number)) {
    snprintf(message, RENGA_OPTION_MESSAGE, "-%s %s: not %s", row->name, text,
             kinds[row->kind].wanted);
    return false;
  }
  const bool chosen = row->kind == RENGA_OPTION_STRING || row->kind == RENGA_OPTION_ENUM;
  const int choice = chosen && row->choices ? RengaFindChoice_Private(text, row->choices) : 0;
  if (choice < 0 && !RengaTypeIsChoice(row->name, text)) {
    snprintf(message, RENGA_OPTION_MESSAGE, "-%s %s: not one of %s", row->name, text, row->choices);
    RengaTypeFormatChoices(row->name, RENGA_OPTION_MESSAGE, message);
    AddClosest(text, row->choices, message);
    return false;
  }
  if (row->kind == RENGA_OPTION_ENUM) value.integer = (int)row->low + choice;
  if (RengaOptionHasRange(row) && !(number >= row->low && number <= row->high)) {
    char range[96];
    DescribeRange(row, range);
    snprintf(message, RENGA_OPTION_MESSAGE, "-%s %s: must be %s", row->name, text, range);
    return false;
  }
  memcpy(destination, &value, kinds[row->kind].size);
  return true;
}
