/* Words in texts of the file: names in lists and in calls, not terminated. */
#include "onnx.h"
#include "renga/private/number.h"
#include <string.h>

/* Is the word in a list that is separated by blanks? */
bool RengaOnnxHasWord(const char *list, const char *word)
{
  size_t length = strlen(word);
  for (const char *at = list; length && (at = strstr(at, word)); at++)
    if ((at == list || at[-1] == ' ') && (at[length] == 0 || at[length] == ' ')) return true;
  return false;
}

bool RengaOnnxIsName(const char *text, const char *name, size_t length)
{
  return strncmp(text, name, length) == 0 && text[length] == '\0';
}

/* Values are called after their operators: unsqueeze_3. */
size_t RengaOnnxWithoutNumber(const char *name, size_t length)
{
  size_t end = length;
  while (end > 0 && RengaIsDigit(name[end - 1])) end--;
  return end < length && end > 1 && name[end - 1] == '_' ? end - 1 : length;
}

RengaErrorCode RengaOnnxCopyPart(RengaOnnxImporter *importer, const char *part, size_t length,
                                 char **copy)
{
  RengaCall(RengaOnnxAllocate(importer, (int64_t)length + 1, 1, copy));
  memcpy(*copy, part, length);
  return RENGA_SUCCESS;
}

/* ['a.weight', 'val_3', 'unsqueeze']: the next name, not terminated */
bool RengaOnnxNextQuoted(const char **list, const char **name, size_t *length)
{
  const char *quote = *list ? strchr(*list, '\'') : NULL;
  const char *end = quote ? strchr(quote + 1, '\'') : NULL;
  if (!end) return false;
  *name = quote + 1;
  *length = (size_t)(end - quote - 1);
  *list = end + 1;
  return true;
}

bool RengaOnnxIsFoldedFrom(const RengaOnnxBinding *binding, const char *parameter)
{
  const char *list = binding->folded_from, *name;
  size_t length;
  while (RengaOnnxNextQuoted(&list, &name, &length))
    if (RengaOnnxIsName(parameter, name, length)) return true;
  return false;
}
