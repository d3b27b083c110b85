/* Attributes of an operator: a short list of named values, looked up by name.

   Networks have a list for each node, most of them copies that nobody changes: a copy is one
   block, in which names and values follow the rows. One that is changed is one of blocks first. */
#include "renga/private/op.h"
#include "rengaop.h"
#include <string.h>

static RengaAttribute *FindAttributeRow(const RengaAttributes *attributes, const char *name)
{
  for (int i = 0; attributes && i < attributes->count; i++)
    if (strcmp(attributes->row[i].name, name) == 0) return &attributes->row[i];
  return NULL;
}

static void FreeValue(RengaAttribute *row)
{
  RengaFree(&row->ints);
  RengaFree(&row->reals);
  RengaFree(&row->string);
  row->count = 0;
}

static const void *NumbersOf(const RengaAttribute *row)
{
  return row->ints ? (const void *)row->ints : row->reals;
}

/* The list is one block: no name of its own block stands right behind the rows. */
static bool IsOneBlock(const RengaAttributes *attributes)
{
  return attributes->count &&
         attributes->row->name == (char *)(attributes->row + attributes->count);
}

static RengaErrorCode CopyAttributeRow(const RengaAttribute *row, RengaAttributes *to);

/* In a list of blocks, which it becomes; NULL: there is none. The name may be the list's own. */
static RengaErrorCode FindInBlocks(RengaAttributes *attributes, const char *name,
                                   RengaAttribute **row)
{
  const RengaAttribute *found = FindAttributeRow(attributes, name);
  const int64_t at = found ? found - attributes->row : -1;
  RengaAttributes made = {0};
  RengaErrorCode code = RENGA_SUCCESS;
  if (IsOneBlock(attributes)) {
    for (int i = 0; i < attributes->count && !code; i++)
      code = CopyAttributeRow(&attributes->row[i], &made);
    RengaAttributesFree(attributes);
    RengaCall(code);
    *attributes = made;
  }
  *row = at < 0 ? NULL : &attributes->row[at];
  return RENGA_SUCCESS;
}

/* The row of this name, without a value; appended where it is new. After an error the list is
   empty. */
static RengaErrorCode PrepareAttribute(RengaAttributes *attributes, const char *name,
                                       RengaAttributeKind kind, RengaAttribute **row)
{
  RengaAttribute *found;
  RengaCall(FindInBlocks(attributes, name, &found));
  if (!found) {
    RengaErrorCode code = RengaRealloc(attributes->count + 1, &attributes->row);
    if (code == RENGA_SUCCESS) {
      found = &attributes->row[attributes->count];
      memset(found, 0, sizeof *found);
      code = RengaStringCopy(name, &found->name);
    }
    if (code != RENGA_SUCCESS) RengaAttributesFree(attributes);
    RengaCall(code);
    attributes->count++;
  }
  FreeValue(found);
  found->kind = kind;
  *row = found;
  return RENGA_SUCCESS;
}

/* Whole or real ones, of eight bytes. */
static RengaErrorCode SetNumbers(RengaAttributes *attributes, const char *name,
                                 RengaAttributeKind kind, int count, const void *values)
{
  RengaAttribute *row;
  int64_t *copy;
  RengaErrorCode code = RengaMalloc(count > 0 ? count : 1, &copy);
  if (code != RENGA_SUCCESS) RengaAttributesFree(attributes);
  RengaCall(code);
  if (count > 0) memcpy(copy, values, (size_t)count * 8); /* first: they may be the row's own */
  code = PrepareAttribute(attributes, name, kind, &row);
  if (code != RENGA_SUCCESS) RengaFree(&copy);
  RengaCall(code);
  if (kind == RENGA_ATTRIBUTE_REAL || kind == RENGA_ATTRIBUTE_REALS)
    row->reals = (void *)copy;
  else
    row->ints = copy;
  row->count = count > 0 ? count : 0;
  return RENGA_SUCCESS;
}

