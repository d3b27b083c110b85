/* Types from outside: what a program registers beside those that are built in. They stay for the
   life of the process, so that rounds of RengaInitialize and RengaFinalize find them. */
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
