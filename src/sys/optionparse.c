/* Where options come from: options files, RENGA_OPTIONS, the command line. Problems are collected,
   so that all of them can be shown at once. */
#include "sys.h"
#include "renga/private/number.h"
#include "renga/private/object.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PROBLEMS = 100 };

/* Words of one source, and where it is. */
typedef struct {
  char **words;
  int count, room;
  const char *source;
  bool is_command; /* the command line */
} Words;

typedef struct {
  char *problems; /* lines; NULL where there are none */
  int n_problems;
  MPI_Comm comm;
  int depth;
  int source; /* number of the words that are taken; 0: the program's own values */
} Parser;

/* One option as it was written, and what it means. */
typedef struct {
  char name[RENGA_OPTION_NAME], whole[RENGA_OPTION_NAME]; /* as written; of the option */
  const char *value;                                      /* NULL: none, or a word that follows */
  const RengaOptionRow *row;                              /* NULL: unknown */
} Written;

static RengaErrorCode AddProblem(Parser *parser, const char *format, ...)
{
  char text[1024];
  va_list arguments;
  if (++parser->n_problems > MOST_PROBLEMS + 1) return RENGA_SUCCESS;
  va_start(arguments, format);
  RengaTextFormatList(text, sizeof text, format, arguments);
  va_end(arguments);
  if (parser->n_problems > MOST_PROBLEMS) strcpy(text, "and more");
  size_t used = parser->problems ? strlen(parser->problems) : 0;
  RengaCall(RengaRealloc(used + strlen(text) + 8, &parser->problems));
  sprintf(parser->problems + used, "%s%s", used ? "\n    " : "", text);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddWord(Words *words, const char *begin, size_t length)
{
  if (words->count == words->room) {
    const int room = 2 * words->room + 16;
    RengaCall(RengaRealloc(room, &words->words));
    words->room = room;
  }
  RengaCall(RengaMalloc(length + 1, &words->words[words->count]));
  memcpy(words->words[words->count++], begin, length);
  return RENGA_SUCCESS;
}

static void FreeWords(Words *words)
{
  for (int i = 0; i < words->count; i++) RengaFree(&words->words[i]);
  RengaFree(&words->words);
  words->count = words->room = 0;
}

/* Words are parted by white space; "..." and '...' hold one together; # begins a comment. */
static RengaErrorCode SplitText(Parser *parser, const char *text, Words *words)
{
  for (const char *at = text; *at != '\0';) {
    if (RengaIsSpace(*at)) {
      at++;
    } else if (*at == '#') {
      at += strcspn(at, "\n");
    } else if (*at == '"' || *at == '\'') {
      const char *end = strchr(at + 1, *at);
      if (end == NULL) {
        RengaCall(AddProblem(parser, "%s: a quotation mark is not closed", words->source));
        return RENGA_SUCCESS;
      }
      RengaCall(AddWord(words, at + 1, (size_t)(end - at - 1)));
      at = end + 1;
    } else {
      size_t length = strcspn(at, " \t\r\n\v\f#");
      RengaCall(AddWord(words, at, length));
      at += length;
    }
  }
  return RENGA_SUCCESS;
}

/* -name or --name; not -, -3 or -.5 */
static bool IsOption(const char *word)
{
  if (word[0] != '-') return false;
  if (word[1] == '-') word++;
  return RengaIsLetter(word[1]);
}

static RengaErrorCode ReportUnknownOption(Parser *parser, const char *source, const char *name)
{
  const char *closest = RengaOptionsGetClosest(name);
  if (closest)
    RengaCall(
        AddProblem(parser, "%s: unknown option -%s; did you mean -%s?", source, name, closest));
  else
    RengaCall(AddProblem(parser, "%s: unknown option -%s; -help lists all", source, name));
  return RENGA_SUCCESS;
}

/* What an option alone means: -plan_view is -plan_view ascii. NULL where it needs a value. */
static const char *ImpliedValue(const RengaOptionRow *row)
{
  size_t length = strlen(row->name);
  if (row->kind != RENGA_OPTION_STRING || length < 5) return NULL;
  if (row->value && RengaOptionIsBool(row->value)) return "true"; /* true, false and more */
  return strcmp(row->name + length - 5, "_view") == 0 ? "ascii" : NULL;
}

/* The name in a word, -h being -help, and its row; next: the word that follows, or NULL. */
static void ReadName(const char *word, const char *next, Written *written)
{
  word += word[1] == '-' ? 2 : 1;
  const char *equals = strchr(word, '=');
  written->value = equals ? equals + 1 : NULL;
  snprintf(written->name, RENGA_OPTION_NAME, "%.*s",
           equals ? (int)(equals - word) : (int)strlen(word), word);
  if (strcmp(written->name, "h") == 0) strcpy(written->name, "help");
  written->row = RengaOptionsFindRow(written->name, equals ? equals + 1 : next, written->whole);
}

/* Is the word of the command line the program's own? */
static bool IsLeft(const Words *words, const char *word)
{
  Written written;
  RengaUnknownOptions unknown;
  if (!words->is_command) return false;
  if (!IsOption(word)) return true;
  RengaOptionsGetUnknown(&unknown);
  ReadName(word, NULL, &written);
  return unknown == RENGA_UNKNOWN_IS_LEFT && !written.row;
}

/* Two names of one option in one source have one value, or the user takes them for two options. */
static RengaErrorCode StoreWritten(Parser *parser, const char *source, const Written *written)
{
  char message[RENGA_OPTION_MESSAGE], parsed[sizeof(double)], word[64];
  const RengaOptionValue *earlier = RengaOptionsFindGiven(written->whole);
  const bool other = strcmp(written->name, written->whole) != 0;
  if (!RengaOptionParse(written->row, written->value, parsed, message)) {
    RengaCall(AddProblem(parser, "%s: %s%s%s", source, message, other ? "; it was given as -" : "",
                         other ? written->name : ""));
  } else if (earlier && earlier->source == parser->source &&
             strcmp(earlier->given_as, written->name) != 0 &&
             !RengaOptionSame(written->row, earlier->value, written->value)) {
    RengaCall(AddProblem(parser,
                         "%s: -%s %s and -%s %s are one option with two values: leave one out",
                         source, earlier->given_as, earlier->value, written->name, written->value));
  } else {
    const bool normal = RengaOptionNormalize(written->row, written->value, word);
    RengaCall(RengaOptionsStore(written->whole, normal ? word : written->value, written->name,
                                parser->source));
  }
  return RENGA_SUCCESS;
}

/* Store or, in the first pass, only visit the option at words[i]; used: words that it takes. */
static RengaErrorCode TakeOption(Parser *parser, const Words *words, int i, bool store, char **file,
                                 int *used)
{
  Written written;
  const char *next = i + 1 < words->count ? words->words[i + 1] : NULL;
  ReadName(words->words[i], next && !IsOption(next) ? next : NULL, &written);
  const RengaOptionRow *row = written.row;
  if (written.value) next = NULL;
  *used = 1;
  if (row == NULL) {
    if (store) RengaCall(ReportUnknownOption(parser, words->source, written.name));
    *used += next && !IsOption(next) && !words->is_command;
    return RENGA_SUCCESS;
  }
  if (written.value == NULL && row->kind == RENGA_OPTION_BOOL) {
    written.value = next && RengaOptionIsBool(next) ? next : "true";
    *used += written.value == next;
  } else if (written.value == NULL && next && !IsOption(next)) {
    written.value = next;
    *used = 2;
  } else if (written.value == NULL) {
    written.value = ImpliedValue(row);
  }
  if (!store) {
    if (written.value && strcmp(written.whole, "options_file") == 0)
      RengaCall(RengaStringCopy(written.value, file));
    return RENGA_SUCCESS;
  }
  if (written.value == NULL)
    RengaCall(AddProblem(parser, "%s: -%s needs a value", words->source, written.name));
  else
    RengaCall(StoreWritten(parser, words->source, &written));
  if (written.value && words->is_command && row->kind == RENGA_OPTION_SECRET)
    RengaWarning(parser->comm,
                 "-%s is on the command line, which other users of this machine can list (ps): "
                 "put it into an options file, or see -%s_file",
                 written.name, row->name);
  return RENGA_SUCCESS;
}

/* Rank 0 reads; text is NULL where it could not, and reason says why. */
static RengaErrorCode ReadFile(const char *name, char **text, int *reason)
{
  FILE *file = RengaFileOpen_Private(name, "r");
  RengaErrorCode code = RENGA_SUCCESS;
  char *bytes = NULL;
  size_t length = 0, got = 0;
  *reason = file ? 0 : errno;
  while (file && *reason == 0) {
    code = RengaRealloc(length + 65536, &bytes);
    if (code) break;
    got = fread(bytes + length, 1, 65535, file);
    length += got;
    if (ferror(file)) *reason = errno ? errno : EIO;
    if (got < 65535) break;
  }
  if (file) fclose(file);
  if (bytes && strncmp(bytes, "\xEF\xBB\xBF", 3) == 0) memset(bytes, ' ', 3); /* UTF-8's mark */
  if (bytes && memchr(bytes, '\0', length)) *reason = EILSEQ;
  if (*reason || code) RengaFree(&bytes);
  RengaCall(code);
  *text = bytes;
  return RENGA_SUCCESS;
}

/* The text of a file that rank 0 reads, on all ranks. */
static RengaErrorCode ReadShared(MPI_Comm comm, const char *name, char **text, int *reason)
{
  int rank;
  int64_t head[2] = {0, 0}; /* reason, length */
  RengaErrorCode code = RENGA_SUCCESS;
  *text = NULL;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  if (rank == 0) {
    code = ReadFile(name, text, reason);
    head[0] = *reason;
    head[1] = *text ? (int64_t)strlen(*text) : 0;
  }
  RengaCall(RengaErrorAgree(comm, code));
  RengaCall(RengaBroadcast_Private(comm, head, sizeof head, "rank 0 to read an options file"));
  *reason = (int)head[0];
  if (*reason) return RENGA_SUCCESS;
  if (rank != 0) code = RengaMalloc(head[1] + 1, text);
  code = RengaErrorAgree(comm, code);
  if (!code)
    code = RengaBroadcast_Private(comm, *text, (size_t)head[1], "rank 0 to read an options file");
  if (code) RengaFree(text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeFile(Parser *parser, const char *name);

/* The options files that a source names, in order: they come before the source's own options. */
static RengaErrorCode TakeFilesOf(Parser *parser, const Words *words)
{
  for (int i = 0, used; i < words->count; i += used) {
    char *file = NULL;
    used = 1;
    if (!IsOption(words->words[i])) continue;
    RengaCall(TakeOption(parser, words, i, false, &file, &used));
    const RengaErrorCode code = file ? TakeFile(parser, file) : RENGA_SUCCESS;
    RengaFree(&file);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

/* Store the options of a source; words that are none stay, where the caller keeps them. */
static RengaErrorCode TakeWords(Parser *parser, const Words *words, bool is_option[])
{
  parser->source++;
  for (int i = 0, used; i < words->count; i += used) {
    used = 1;
    if (IsLeft(words, words->words[i])) continue;
    if (IsOption(words->words[i]))
      RengaCall(TakeOption(parser, words, i, true, NULL, &used));
    else
      RengaCall(AddProblem(parser, "%s: %s is no option", words->source, words->words[i]));
    for (int j = 0; j < used && is_option; j++) is_option[i + j] = true;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeFile(Parser *parser, const char *name)
{
  Words words = {.source = name};
  char *text = NULL;
  int reason = 0;
  if (parser->depth >= RENGA_OPTIONS_FILE_DEPTH) {
    RengaCall(AddProblem(parser, "%s: options files name each other in a circle", name));
    return RENGA_SUCCESS;
  }
  RengaErrorCode code = ReadShared(parser->comm, name, &text, &reason);
  parser->depth++;
  if (!code && reason)
    code = AddProblem(parser, "options file %s: %s", name, RengaFileReason_Private(reason));
  else if (!code)
    code = SplitText(parser, text ? text : "", &words);
  code = RengaErrorAgree(parser->comm, code); /* what the file names is read by all */
  if (!code) code = TakeFilesOf(parser, &words);
  if (!code) code = TakeWords(parser, &words, NULL);
  parser->depth--;
  FreeWords(&words);
  RengaFree(&text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Ranks that were given different options would disagree later, and hang. */
static RengaErrorCode CheckSame(MPI_Comm comm, const Words *environment, const Words *command)
{
  uint64_t hash = 0;
  for (int i = 0; i < environment->count; i++)
    hash = RengaHash(environment->words[i], strlen(environment->words[i]) + 1, hash);
  for (int i = 0; i < command->count; i++)
    hash = RengaHash(command->words[i], strlen(command->words[i]) + 1, hash);
  int64_t largest = (int64_t)hash, inverse = (int64_t)~hash;
  RengaCall(
      RengaReduceInt64_Private(comm, MPI_MAX, &largest, "all ranks to compare their options"));
  RengaCall(
      RengaReduceInt64_Private(comm, MPI_MAX, &inverse, "all ranks to compare their options"));
  RengaCheck(largest == ~inverse, comm, RENGA_ERR_OPTION,
             "ranks were started with different command lines or RENGA_OPTIONS");
  return RENGA_SUCCESS;
}

/* A value that the program set before RengaInitialize could not be checked then; one under another
   name than the option's is moved. */
static RengaErrorCode CheckEarlierValue(Parser *parser, const char *name, const char *value)
{
  Written written = {.value = value};
  snprintf(written.name, sizeof written.name, "%s", name);
  written.row = RengaOptionsFindRow(name, value, written.whole);
  if (written.row == NULL) {
    RengaCall(ReportUnknownOption(parser, "RengaOptionsSetValue", name));
    return RENGA_SUCCESS;
  }
  if (strcmp(written.whole, name) != 0) RengaCall(RengaOptionsClearValue(name));
  return StoreWritten(parser, "RengaOptionsSetValue", &written);
}

static RengaErrorCode CheckEarlierValues(Parser *parser)
{
  const RengaOptionValue *values;
  for (int i = 0; i < RengaOptionsGetValues(&values);) {
    char *name = NULL, *value = NULL;
    RengaErrorCode code = RengaStringCopy(values[i].name, &name);
    if (!code) code = RengaStringCopy(values[i].value, &value);
    if (!code) code = CheckEarlierValue(parser, name, value);
    const bool moved =
        !code && (i >= RengaOptionsGetValues(&values) || strcmp(values[i].name, name) != 0);
    RengaFree(&name);
    RengaFree(&value);
    RengaCall(code);
    i += !moved;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeAll(Parser *parser, const Words *environment, const Words *command,
                              bool is_option[])
{
  RengaCall(CheckEarlierValues(parser));
  const char *file = RengaOptionsFindValue(NULL, "options_file");
  if (file) {
    char *copy;
    RengaCall(RengaStringCopy(file, &copy));
    const RengaErrorCode code = TakeFile(parser, copy);
    RengaFree(&copy);
    RengaCall(code);
  }
  RengaCall(TakeFilesOf(parser, environment));
  RengaCall(TakeFilesOf(parser, command));
  RengaCall(TakeWords(parser, environment, NULL));
  RengaCall(TakeWords(parser, command, is_option));
  return RENGA_SUCCESS;
}

/* problems: what is wrong, a line each, or NULL. argv keeps the words that are no options. */
RengaErrorCode RengaOptionsParse(MPI_Comm comm, int *argc, char ***argv, char **problems)
{
  Parser parser = {.comm = comm};
  Words environment = {.source = "RENGA_OPTIONS"},
        command = {.source = "command line", .is_command = true};
  const char *variable = getenv("RENGA_OPTIONS");
  bool *is_option = NULL;
  int last = argc ? *argc : 0, kept = 1;
  RengaErrorCode code = SplitText(&parser, variable ? variable : "", &environment);
  for (int i = 1; i < last && !code; i++) code = AddWord(&command, (*argv)[i], strlen((*argv)[i]));
  if (!code) code = RengaMalloc(last + 1, &is_option);
  code = RengaErrorAgree(comm, code);
  if (!code) code = CheckSame(comm, &environment, &command);
  RengaOptionsSetTeller(comm);
  if (!code) code = TakeAll(&parser, &environment, &command, is_option);
  RengaOptionsTell();
  const bool good = !code && !parser.problems;
  for (int i = 1; i < last && good; i++)
    if (!is_option[i - 1]) (*argv)[kept++] = (*argv)[i];
  if (last > 0 && good) {
    (*argv)[kept] = NULL;
    *argc = kept;
  }
  RengaFree(&is_option);
  FreeWords(&environment);
  FreeWords(&command);
  if (code) RengaFree(&parser.problems);
  RengaCall(code);
  *problems = parser.problems;
  return RENGA_SUCCESS;
}

/* The value of a row from one word of a file. */
static RengaErrorCode TakeTableValue(Parser *parser, const Words *words, int i, int count,
                                     const RengaOptionRow rows[], void *base, bool given[])
{
  enum { MOST = 64 };
  const char *names[MOST], *name = words->words[i] + 1 + (words->words[i][1] == '-');
  char message[RENGA_OPTION_MESSAGE], parsed[sizeof(double)];
  for (int r = 0; r < count && r < MOST; r++) names[r] = rows[r].name;
  for (int r = 0; r < count; r++) {
    if (strcmp(rows[r].name, name) != 0) continue;
    if (i + 1 >= words->count || IsOption(words->words[i + 1])) {
      RengaCall(AddProblem(parser, "%s: -%s needs a value", words->source, name));
    } else if (given[r]) {
      RengaCall(AddProblem(parser, "%s: -%s is there twice", words->source, name));
    } else if (!RengaOptionParse(&rows[r], words->words[i + 1], parsed, message)) {
      RengaCall(AddProblem(parser, "%s: %s", words->source, message));
    } else {
      RengaCall(RengaOptionsPlace(&rows[r], words->words[i + 1], base));
    }
    given[r] = true;
    return RENGA_SUCCESS;
  }
  const char *closest = RengaClosestName(name, count < MOST ? count : MOST, names);
  RengaCall(AddProblem(parser, "%s: unknown key -%s%s%s%s", words->source, name,
                       closest ? "; did you mean -" : "", closest ? closest : "",
                       closest ? "?" : ""));
  return RENGA_SUCCESS;
}

/* Words from one to before another. */
static RengaErrorCode TakeTableWords(Parser *parser, const Words *words, int from,
                                     const RengaOptionTable *table, void *base, bool given[])
{
  memset(given, 0, (size_t)table->count * sizeof *given);
  for (int i = from; i < words->count; i++) {
    if (!IsOption(words->words[i])) {
      RengaCall(AddProblem(parser, "%s: \"%s\" belongs to no key", words->source, words->words[i]));
      continue;
    }
    RengaCall(TakeTableValue(parser, words, i, table->count, table->rows, base, given));
    if (i + 1 < words->count && !IsOption(words->words[i + 1])) i++;
  }
  return RENGA_SUCCESS;
}

/* before: NULL, or what was given to all sections before the first. */
static RengaErrorCode FindMissingKeys(Parser *parser, const char *source,
                                      const RengaOptionTable *table, const bool given[],
                                      const bool before[])
{
  for (int r = 0; r < table->count; r++) {
    const RengaOptionRow *row = &table->rows[r];
    const bool own = r >= table->shared && r < table->shared + table->own;
    if (row->value == NULL && !given[r] && !(before && before[r] && !own) &&
        !RengaOptionIsText(row->kind))
      RengaCall(AddProblem(parser, "%s: -%s is missing: %s", source, row->name, row->help));
    if (before && given[r] && r < table->shared)
      RengaCall(AddProblem(parser, "%s: -%s holds for all sections: write it before the first -%s",
                           source, row->name, table->key));
  }
  return RENGA_SUCCESS;
}

/* A section has what was given before the first one, but for rows that are its own. */
static RengaErrorCode TakeSection(Parser *parser, const Words *before, const Words *words, int from,
                                  const RengaOptionTable *table, void *base)
{
  bool *given = NULL, *first;
  char source[512];
  Words section = *words;
  snprintf(source, sizeof source, "%s, -%s %s", words->source, table->key, words->words[from + 1]);
  section.source = source;
  RengaCall(RengaMalloc(2 * table->count + 1, &given));
  first = given + table->count;
  RengaErrorCode code = RengaOptionsSetDefaults(table->count, table->rows, base);
  if (!code) code = TakeTableWords(parser, before, 0, table, base, first);
  for (int r = table->shared; r < table->shared + table->own && !code; r++)
    code = RengaOptionsPlace(&table->rows[r], table->rows[r].value, base);
  if (!code) code = TakeTableWords(parser, &section, from, table, base, given);
  if (!code) code = FindMissingKeys(parser, source, table, given, first);
  RengaFree(&given);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The next word that begins a section and says which, or the end. */
static int NextSection(const Words *words, int from, const char *key)
{
  for (; key && from + 1 < words->count; from++)
    if (IsOption(words->words[from]) && !IsOption(words->words[from + 1]) &&
        strcmp(words->words[from] + 1 + (words->words[from][1] == '-'), key) == 0)
      return from;
  return words->count;
}

static RengaErrorCode TakeTable(Parser *parser, const Words *words, const RengaOptionTable *table,
                                void *base, int *n_sections)
{
  Words before = *words;
  bool *given = NULL;
  int begin = before.count = NextSection(words, 0, table->key);
  RengaCall(RengaMalloc(table->count + 1, &given));
  RengaErrorCode code = TakeTableWords(parser, &before, 0, table, base, given);
  if (!code && begin == words->count)
    code = FindMissingKeys(parser, words->source, table, given, NULL);
  RengaFree(&given);
  RengaCall(code);
  for (*n_sections = 0; begin < words->count && !parser->problems; ++*n_sections) {
    Words section = *words;
    section.count = NextSection(words, begin + 1, table->key);
    if (*n_sections == table->most) {
      RengaCall(
          AddProblem(parser, "%s: more than %d of -%s", words->source, table->most, table->key));
      break;
    }
    RengaCall(TakeSection(parser, &before, &section, begin, table,
                          (char *)base + (size_t)(*n_sections + 1) * table->size));
    begin = section.count;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptionsReadSections_Private(MPI_Comm comm, const char *file,
                                                const RengaOptionTable *table, void *base,
                                                int *n_sections)
{
  Parser parser = {.comm = comm};
  Words words = {.source = file};
  char *text = NULL;
  int reason = 0;
  *n_sections = 0;
  RengaCall(ReadShared(comm, file, &text, &reason));
  RengaCheck(reason == 0, comm, RENGA_ERR_FILE_OPEN, "%s: %s", file,
             RengaFileReason_Private(reason));
  RengaErrorCode code = RengaOptionsSetDefaults(table->count, table->rows, base);
  if (!code) code = SplitText(&parser, text ? text : "", &words);
  if (!code) code = TakeTable(&parser, &words, table, base, n_sections);
  code = RengaErrorAgree(comm, code);
  FreeWords(&words);
  RengaFree(&text);
  if (!code && parser.problems)
    code = RengaErrorRaise(comm, RENGA_ERR_FILE_FORMAT, __func__, __FILE__, __LINE__, "%s",
                           parser.problems);
  RengaFree(&parser.problems);
  return code;
}

/*@
   RengaOptionsReadTable - read a file in the form of an options file against a table of its own

   Collective

   Input:
   . comm - rank 0 reads
   . file - its name
   . count, rows - the keys there are; one whose default is NULL, and which is no string, must be
     in the file

   Output:
   . base - the struct of the rows' offsets, defaults included; free its strings with
     RengaOptionsFreeStrings

   Errors: RENGA_ERR_FILE_OPEN where the file cannot be read; RENGA_ERR_FILE_FORMAT, with all
   that is wrong in it.

   Notes: an unknown key, one that is there twice, a bad value and a missing one are errors on all
   ranks; all of them are named at once.

   See also: RengaOptionsFreeStrings(), RengaOptionsRegister()
@*/
RengaErrorCode RengaOptionsReadTable(MPI_Comm comm, const char *file, int count,
                                     const RengaOptionRow rows[], void *base)
{
  const RengaOptionTable table = {.count = count, .rows = rows};
  int sections;
  RengaCheckPointers(file, base);
  RengaCall(RengaOptionsReadSections_Private(comm, file, &table, base, &sections));
  return RENGA_SUCCESS;
}
