/* Data: members of the objects of a tokenizer.json. */
#include "steps.h"
#include <string.h>

json_object *RengaTokenizerMember_Private(json_object *owner, const char *key)
{
  json_object *value = NULL;
  if (owner && json_object_is_type(owner, json_type_object))
    json_object_object_get_ex(owner, key, &value);
  return value;
}

const char *RengaTokenizerText_Private(json_object *owner, const char *key)
{
  json_object *value = RengaTokenizerMember_Private(owner, key);
  return value && json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                               : NULL;
}

bool RengaTokenizerFlag_Private(json_object *owner, const char *key, bool otherwise)
{
  json_object *value = RengaTokenizerMember_Private(owner, key);
  return value && json_object_is_type(value, json_type_boolean) ? json_object_get_boolean(value)
                                                                : otherwise;
}

RengaErrorCode RengaTokenizerRefuse_Private(const char *owner, const char *part, json_object *value)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT, "tokenizer %s: %s is %.160s, which is not supported",
             owner, part, json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
}

/* Each letter stands for itself. */
static RengaErrorCode EscapePattern(const char *text, char **expression)
{
  char *to;
  RengaCall(RengaMalloc(2 * strlen(text) + 1, expression));
  to = *expression;
  for (; *text; text++) {
    if (strchr("\\.^$|?*+()[]{}", *text)) *to++ = '\\';
    *to++ = *text;
  }
  *to = '\0';
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTokenizerExpression_Private(const char *owner, const char *part,
                                                json_object *value, RengaExpression **pattern)
{
  const char *text = RengaTokenizerText_Private(value, "String");
  const char *expression = RengaTokenizerText_Private(value, "Regex");
  char *escaped = NULL;
  if ((!text && !expression) || (text && !text[0]) || (expression && !expression[0]))
    RengaCall(RengaTokenizerRefuse_Private(owner, part, value));
  RengaErrorCode code = text ? EscapePattern(text, &escaped) : RENGA_SUCCESS;
  if (!code) code = RengaExpressionCreate_Private(owner, text ? escaped : expression, pattern);
  RengaFree(&escaped);
  RengaCall(code);
  return RENGA_SUCCESS;
}
