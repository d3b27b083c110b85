/* The options database: the rows that exist, and the values that were given; a value given later
   replaces an earlier one. */
#include "sys.h"
#include "renga/private/choice.h"
#include <string.h>

static struct {
  RengaOptionSection *sections;
  RengaOptionValue *values;
  char **prefixes;
  int n_sections, n_values, n_prefixes;
  RengaOptionValue *before; /* the values before RengaInitialize, for one that fails */
  int n_before, sections_before;
  bool ready;      /* the command line has been read */
  MPI_Comm teller; /* whose rank 0 tells of old names, where there is one */
  bool tells;
  bool met[RENGA_OPTION_NAMES]; /* old names, until a line has told their new ones */
  RengaUnknownOptions unknown;
} database;

static RengaErrorCode CopyValues(int count, const RengaOptionValue from[], RengaOptionValue to[])
{
  for (int i = 0; i < count; i++) {
    RengaCall(RengaStringCopy(from[i].name, &to[i].name));
    RengaCall(RengaStringCopy(from[i].value, &to[i].value));
    RengaCall(RengaStringCopy(from[i].given_as, &to[i].given_as));
    to[i].source = from[i].source;
  }
  return RENGA_SUCCESS;
}

static void FreeValues(int *count, RengaOptionValue **values)
{
  for (int i = 0; i < *count; i++) {
    RengaFree(&(*values)[i].name);
    RengaFree(&(*values)[i].value);
    RengaFree(&(*values)[i].given_as);
  }
  RengaFree(values);
  *count = 0;
}

RengaErrorCode RengaOptionsBegin(void)
{
  RengaCall(RengaMalloc(database.n_values, &database.before));
  database.n_before = database.n_values;
  database.sections_before = database.n_sections;
  RengaCall(CopyValues(database.n_values, database.values, database.before));
  return RENGA_SUCCESS;
}

void RengaOptionsEnd(bool good)
{
  database.ready = good;
  if (!good) {
    FreeValues(&database.n_values, &database.values);
    database.values = database.before;
    database.n_values = database.n_before;
    database.n_sections = database.sections_before;
    database.before = NULL;
    database.n_before = 0;
  }
  FreeValues(&database.n_before, &database.before);
}