/*@
   RengaAttributesSetInt - set an attribute to an integer

   Input:
   . attributes - the list; all zero is an empty one
   . name - the attribute's name; an older value is replaced
   . value - any number, which is the attribute's value

   Errors: without memory the whole list is freed, so that a caller has nothing to undo.

   See also: RengaAttributesInt(), RengaAttributesSetInts()
@*/
RengaErrorCode RengaAttributesSetInt(RengaAttributes *attributes, const char *name, int64_t value)
{
  RengaCall(SetNumbers(attributes, name, RENGA_ATTRIBUTE_INT, 1, &value));
  return RENGA_SUCCESS;
}

/*@
   RengaAttributesSetInts - set an attribute to a list of integers

   Input:
   . attributes - the list
   . name - the attribute's name; an older value is replaced
   . count - number of values, 0 or more
   . values - any numbers, which are the attribute's values; copied

   Errors: without memory the whole list is freed, so that a caller has nothing to undo.

   See also: RengaAttributesInts(), RengaAttributesSetInt()
@*/
RengaErrorCode RengaAttributesSetInts(RengaAttributes *attributes, const char *name, int count,
                                      const int64_t values[])
{
  RengaCall(SetNumbers(attributes, name, RENGA_ATTRIBUTE_INTS, count, values));
  return RENGA_SUCCESS;
}

/*@
   RengaAttributesSetReal - set an attribute to a number

   Input:
   . attributes - the list
   . name - the attribute's name; an older value is replaced
   . value - any number, which is the attribute's value

   Errors: without memory the whole list is freed, so that a caller has nothing to undo.

   See also: RengaAttributesReal(), RengaAttributesSetReals()
@*/
RengaErrorCode RengaAttributesSetReal(RengaAttributes *attributes, const char *name, double value)
{
  RengaCall(SetNumbers(attributes, name, RENGA_ATTRIBUTE_REAL, 1, &value));
  return RENGA_SUCCESS;
}

/*@
   RengaAttributesSetReals - set an attribute to a list of numbers

   Input:
   . attributes - the list
   . name - the attribute's name; an older value is replaced
   . count - number of values, 0 or more
   . values - any numbers, which are the attribute's values; copied

   Errors: without memory the whole list is freed, so that a caller has nothing to undo.

   See also: RengaAttributesFind(), RengaAttributesSetReal()
@*/
RengaErrorCode RengaAttributesSetReals(RengaAttributes *attributes, const char *name, int count,
                                       const double values[])
{
  RengaCall(SetNumbers(attributes, name, RENGA_ATTRIBUTE_REALS, count, values));
  return RENGA_SUCCESS;
}

/*@
   RengaAttributesSetString - set an attribute to a text

   Input:
   . attributes - the list
   . name - the attribute's name; an older value is replaced
   . value - the text, copied

   Errors: without memory the whole list is freed, so that a caller has nothing to undo.

   See also: RengaAttributesString()
@*/
RengaErrorCode RengaAttributesSetString(RengaAttributes *attributes, const char *name,
                                        const char *value)
{
  RengaAttribute *row;
  char *copy;
  RengaErrorCode code = RengaStringCopy(value, &copy);
  if (code != RENGA_SUCCESS) RengaAttributesFree(attributes);
  RengaCall(code);
  code = PrepareAttribute(attributes, name, RENGA_ATTRIBUTE_STRING, &row);
  if (code != RENGA_SUCCESS) RengaFree(&copy);
  RengaCall(code);
  row->string = copy;
  return RENGA_SUCCESS;
}

/* Take an attribute out of the list. name: the attribute's name; one that is not there is no error.
   */
RengaErrorCode RengaAttributesRemove(RengaAttributes *attributes, const char *name)
{
  RengaAttribute *row;
  RengaCall(FindInBlocks(attributes, name, &row));
  if (!row) return RENGA_SUCCESS;
  FreeValue(row);
  RengaFree(&row->name);
  RengaAttribute *end = attributes->row + attributes->count;
  memmove(row, row + 1, (size_t)(end - row - 1) * sizeof *row);
  attributes->count--;
  return RENGA_SUCCESS;
}

