/* Properties of a message, which the library made from the file does not know. */
#include "onnx.h"
#include <string.h>

/* One string field of a property: 1 is the key, 2 the value. */
static bool NextField(const unsigned char **at, const unsigned char *end, int *number,
                      const char **text, size_t *length)
{
  size_t size = 0;
  const unsigned char *byte = *at;
  if (end - byte < 2 || (*byte & 7) != 2) return false;
  *number = *byte++ >> 3;
  for (int shift = 0; byte < end && shift < 35; shift += 7) {
    size |= (size_t)(*byte & 0x7f) << shift;
    if (!(*byte++ & 0x80)) break;
  }
  if (size > (size_t)(end - byte)) return false;
  *text = (const char *)byte;
  *length = size;
  *at = byte + size;
  return true;
}

static const unsigned char *SkipLength(const unsigned char *at, const unsigned char *end)
{
  while (at < end && *at & 0x80) at++;
  return at < end ? at + 1 : end;
}

/* The value of a property, lent by the model: not terminated. */
static bool FindProperty(const ProtobufCMessage *message, const char *key, const char **value,
                         size_t *length)
{
  for (unsigned i = 0; i < message->n_unknown_fields; i++) {
    const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
    const unsigned char *end = field->data + field->len, *at = SkipLength(field->data, end);
    const char *text;
    size_t size;
    int number;
    bool wanted = false;
    if (field->tag != RENGA_ONNX_PROPERTY) continue;
    while (NextField(&at, end, &number, &text, &size)) {
      if (number == 1) wanted = size == strlen(key) && memcmp(text, key, size) == 0;
      if (number != 2 || !wanted) continue;
      *value = text;
      *length = size;
      return true;
    }
  }
  return false;
}

/* NULL where there is none; it lives as long as the reader. */
RengaErrorCode RengaOnnxProperty(RengaOnnxImporter *importer, const ProtobufCMessage *message,
                                 const char *key, char **value)
{
  const char *text;
  size_t length;
  *value = NULL;
  if (!FindProperty(message, key, &text, &length)) return RENGA_SUCCESS;
  RengaCall(RengaOnnxAllocate(importer, (int64_t)length + 1, 1, value));
  memcpy(*value, text, length);
  return RENGA_SUCCESS;
}