/*@
   RengaOptionsSetUnknown - what to do with words of the command line that look like options, and
   are none of Renga's

   Not collective (the same on all ranks)

   Input:
   . unknown - RENGA_UNKNOWN_IS_ERROR, as at the start, or RENGA_UNKNOWN_IS_LEFT: they stay in argv,
     with what follows them

   Errors: RENGA_ERR_ORDER after RengaInitialize; RENGA_ERR_ARGUMENT for a choice that there is
   not.

   Notes: before RengaInitialize, until RengaFinalize. In options files and in the variable
   RENGA_OPTIONS they are errors always.

   See also: RengaOptionsGetUnknown(), RengaInitialize()
@*/
RengaErrorCode RengaOptionsSetUnknown(RengaUnknownOptions unknown)
{
  RengaCheck(!database.ready, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaOptionsSetUnknown comes before RengaInitialize");
  RengaCheck(unknown == RENGA_UNKNOWN_IS_ERROR || unknown == RENGA_UNKNOWN_IS_LEFT, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT,
             "RengaOptionsSetUnknown: %d is not one of RENGA_UNKNOWN_IS_ERROR, "
             "RENGA_UNKNOWN_IS_LEFT",
             (int)unknown);
  database.unknown = unknown;
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsGetUnknown - what RengaOptionsSetUnknown was told

   Output:
   . unknown - the treatment of unknown options
@*/
RengaErrorCode RengaOptionsGetUnknown(RengaUnknownOptions *unknown)
{
  *unknown = database.unknown;
  return RENGA_SUCCESS;
}

int RengaOptionsGetSections(const RengaOptionSection **sections)
{
  *sections = database.sections;
  return database.n_sections;
}

int RengaOptionsGetValues(const RengaOptionValue **values)
{
  *values = database.values;
  return database.n_values;
}

static const RengaOptionRow *FindExact(const char *name)
{
  for (int i = 0; i < database.n_sections; i++)
    for (int j = 0; j < database.sections[i].count; j++)
      if (strcmp(database.sections[i].rows[j].name, name) == 0)
        return &database.sections[i].rows[j];
  return NULL;
}

/* The option of this name behind a prefix of `length` letters, or that of which it is another name:
   of several the first that takes the text, else the first. */
static const RengaOptionRow *FindBehindPrefix(const char *name, size_t length, const char *text,
                                              char whole[RENGA_OPTION_NAME])
{
  char value[sizeof(double)], message[RENGA_OPTION_MESSAGE];
  const RengaOptionName *found = NULL, *other = NULL;
  const RengaOptionRow *row = FindExact(name + length), *fits = NULL;
  snprintf(whole, RENGA_OPTION_NAME, "%s", name);
  while (!row && !fits && (other = RengaOptionNextName(name + length, other)) != NULL) {
    const RengaOptionRow *meant = FindExact(other->option);
    if (!meant) continue;
    if (!text || RengaOptionParse(meant, text, value, message)) fits = meant;
    if (!found || fits) found = other;
  }
  if (found) {
    row = FindExact(found->option);
    snprintf(whole, RENGA_OPTION_NAME, "%.*s%s", (int)length, name, found->option);
    if (found->old) database.met[RengaOptionNameNumber(found)] = true;
  }
  return row;
}

const RengaOptionRow *RengaOptionsFindRow(const char *name, const char *text,
                                          char whole[RENGA_OPTION_NAME])
{
  const RengaOptionRow *row = FindBehindPrefix(name, 0, text, whole);
  for (int i = 0; i < database.n_prefixes && row == NULL; i++) {
    size_t length = strlen(database.prefixes[i]);
    if (strncmp(name, database.prefixes[i], length) == 0)
      row = FindBehindPrefix(name, length, text, whole);
  }
  return row;
}

void RengaOptionsSetTeller(MPI_Comm comm)
{
  database.teller = comm;
  database.tells = true;
}

void RengaOptionsTell(void)
{
  if (database.tells) RengaOptionsTellOld(database.teller, database.met);
}

const char *RengaOptionsGetClosest(const char *name)
{
  enum { MOST = 1024 };
  const char *names[MOST], *closest;
  int count = 0;
  for (int i = 0; i < database.n_sections; i++)
    for (int j = 0; j < database.sections[i].count && count < MOST; j++)
      names[count++] = database.sections[i].rows[j].name;
  for (const RengaOptionName *other = NULL;
       (other = RengaOptionNextName(NULL, other)) != NULL && count < MOST;)
    names[count++] = other->name;
  closest = RengaClosestName(name, count, names);
  const RengaOptionName *other = closest ? RengaOptionNextName(closest, NULL) : NULL;
  return other && !FindExact(closest) ? other->option : closest;
}

static RengaErrorCode CheckRow(const RengaOptionRow *row)
{
  char value[sizeof(double)], message[RENGA_OPTION_MESSAGE];
  RengaCheck(FindExact(row->name) == NULL, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "option -%s is registered twice", row->name);
  RengaCheck(row->help != NULL, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "option -%s has no help",
             row->name);
  bool good = row->value == NULL || RengaOptionParse(row, row->value, value, message);
  RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "default of an option: %s", message);
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsRegister - make rows of options known

   Input:
   . section - title in -help
   . count, rows - kept, not copied: a static table

   Errors: RENGA_ERR_ORDER after RengaInitialize; RENGA_ERR_INTERNAL for a row that is there
   twice, has no help or a bad default.

   Notes: before RengaInitialize, which checks the command line against all rows.

   See also: RengaOptionsAddPrefix(), RengaOptionsSetDefaults()
@*/
RengaErrorCode RengaOptionsRegister(const char *section, int count, const RengaOptionRow rows[])
{
  RengaCheck(!database.ready, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "options of %s: register them before RengaInitialize", section);
  for (int i = 0; i < count; i++) RengaCall(CheckRow(&rows[i]));
  RengaCall(RengaRealloc(database.n_sections + 1, &database.sections));
  database.sections[database.n_sections++] = (RengaOptionSection){section, count, rows};
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsAddPrefix - every option is then also known as -PREFIXname

   Input:
   . prefix - copied; for instance "teacher_"

   Errors: RENGA_ERR_ARGUMENT for an empty prefix.

   Notes: before RengaInitialize, so that the command line may use it. An object takes the values
   with its prefix (RengaObjectSetOptionsPrefix), and those without where there is none.

   See also: RengaObjectSetOptionsPrefix(), RengaOptionsRegister()
@*/
RengaErrorCode RengaOptionsAddPrefix(const char *prefix)
{
  RengaCheck(prefix && prefix[0], MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "an options prefix is empty");
  for (int i = 0; i < database.n_prefixes; i++)
    if (strcmp(database.prefixes[i], prefix) == 0) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(database.n_prefixes + 1, &database.prefixes));
  RengaCall(RengaStringCopy(prefix, &database.prefixes[database.n_prefixes]));
  database.n_prefixes++;
  return RENGA_SUCCESS;
}

static RengaOptionValue *FindValue(const char *name)
{
  for (int i = 0; i < database.n_values; i++)
    if (strcmp(database.values[i].name, name) == 0) return &database.values[i];
  return NULL;
}

const RengaOptionValue *RengaOptionsFindGiven(const char *name)
{
  return FindValue(name);
}

static const char *GetValue(const char *name)
{
  RengaOptionValue *value = FindValue(name);
  return value ? value->value : NULL;
}

const char *RengaOptionsFindValue(const char *prefix, const char *name)
{
  char whole[256];
  const char *value = NULL;
  if (prefix && prefix[0]) {
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    value = GetValue(whole);
  }
  return value ? value : GetValue(name);
}

RengaErrorCode RengaOptionsStore(const char *name, const char *text, const char *given_as,
                                 int source)
{
  RengaOptionValue *value = FindValue(name);
  char *copy, *written;
  if (value == NULL) {
    RengaCall(RengaRealloc(database.n_values + 1, &database.values));
    value = &database.values[database.n_values];
    RengaCall(RengaStringCopy(name, &value->name));
    database.n_values++;
  }
  RengaCall(RengaStringCopy(text, &copy));
  RengaFree(&value->value);
  value->value = copy;
  RengaCall(RengaStringCopy(given_as, &written));
  RengaFree(&value->given_as);
  value->given_as = written;
  value->source = source;
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsSetValue - give an option from the program

   Not collective (the same on all ranks)

   Input:
   . name - the option's name, with or without the dash
   . value - text; NULL is "true"

   Errors: RENGA_ERR_OPTION for a name that is in no table, or a value that its row does not
   allow.

   Notes: before RengaInitialize it is a default that the options file, the environment and the
   command line overrule; after, it overrules them.

   See also: RengaOptionsClearValue(), RengaOptionsGetString()
@*/
RengaErrorCode RengaOptionsSetValue(const char *name, const char *value)
{
  char whole[RENGA_OPTION_NAME], word[64];
  RengaCheck(name && name[0], MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "an option without a name");
  if (name[0] == '-') name++;
  if (value == NULL) value = "true";
  if (database.ready) {
    char parsed[sizeof(double)], message[RENGA_OPTION_MESSAGE];
    const RengaOptionRow *row = RengaOptionsFindRow(name, value, whole);
    const char *closest = row ? NULL : RengaOptionsGetClosest(name);
    RengaOptionsTell();
    RengaCheck(row != NULL, MPI_COMM_SELF, RENGA_ERR_OPTION, "unknown option -%s%s%s%s", name,
               closest ? "; did you mean -" : "", closest ? closest : "", closest ? "?" : "");
    RengaCheck(RengaOptionParse(row, value, parsed, message), MPI_COMM_SELF, RENGA_ERR_OPTION, "%s",
               message);
    if (RengaOptionNormalize(row, value, word)) value = word;
    RengaCall(RengaOptionsStore(whole, value, name, 0));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOptionsStore(name, value, name, 0));
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsClearValue - forget what was given for an option: its default counts again

   Not collective (the same on all ranks)

   Input:
   . name - the option's name, with or without the dash

   Errors: RENGA_ERR_ARGUMENT for an option without a name.

   Notes: objects that have taken the value keep it. With RengaOptionsSetValue a program gives an
   option to one object alone: set, RengaClassSetFromOptions, clear.

   See also: RengaOptionsSetValue()
@*/
RengaErrorCode RengaOptionsClearValue(const char *name)
{
  char whole[RENGA_OPTION_NAME];
  RengaCheck(name && name[0], MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "an option without a name");
  if (name[0] == '-') name++;
  RengaOptionValue *value = FindValue(name);
  if (value == NULL && RengaOptionsFindRow(name, NULL, whole)) value = FindValue(whole);
  if (value == NULL) return RENGA_SUCCESS;
  RengaFree(&value->name);
  RengaFree(&value->value);
  RengaFree(&value->given_as);
  RengaOptionValue *last = &database.values[--database.n_values];
  memmove(value, value + 1, (size_t)((const char *)last - (const char *)value));
  *last = (RengaOptionValue){0}; /* the next one that is stored frees what is here */
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsView - write what was given as an options file

   Input:
   . file - open for writing

   Notes: of a secret (RENGA_OPTION_SECRET) a comment says that it is given.

   See also: RengaOptionsWriteAll()
@*/
RengaErrorCode RengaOptionsView(FILE *file)
{
  char whole[RENGA_OPTION_NAME];
  for (int i = 0; i < database.n_values; i++) {
    const RengaOptionRow *row = RengaOptionsFindRow(database.values[i].name, NULL, whole);
    const char *text = database.values[i].value;
    bool quoted = text[0] == '\0' || strpbrk(text, " \t#\"") != NULL;
    const char *quote = quoted ? "\"" : "";
    if (row && row->kind == RENGA_OPTION_SECRET)
      fprintf(file, "# -%s is given, and not shown\n", database.values[i].name);
    else
      fprintf(file, "-%s %s%s%s\n", database.values[i].name, quote, text, quote);
  }
  return RENGA_SUCCESS;
}

int RengaSecretInLine_Private(const char *line)
{
  char name[RENGA_OPTION_NAME], whole[RENGA_OPTION_NAME];
  const int length = (int)strcspn(line, " \t\n");
  if (line[0] != '-' || length >= (int)sizeof name) return 0;
  snprintf(name, sizeof name, "%.*s", length - 1, line + 1);
  const RengaOptionRow *row = RengaOptionsFindRow(name, NULL, whole);
  return row && row->kind == RENGA_OPTION_SECRET ? length : 0;
}

void RengaOptionsFinish(void)
{
  FreeValues(&database.n_values, &database.values);
  FreeValues(&database.n_before, &database.before);
  for (int i = 0; i < database.n_prefixes; i++) RengaFree(&database.prefixes[i]);
  RengaFree(&database.prefixes);
  RengaFree(&database.sections);
  memset(&database, 0, sizeof database);
}
