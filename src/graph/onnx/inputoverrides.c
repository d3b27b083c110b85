/* Inputs of nodes that are not as in the file: another tensor, or one that was detached. */
#include "onnx.h"
#include <stdio.h>

enum { KEY_SIZE = 48 };

static void MakeCallKey(const Onnx__NodeProto *proto, int input, char key[KEY_SIZE])
{
  snprintf(key, KEY_SIZE, "%p %d", (const void *)proto, input);
}

RengaOnnxBinding *RengaOnnxReplaced(const RengaOnnxNode *node, int input)
{
  char key[KEY_SIZE];
  if (!node->importer->replaced) return NULL;
  MakeCallKey(node->proto, input, key);
  return RengaOnnxScopeFind(node->importer->replaced, key);
}

bool RengaOnnxIsDetached(const RengaOnnxNode *node, int input)
{
  char key[KEY_SIZE];
  if (!node->importer->detached) return false;
  MakeCallKey(node->proto, input, key);
  return RengaOnnxScopeFind(node->importer->detached, key) != NULL;
}

/* scope: of the importer; by: NULL in that of detached inputs */
RengaErrorCode RengaOnnxNoteInput(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                  const Onnx__NodeProto *proto, int input, RengaOnnxBinding *by)
{
  char key[KEY_SIZE], *copy;
  RengaOnnxBinding *binding;
  MakeCallKey(proto, input, key);
  RengaCall(RengaOnnxJoin(importer, key, "", &copy));
  RengaCall(RengaOnnxScopeAdd(importer, scope, copy, &binding));
  if (binding) binding->alias = by;
  return RENGA_SUCCESS;
}
