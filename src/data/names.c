/* Data: the files that a list such as a.h5,shard-*.h5 means. */
#include "dataimpl.h"
#include <glob.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  int count;
  char **names;
} NameList;

static RengaErrorCode AddName(NameList *list, const char *name)
{
  RengaCall(RengaRealloc(list->count + 1, &list->names));
  RengaCall(RengaStringCopy(name, &list->names[list->count]));
  list->count++;
  return RENGA_SUCCESS;
}

/* Files that fit a pattern, in the order of their names; a name that is no pattern stays. */
static RengaErrorCode AddPattern(NameList *list, const char *pattern)
{
  glob_t found;
  RengaErrorCode code = RENGA_SUCCESS;
  if (strpbrk(pattern, "*?[") == NULL || access(pattern, F_OK) == 0) return AddName(list, pattern);
  int status = glob(pattern, 0, NULL, &found);
  for (size_t i = 0; status == 0 && i < found.gl_pathc && code == RENGA_SUCCESS; i++)
    code = AddName(list, found.gl_pathv[i]);
  globfree(&found);
  RengaCall(code);
  RengaCheck(status == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "data set %s: no file fits", pattern);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddAll(NameList *list, const char *text)
{
  char *copy, *rest = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  if (access(text, F_OK) == 0) return AddName(list, text); /* its name may have commas */
  RengaCall(RengaStringCopy(text, &copy));
  for (char *word = strtok_r(copy, ",", &rest); word && code == RENGA_SUCCESS;
       word = strtok_r(NULL, ",", &rest))
    code = AddPattern(list, word);
  RengaFree(&copy);
  RengaCall(code);
  RengaCheck(list->count > 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "\"%s\" names no data set", text);
  return RENGA_SUCCESS;
}

/* *names and what it points to are the caller's. */
RengaErrorCode RengaDataFindFiles_Private(const char *text, int *count, char ***names)
{
  NameList list = {0};
  RengaErrorCode code = AddAll(&list, text);
  if (code != RENGA_SUCCESS) {
    for (int i = 0; i < list.count; i++) RengaFree(&list.names[i]);
    RengaFree(&list.names);
  }
  RengaCall(code);
  *count = list.count;
  *names = list.names;
  return RENGA_SUCCESS;
}