/*@
   RengaAttributesFind - the attribute of a name, NULL where absent

   Input:
   . attributes - the list; NULL is an empty one
   . name - the attribute's name

   Errors: none; NULL where the name is not there.

   Notes: lent until the list changes

   See also: RengaAttributesInt(), RengaAttributesReal(), RengaAttributesString()
@*/
const RengaAttribute *RengaAttributesFind(const RengaAttributes *attributes, const char *name)
{
  return FindAttributeRow(attributes, name);
}

/*@
   RengaAttributesInt - an integer attribute

   Input:
   . attributes - the list; NULL is an empty one
   . name - the attribute's name
   . otherwise - any number: the answer where the attribute is absent or no integer

   See also: RengaAttributesSetInt(), RengaAttributesFind()
@*/
int64_t RengaAttributesInt(const RengaAttributes *attributes, const char *name, int64_t otherwise)
{
  const RengaAttribute *row = FindAttributeRow(attributes, name);
  return row && row->kind == RENGA_ATTRIBUTE_INT ? row->ints[0] : otherwise;
}

/*@
   RengaAttributesReal - a real attribute

   Input:
   . attributes - the list; NULL is an empty one
   . name - the attribute's name
   . otherwise - any number: the answer where the attribute is absent or no number

   See also: RengaAttributesSetReal(), RengaAttributesFind()
@*/
double RengaAttributesReal(const RengaAttributes *attributes, const char *name, double otherwise)
{
  const RengaAttribute *row = FindAttributeRow(attributes, name);
  return row && row->kind == RENGA_ATTRIBUTE_REAL ? row->reals[0] : otherwise;
}

/*@
   RengaAttributesString - a text attribute

   Input:
   . attributes - the list; NULL is an empty one
   . name - the attribute's name
   . otherwise - the answer where it is absent or no text

   Notes: lent until the list changes

   See also: RengaAttributesSetString(), RengaAttributesFind()
@*/
const char *RengaAttributesString(const RengaAttributes *attributes, const char *name,
                                  const char *otherwise)
{
  const RengaAttribute *row = FindAttributeRow(attributes, name);
  return row && row->kind == RENGA_ATTRIBUTE_STRING ? row->string : otherwise;
}

/*@
   RengaAttributesInts - an attribute that is a list of integers

   Input:
   . attributes - the list; NULL is an empty one
   . name - the attribute's name

   Output:
   . count - number of integers; 0 where the attribute is absent (the answer is then NULL)

   Notes: lent until the list changes

   See also: RengaAttributesSetInts(), RengaAttributesFind()
@*/
const int64_t *RengaAttributesInts(const RengaAttributes *attributes, const char *name, int *count)
{
  const RengaAttribute *row = FindAttributeRow(attributes, name);
  bool found = row && row->kind == RENGA_ATTRIBUTE_INTS;
  *count = found ? row->count : 0;
  return found ? row->ints : NULL;
}

static RengaErrorCode CopyAttributeRow(const RengaAttribute *row, RengaAttributes *to)
{
  if (row->kind == RENGA_ATTRIBUTE_STRING)
    RengaCall(RengaAttributesSetString(to, row->name, row->string));
  else
    RengaCall(SetNumbers(to, row->name, row->kind, row->count, NumbersOf(row)));
  return RENGA_SUCCESS;
}

static size_t BytesOfText(const char *text)
{
  return text ? strlen(text) + 1 : 0;
}

/* Values begin at multiples of eight bytes. */
static void *PutIntoBlock(char **next, const void *from, size_t bytes)
{
  void *at = from ? memcpy(*next, from, bytes) : NULL;
  *next += (bytes + 7) / 8 * 8;
  return at;
}

