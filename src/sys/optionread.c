/* Values of options for who asks: into the struct of a table's owner, or one by one. */
#include "sys.h"
#include <string.h>

RengaErrorCode RengaOptionsPlace(const RengaOptionRow *row, const char *text, void *base)
{
  char message[RENGA_OPTION_MESSAGE];
  char *place = (char *)base + row->offset;
  if (RengaOptionIsText(row->kind)) {
    char *copy, *old;
    RengaCheck(text == NULL || RengaOptionParse(row, text, &old, message), MPI_COMM_SELF,
               RENGA_ERR_OPTION, "%s", message);
    RengaCall(RengaStringCopy(text, &copy));
    memcpy(&old, place, sizeof old);
    RengaFree(&old);
    memcpy(place, &copy, sizeof copy);
  } else if (text == NULL) {
    memset(place, 0, RengaOptionSize(row->kind));
  } else {
    RengaCheck(RengaOptionParse(row, text, place, message), MPI_COMM_SELF, RENGA_ERR_OPTION, "%s",
               message);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsSetDefaults - write the defaults of a table into the struct of its owner

   Input:
   . count, rows - the table

   Output:
   . base - the struct, zeroed before the first call; strings in it become its own

   Errors: RENGA_ERR_OPTION for a default that its row does not allow.

   Notes: free the strings with RengaOptionsFreeStrings.

   See also: RengaOptionsSetFromDatabase(), RengaOptionsFreeStrings()
@*/
RengaErrorCode RengaOptionsSetDefaults(int count, const RengaOptionRow rows[], void *base)
{
  for (int i = 0; i < count; i++)
    if (rows[i].offset != RENGA_OPTION_NO_OFFSET)
      RengaCall(RengaOptionsPlace(&rows[i], rows[i].value, base));
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsSetFromDatabase - write what the user gave into the struct of a table's owner

   Input:
   . prefix - the object's prefix, or NULL; -PREFIXname goes before -name
   . count, rows - the table

   Output:
   . base - the struct; members whose options were not given keep their values

   Errors: RENGA_ERR_OPTION for a value that its row does not allow.

   See also: RengaOptionsSetDefaults(), RengaOptionsFreeStrings()
@*/
RengaErrorCode RengaOptionsSetFromDatabase(const char *prefix, int count,
                                           const RengaOptionRow rows[], void *base)
{
  for (int i = 0; i < count; i++) {
    const char *text = RengaOptionsFindValue(prefix, rows[i].name);
    if (text && rows[i].offset != RENGA_OPTION_NO_OFFSET)
      RengaCall(RengaOptionsPlace(&rows[i], text, base));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsFreeStrings - free the strings that a table's rows wrote

   Input:
   . count, rows - the table

   Output:
   . base - the struct; its strings become NULL

   See also: RengaOptionsSetDefaults(), RengaOptionsReadTable()
@*/
RengaErrorCode RengaOptionsFreeStrings(int count, const RengaOptionRow rows[], void *base)
{
  for (int i = 0; i < count; i++)
    if (RengaOptionIsText(rows[i].kind) && rows[i].offset != RENGA_OPTION_NO_OFFSET)
      RengaMemoryFree((char *)base + rows[i].offset);
  return RENGA_SUCCESS;
}

/* The value, given or default, of a row of the wanted kind. */
static RengaErrorCode GetOptionText(const char *name, RengaOptionKind kind, const char **text,
                                    bool *given)
{
  char whole[RENGA_OPTION_NAME];
  RengaCheck(name != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "an option without a name");
  const RengaOptionRow *row = RengaOptionsFindRow(name, NULL, whole);
  RengaOptionsTell();
  RengaCheck(row != NULL, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "option -%s is in no table", name);
  bool same = row->kind == kind || (kind == RENGA_OPTION_STRING) ||
              (kind == RENGA_OPTION_INT64 &&
               (row->kind == RENGA_OPTION_INT || row->kind == RENGA_OPTION_BYTES));
  RengaCheck(same, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "option -%s is of another kind", name);
  *text = RengaOptionsFindValue(NULL, whole);
  if (given) *given = *text != NULL;
  if (*text == NULL) *text = row->value;
  return RENGA_SUCCESS;
}

static RengaErrorCode GetOptionNumber(const char *name, RengaOptionKind kind, void *value,
                                      bool *given)
{
  char message[RENGA_OPTION_MESSAGE], whole[RENGA_OPTION_NAME];
  const char *text;
  RengaCall(GetOptionText(name, kind, &text, given));
  RengaOptionRow row = *RengaOptionsFindRow(name, NULL, whole);
  if (row.kind == RENGA_OPTION_INT) row.kind = RENGA_OPTION_INT64;
  if (text == NULL)
    memset(value, 0, RengaOptionSize(row.kind));
  else
    RengaCheck(RengaOptionParse(&row, text, value, message), MPI_COMM_SELF, RENGA_ERR_OPTION, "%s",
               message);
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsGetString - the value of an option as text

   Input:
   . name - without the dash

   Output:
   . value - the text, lent; the default where it was not given, which may be NULL
   . given - whether the user or the program gave it; may be NULL

   Errors: RENGA_ERR_INTERNAL for a name that is in no table, or is of another kind.

   See also: RengaOptionsGetInt64(), RengaOptionsSetValue()
@*/
RengaErrorCode RengaOptionsGetString(const char *name, const char **value, bool *given)
{
  RengaCall(GetOptionText(name, RENGA_OPTION_STRING, value, given));
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsGetInt64 - the value of an option that is a whole number or a size in bytes

   Input:
   . name - without the dash

   Output:
   . value - the number that was given, in the option's range, or the default
   . given - whether the user or the program gave it; may be NULL

   Errors: RENGA_ERR_INTERNAL for a name that is in no table, or is of another kind;
   RENGA_ERR_OPTION for a value that its row does not allow.

   See also: RengaOptionsGetReal(), RengaOptionsGetBool(), RengaOptionsGetString()
@*/
RengaErrorCode RengaOptionsGetInt64(const char *name, int64_t *value, bool *given)
{
  RengaCall(GetOptionNumber(name, RENGA_OPTION_INT64, value, given));
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsGetReal - the value of an option that is a number

   Input:
   . name - without the dash

   Output:
   . value - the number that was given, in the option's range, or the default
   . given - whether the user or the program gave it; may be NULL

   Errors: RENGA_ERR_INTERNAL for a name that is in no table, or is of another kind;
   RENGA_ERR_OPTION for a value that its row does not allow.

   See also: RengaOptionsGetInt64(), RengaOptionsGetBool(), RengaOptionsGetString()
@*/
RengaErrorCode RengaOptionsGetReal(const char *name, double *value, bool *given)
{
  RengaCall(GetOptionNumber(name, RENGA_OPTION_REAL, value, given));
  return RENGA_SUCCESS;
}

/*@
   RengaOptionsGetBool - the value of an option that is true or false

   Input:
   . name - without the dash

   Output:
   . value - the default where it was not given
   . given - whether the user or the program gave it; may be NULL

   Errors: RENGA_ERR_INTERNAL for a name that is in no table, or is of another kind;
   RENGA_ERR_OPTION for a value that its row does not allow.

   See also: RengaOptionsGetInt64(), RengaOptionsGetReal(), RengaOptionsGetString()
@*/
RengaErrorCode RengaOptionsGetBool(const char *name, bool *value, bool *given)
{
  RengaCall(GetOptionNumber(name, RENGA_OPTION_BOOL, value, given));
  return RENGA_SUCCESS;
}
