/* Attributes that a function gives a default (IR version 9): field 11 of FunctionProto, which the
   onnx.proto of older systems does not have. */
#include "onnx.h"
#include <string.h>

enum { FIELD = 11 };

/* What is decoded lives as long as the reader. */
static void *AllocateDefaults(void *user, size_t size)
{
  unsigned char *bytes = NULL;
  return RengaOnnxAllocate(user, (int64_t)size, 1, &bytes) == RENGA_SUCCESS ? bytes : NULL;
}

static void FreeDefaults(void *user, void *bytes)
{
  (void)user;
  (void)bytes;
}

static RengaErrorCode Decode(RengaOnnxImporter *importer, const Onnx__FunctionProto *function,
                             RengaOnnxDefaults *defaults)
{
  ProtobufCAllocator arena = {AllocateDefaults, FreeDefaults, importer};
  const ProtobufCMessage *message = &function->base;
  RengaCall(RengaOnnxAllocate(importer, (int64_t)message->n_unknown_fields,
                              sizeof(Onnx__AttributeProto *), &defaults->attribute));
  for (unsigned i = 0; i < message->n_unknown_fields; i++) {
    const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
    uint64_t length = 0;
    size_t at = 0;
    if (field->tag != FIELD || field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) continue;
    do /* the bytes of the field begin with their number */
      length |= (uint64_t)(field->data[at] & 0x7f) << (7 * at);
    while (field->data[at++] & 0x80);
    Onnx__AttributeProto *made = onnx__attribute_proto__unpack(&arena, length, field->data + at);
    RengaCheck(made && made->name, importer->comm, RENGA_ERR_FILE_FORMAT,
               "%s: function \"%s\" has a default that is no attribute", importer->file,
               function->name ? function->name : "");
    defaults->attribute[defaults->count++] = made;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxReadDefaults(RengaOnnxImporter *importer, size_t number,
                                     const RengaOnnxDefaults **defaults)
{
  const Onnx__FunctionProto *function = importer->model->functions[number];
  if (!importer->defaults)
    RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->model->n_functions,
                                sizeof *importer->defaults, &importer->defaults));
  RengaOnnxDefaults *found = &importer->defaults[number];
  const ProtobufCFieldDescriptor *known =
      protobuf_c_message_descriptor_get_field(&onnx__function_proto__descriptor, FIELD);
  if (known) {
    const char *base = (const char *)function;
    memcpy(&found->count, base + known->quantifier_offset, sizeof found->count);
    memcpy(&found->attribute, base + known->offset, sizeof found->attribute);
  } else if (!found->attribute) {
    RengaCall(Decode(importer, function, found));
  }
  *defaults = found;
  return RENGA_SUCCESS;
}
