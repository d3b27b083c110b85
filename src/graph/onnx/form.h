/* The form of a node: numbers of inputs and outputs, names of attributes. */
#pragma once
#include "onnx.h"
#include <string.h>

enum { RENGA_ONNX_ATTRIBUTES_MAX = 64 }; /* of a node */

/* Is the node as ONNX defines its operator? Before anything else of it is read. */
RengaErrorCode RengaOnnxCheckForm(const RengaOnnxNode *node);
/* Has the call no more than its function declares? */
RengaErrorCode RengaOnnxCheckCallForm(const RengaOnnxNode *node,
                                      const Onnx__FunctionProto *function,
                                      const RengaOnnxDefaults *defaults);
/* Names that begin with two underscores are of tools, which ONNX lets pass. */
static inline bool RengaOnnxIsToolsAttribute(const char *name)
{
  return strncmp(name, "__", 2) == 0;
}
