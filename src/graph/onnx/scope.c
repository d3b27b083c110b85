/* Names of a model, subgraph or function call: a hash table with open addressing. */
#include "onnx.h"
#include <string.h>

enum { DEPTH_MAX = 32 };

RengaErrorCode RengaOnnxScopeCreate(RengaOnnxImporter *importer, RengaOnnxScope *outer,
                                    RengaOnnxScope **scope)
{
  RengaOnnxScope *made = NULL;
  RengaCall(RengaOnnxAllocate(importer, 1, sizeof *made, &made));
  made->outer = outer;
  made->depth = outer ? outer->depth + 1 : 0;
  made->prefix = outer ? outer->prefix : "";
  made->opset = outer ? outer->opset : 0;
  made->call = outer ? outer->call : NULL;
  made->defaults = outer ? outer->defaults : NULL;
  RengaCheck(made->depth < DEPTH_MAX, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: more than %d subgraphs inside each other", importer->file, DEPTH_MAX);
  *scope = made;
  return RENGA_SUCCESS;
}

/* The slot of the name, or the free one where it belongs. */
static RengaOnnxBinding **Slot(const RengaOnnxScope *scope, const char *name, size_t length)
{
  size_t at = RengaHash(name, length, 0) % (size_t)scope->capacity;
  while (scope->slot[at] && !RengaOnnxIsName(scope->slot[at]->name, name, length))
    at = (at + 1) % (size_t)scope->capacity;
  return &scope->slot[at];
}

RengaOnnxBinding *RengaOnnxScopeFindPart(RengaOnnxScope *scope, const char *name, size_t length)
{
  for (; scope; scope = scope->outer) {
    RengaOnnxBinding *binding = scope->capacity ? *Slot(scope, name, length) : NULL;
    if (binding) return binding->alias ? binding->alias : binding;
  }
  return NULL;
}

RengaOnnxBinding *RengaOnnxScopeFind(RengaOnnxScope *scope, const char *name)
{
  return RengaOnnxScopeFindPart(scope, name, strlen(name));
}

static RengaErrorCode Enlarge(RengaOnnxImporter *importer, RengaOnnxScope *scope)
{
  RengaOnnxScope larger = *scope;
  larger.capacity = scope->capacity ? 2 * scope->capacity : 64;
  RengaCall(RengaOnnxAllocate(importer, larger.capacity, sizeof *larger.slot, &larger.slot));
  for (int i = 0; i < scope->capacity; i++)
    if (scope->slot[i])
      *Slot(&larger, scope->slot[i]->name, strlen(scope->slot[i]->name)) = scope->slot[i];
  *scope = larger;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxScopeAdd(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                 const char *name, RengaOnnxBinding **binding)
{
  if (2 * (scope->count + 1) > scope->capacity) RengaCall(Enlarge(importer, scope));
  RengaOnnxBinding **slot = Slot(scope, name, strlen(name));
  *binding = NULL;
  if (*slot) return RENGA_SUCCESS;
  RengaCall(RengaOnnxAllocate(importer, 1, sizeof **slot, slot));
  **slot = (RengaOnnxBinding){.name = name, .value = RENGA_VALUE_NONE};
  scope->count++;
  *binding = *slot;
  return RENGA_SUCCESS;
}
