/* Texts of files that rank 0 has read for all ranks, by the names of the files: who looks at them
   later need not read, and cannot fail where others do not. */
#include "renga/private/shared.h"
#include "sys.h"
#include <string.h>

static struct {
  int count;
  struct {
    char *name, *text;
  } * row;
} texts;

const char *RengaSharedText_Private(const char *name)
{
  for (int i = 0; i < texts.count; i++)
    if (!strcmp(texts.row[i].name, name)) return texts.row[i].text;
  return NULL;
}

RengaErrorCode RengaShareText_Private(const char *name, char **text)
{
  char *copy = NULL;
  for (int i = 0; i < texts.count; i++)
    if (!strcmp(texts.row[i].name, name)) {
      RengaFree(&texts.row[i].text);
      texts.row[i].text = *text;
      *text = NULL;
      return RENGA_SUCCESS;
    }
  RengaCall(RengaRealloc(texts.count + 1, &texts.row));
  RengaCall(RengaStringCopy(name, &copy));
  texts.row[texts.count].name = copy;
  texts.row[texts.count++].text = *text;
  *text = NULL;
  return RENGA_SUCCESS;
}

void RengaSharedTextsFinish(void)
{
  for (int i = 0; i < texts.count; i++) {
    RengaFree(&texts.row[i].name);
    RengaFree(&texts.row[i].text);
  }
  RengaFree(&texts.row);
  texts.count = 0;
}
