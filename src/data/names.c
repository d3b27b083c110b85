/* Data: the files that a list such as a.h5,shard-*.h5 means. */
#include "dataimpl.h"
#include "renga/private/pattern.h"
#include <string.h>
#include <unistd.h>

typedef struct {
  int count;
  char **names;
} DataNames;

static RengaErrorCode AddDataName(DataNames *list, const char *name)
{
  RengaCall(RengaRealloc(list->count + 1, &list->names));
  RengaCall(RengaStringCopy(name, &list->names[list->count]));
  list->count++;
  return RENGA_SUCCESS;
}

/* Files that fit a pattern, in the order of their names; a name that is no pattern stays. */
static RengaErrorCode AddPattern(DataNames *list, const char *pattern)
{
  glob_t found;
  RengaErrorCode code = RENGA_SUCCESS;
  if (strpbrk(pattern, "*?[") == NULL || access(pattern, F_OK) == 0)
    return AddDataName(list, pattern);
  int status = RengaFindFiles(pattern, &found);
  for (size_t i = 0; status == 0 && i < found.gl_pathc && code == RENGA_SUCCESS; i++)
    code = AddDataName(list, found.gl_pathv[i]);
  globfree(&found);
  RengaCall(code);
  RengaCheck(status == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "data set %s: no file fits", pattern);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddAll(DataNames *list, const char *text)
{
  char *copy, *rest = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  if (access(text, F_OK) == 0) return AddDataName(list, text); /* its name may have commas */
  RengaCall(RengaStringCopy(text, &copy));
  for (char *word = strtok_r(copy, ",", &rest); word && code == RENGA_SUCCESS;
       word = strtok_r(NULL, ",", &rest))
    code = AddPattern(list, word);
  RengaFree(&copy);
  RengaCall(code);
  RengaCheck(list->count > 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "\"%s\" names no data set", text);
  return RENGA_SUCCESS;
}

/*@
   RengaDataFindFiles - the files that a list of names and patterns means

   Input:
   . list - names with commas between them; those with *, ? or [ are patterns, such as
     a.h5,shard-*.h5. A file that is there under the whole list, or a whole pattern, is meant alone

   Output:
   . count - the number of files, at least 1
   . names - [count], in the order of the list, of a pattern in that of the names. The caller frees
     each of them and the array with RengaFree()

   Errors: a pattern that no file fits, a list without a name. Names that are no patterns need not
   be files.

   See also: RengaDataSetFile()
@*/
RengaErrorCode RengaDataFindFiles(const char *list, int *count, char ***names)
{
  RengaCheckPointers(list, count, names);
  DataNames found = {0};
  RengaErrorCode code = AddAll(&found, list);
  if (code != RENGA_SUCCESS) {
    for (int i = 0; i < found.count; i++) RengaFree(&found.names[i]);
    RengaFree(&found.names);
  }
  RengaCall(code);
  *count = found.count;
  *names = found.names;
  return RENGA_SUCCESS;
}
