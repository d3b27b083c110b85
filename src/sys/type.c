/* Types by name: those that are built in, which a class lists, and those that a program registers.
   The latter stay for the life of the process, so that rounds of RengaInitialize and RengaFinalize
   find them. */
#include "renga/private/object.h"
#include "sys.h"
#include <string.h>

enum { MOST_OUTSIDE = 64 };
static struct {
  struct {
    const char *class_name, *option, *name;
    const void *rule;
  } type[MOST_OUTSIDE];
  int count;
} outside;

RengaErrorCode RengaTypeRegister_Private(const char *class_name, const RengaTypeRow rows[],
                                         const char *option, const char *name, const void *rule)
{
  RengaCheck(name && name[0] && !strpbrk(name, "| "), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a type of %s needs a name without spaces and bars", class_name);
  for (int i = 0; rows && rows[i].name; i++)
    RengaCheck(strcmp(rows[i].name, name) != 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "%s has a type %s already: choose another name", class_name, name);
  const void *known = RengaTypeOutside_Private(class_name, name);
  RengaCheck(!known || known == rule, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s has another type %s already: choose another name", class_name, name);
  if (known) return RENGA_SUCCESS;
  RengaCheck(outside.count < MOST_OUTSIDE, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s: no more than %d types can be registered", name, MOST_OUTSIDE);
  outside.type[outside.count].class_name = class_name;
  outside.type[outside.count].option = option;
  outside.type[outside.count].name = name;
  outside.type[outside.count++].rule = rule;
  return RENGA_SUCCESS;
}

const void *RengaTypeOutside_Private(const char *class_name, const char *name)
{
  for (int i = 0; name && i < outside.count; i++)
    if (!strcmp(outside.type[i].class_name, class_name) && !strcmp(outside.type[i].name, name))
      return outside.type[i].rule;
  return NULL;
}

const void *RengaTypeOutsideAt_Private(const char *class_name, int index)
{
  for (int i = 0; i < outside.count; i++)
    if (!strcmp(outside.type[i].class_name, class_name) && index-- == 0)
      return outside.type[i].rule;
  return NULL;
}

bool RengaTypeIsChoice(const char *option, const char *name)
{
  for (int i = 0; i < outside.count; i++)
    if (outside.type[i].option && !strcmp(outside.type[i].option, option) &&
        !strcmp(outside.type[i].name, name))
      return true;
  return false;
}

void RengaTypePrintChoices(FILE *file, const char *option)
{
  for (int i = 0; i < outside.count; i++)
    if (outside.type[i].option && !strcmp(outside.type[i].option, option))
      fprintf(file, "|%s", outside.type[i].name);
}

void RengaTypeFormatChoices(const char *option, size_t size, char text[])
{
  size_t used = strlen(text);
  for (int i = 0; i < outside.count && used < size; i++)
    if (outside.type[i].option && !strcmp(outside.type[i].option, option))
      used += (size_t)snprintf(text + used, size - used, "|%s", outside.type[i].name);
}

static void ListTypes(const RengaTypeRow rows[], size_t size, char text[])
{
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; rows[i].name && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", rows[i].name);
}

RengaErrorCode RengaTypeFind(const char *class_name, const RengaTypeRow rows[], const char *name,
                             const RengaTypeRow **row)
{
  enum { MOST_TYPES = 64 };
  const char *names[MOST_TYPES], *closest;
  char list[512];
  int count = 0;
  RengaCheckPointer(name);
  for (; rows[count].name && count < MOST_TYPES; count++) {
    names[count] = rows[count].name;
    if (strcmp(name, names[count]) != 0) continue;
    RengaCheck(rows[count].create != NULL, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "%s type %s was not built in: it needs %s", class_name, name,
               rows[count].needs ? rows[count].needs : "another build");
    *row = &rows[count];
    return RENGA_SUCCESS;
  }
  ListTypes(rows, sizeof list, list);
  closest = RengaClosestName(name, count, names);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%s has no type %s%s%s%s; it has %s", class_name,
             name, closest ? " (did you mean " : "", closest ? closest : "", closest ? "?)" : "",
             list);
}