/* Behind the rows, for which there is room, the name of the first, its values, the next name … */
static void CopyIntoBlock(const RengaAttributes *from, RengaAttributes *to)
{
  char *next = (char *)(to->row + to->count);
  for (int i = 0; i < to->count; i++) {
    const RengaAttribute *row = &from->row[i];
    RengaAttribute *copy = &to->row[i];
    *copy = *row;
    copy->name = PutIntoBlock(&next, row->name, BytesOfText(row->name));
    copy->ints = PutIntoBlock(&next, row->ints, row->ints ? (size_t)row->count * 8 : 0);
    copy->reals = PutIntoBlock(&next, row->reals, row->reals ? (size_t)row->count * 8 : 0);
    copy->string = PutIntoBlock(&next, row->string, BytesOfText(row->string));
  }
}

/* A list of its own with the same attributes. from: the list; NULL is an empty one. to: the copy;
   what it held is forgotten, not freed. Free it with RengaAttributesFree. */
RengaErrorCode RengaAttributesCopy(const RengaAttributes *from, RengaAttributes *to)
{
  RengaAttributes copy = {.count = from ? from->count : 0};
  size_t bytes = 0;
  for (int i = 0; i < copy.count; i++)
    bytes += BytesOfText(from->row[i].name) + BytesOfText(from->row[i].string) +
             8 * (size_t)from->row[i].count + 16; /* of ints or reals, never below 0 */
  if (copy.count) {
    const size_t rows = (size_t)copy.count + (bytes + sizeof *copy.row - 1) / sizeof *copy.row;
    RengaCall(RengaMalloc(rows, &copy.row));
    CopyIntoBlock(from, &copy);
  }
  *to = copy;
  return RENGA_SUCCESS;
}

static bool RowsEqual(const RengaAttribute *a, const RengaAttribute *b)
{
  if (a->kind != b->kind || a->count != b->count) return false;
  if (a->kind == RENGA_ATTRIBUTE_STRING) return strcmp(a->string, b->string) == 0;
  return memcmp(NumbersOf(a), NumbersOf(b), (size_t)a->count * 8) == 0;
}

/* Whether two lists hold the same attributes, in any order. a: a list; NULL is an empty one. b: a
   list; NULL is an empty one. */
bool RengaAttributesEqual(const RengaAttributes *a, const RengaAttributes *b)
{
  if ((a ? a->count : 0) != (b ? b->count : 0)) return false;
  for (int i = 0; a && i < a->count; i++) {
    const RengaAttribute *other = FindAttributeRow(b, a->row[i].name);
    if (!other || !RowsEqual(&a->row[i], other)) return false;
  }
  return true;
}

/* A number that lists with the same attributes in the same order share. The same in every run and
   on every rank. except: name of an attribute that does not count; NULL: all count. seed: any
   number: a hash of all that comes before. */
uint64_t RengaAttributesHash(const RengaAttributes *attributes, const char *except, uint64_t seed)
{
  uint64_t hash = seed;
  for (int i = 0; i < attributes->count; i++) {
    const RengaAttribute *row = &attributes->row[i];
    const size_t count = (size_t)row->count;
    if (except && strcmp(row->name, except) == 0) continue;
    hash = RengaHash(row->name, strlen(row->name), hash);
    if (row->ints) hash = RengaHash(row->ints, count * sizeof *row->ints, hash);
    if (row->reals) hash = RengaHash(row->reals, count * sizeof *row->reals, hash);
    if (row->string) hash = RengaHash(row->string, strlen(row->string), hash);
  }
  return hash;
}

/*@
   RengaAttributesFree - free what the list holds; it is empty afterwards

   Input:
   . attributes - the list

   Errors: none.

   See also: RengaAttributesSetInt()
@*/
RengaErrorCode RengaAttributesFree(RengaAttributes *attributes)
{
  const bool one = IsOneBlock(attributes);
  for (int i = 0; i < attributes->count && !one; i++) {
    FreeValue(&attributes->row[i]);
    RengaFree(&attributes->row[i].name);
  }
  RengaFree(&attributes->row);
  attributes->count = 0;
  return RENGA_SUCCESS;
}
