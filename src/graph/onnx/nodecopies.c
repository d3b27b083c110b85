/* Copies of a node, and of what the exporter says of it, that name other parameters. */
#include "module.h"
#include <string.h>

static RengaErrorCode AppendText(RengaOnnxImporter *importer, char **text, const char *from,
                                 size_t length)
{
  char *part;
  RengaCall(RengaOnnxCopyPart(importer, from, length, &part));
  RengaCall(RengaOnnxJoin(importer, *text, part, text));
  return RENGA_SUCCESS;
}

/* The call of the copy: other parameters, and another name of the result. */
RengaErrorCode RengaOnnxRenameCall(RengaOnnxImporter *importer, const char *call,
                                   const RengaOnnxOwners *parameters, const char *result,
                                   char **renamed)
{
  const char *at = strstr(call, " : "), *name, *done;
  size_t length;
  RengaCall(RengaOnnxJoin(importer, "%", result, renamed));
  for (done = at; at && RengaOnnxNextName(&at, &name, &length); done = at) {
    const char *other = name;
    size_t other_length = length;
    for (int k = 0; k < parameters->count; k++)
      if (RengaOnnxIsName(parameters->old[k]->name, name, length)) {
        other = parameters->other[k]->name;
        other_length = strlen(other);
      }
    RengaCall(AppendText(importer, renamed, done, (size_t)(name - done)));
    RengaCall(AppendText(importer, renamed, other, other_length));
  }
  if (done) RengaCall(RengaOnnxJoin(importer, *renamed, done, renamed));
  return RENGA_SUCCESS;
}

/* The list of a folded value, of which one name is another. */
RengaErrorCode RengaOnnxRenameList(RengaOnnxImporter *importer, const char *list,
                                   const RengaOnnxOwners *parameters, char **renamed)
{
  const char *at = list, *old = parameters->old[0]->target, *name;
  size_t length;
  while (RengaOnnxNextQuoted(&at, &name, &length))
    if (RengaOnnxIsName(old, name, length)) break;
  RengaCall(RengaOnnxJoin(importer, "", "", renamed));
  RengaCall(AppendText(importer, renamed, list, (size_t)(name - list)));
  RengaCall(RengaOnnxJoin(importer, *renamed, parameters->other[0]->target, renamed));
  RengaCall(RengaOnnxJoin(importer, *renamed, name + length, renamed));
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyStrings(RengaOnnxImporter *importer, size_t count, char *const from[],
                                  char ***to)
{
  RengaCall(RengaOnnxAllocate(importer, (int64_t)count, sizeof **to, to));
  for (size_t i = 0; i < count; i++) (*to)[i] = from[i];
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxCopyProto(RengaOnnxImporter *importer, const Onnx__NodeProto *from,
                                  Onnx__NodeProto **to)
{
  RengaCall(RengaOnnxAllocate(importer, 1, sizeof **to, to));
  **to = *from;
  RengaCall(CopyStrings(importer, from->n_input, from->input, &(*to)->input));
  RengaCall(CopyStrings(importer, from->n_output, from->output, &(*to)->output));
  return RENGA_SUCCESS;
}
