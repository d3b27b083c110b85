/* The modules of parameters and nodes, and the parameters that the file announces and has lost. */
#include "module.h"
#include <string.h>

/* ---- names of modules: a.b.weight is of a.b, which is in a, which is in the network, "" ---- */
size_t RengaOnnxModuleLength(const char *target)
{
  const char *dot = strrchr(target, '.');
  return dot ? (size_t)(dot - target) : 0;
}

static size_t LengthOfOuter(const char *module, size_t length)
{
  while (length > 0 && module[length - 1] != '.') length--;
  return length > 0 ? length - 1 : 0;
}

bool RengaOnnxIsInside(const char *inner, const char *outer, size_t length)
{
  return length == 0 ||
         (strncmp(inner, outer, length) == 0 && (inner[length] == '.' || inner[length] == '\0'));
}

const char *RengaOnnxLastName(const char *target)
{
  const char *dot = strrchr(target, '.');
  return dot ? dot + 1 : target;
}

/* The module whose forward wrote the node: "['', 'a', 'a.b', 'linear_3']" is of a.b. */
RengaErrorCode RengaOnnxModuleOf(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                 char **module)
{
  const char *at, *name, *before = "";
  size_t length, before_length = 0, last = 0;
  char *text;
  RengaCall(RengaOnnxProperty(importer, &node->base, "pkg.torch.onnx.name_scopes", &text));
  at = text;
  for (const char *next = ""; at && RengaOnnxNextQuoted(&at, &name, &length); next = name) {
    before = next;
    before_length = last;
    last = length;
  }
  RengaCall(RengaOnnxAllocate(importer, (int64_t)before_length + 1, 1, module));
  memcpy(*module, before, before_length);
  return RENGA_SUCCESS;
}

/* ---- parameters that are lost ---- */
static RengaErrorCode ReadMentioned(RengaOnnxImporter *importer, RengaOnnxScope *mentioned)
{
  for (size_t i = 0; i < importer->n_node; i++) {
    const char *at, *name;
    char *text, *copy;
    size_t length;
    RengaOnnxBinding *binding;
    RengaCall(RengaOnnxCall(importer, importer->node[i], &text));
    at = RengaOnnxCallArguments(text, NULL);
    while (at && RengaOnnxNextName(&at, &name, &length)) {
      RengaCall(RengaOnnxAllocate(importer, (int64_t)length + 1, 1, &copy));
      memcpy(copy, name, length);
      RengaCall(RengaOnnxScopeAdd(importer, mentioned, copy, &binding));
    }
  }
  return RENGA_SUCCESS;
}

static bool IsAnyFoldedFrom(const RengaOnnxImporter *importer, const char *parameter)
{
  for (int i = 0; i < importer->said->capacity; i++)
    if (importer->said->slot[i] && importer->said->slot[i]->folded_from &&
        RengaOnnxIsFoldedFrom(importer->said->slot[i], parameter))
      return true;
  return false;
}

RengaErrorCode RengaOnnxFindLost(RengaOnnxImporter *importer, RengaOnnxLost *lost)
{
  const RengaOnnxScope *scope = importer->placeholders;
  RengaOnnxScope *mentioned;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &mentioned));
  RengaCall(ReadMentioned(importer, mentioned));
  RengaCall(
      RengaOnnxAllocate(importer, scope->count, sizeof(RengaOnnxBinding *), &lost->parameter));
  lost->count = 0;
  for (int i = 0; i < scope->capacity; i++) {
    RengaOnnxBinding *named = scope->slot[i];
    if (!named || named->said != RENGA_ONNX_PARAMETER ||
        RengaOnnxScopeFind(importer->model_scope, named->target) ||
        RengaOnnxScopeFind(mentioned, named->name) || IsAnyFoldedFrom(importer, named->target))
      continue;
    lost->parameter[lost->count++] = named;
  }
  return RENGA_SUCCESS;
}

/* A lost parameter of the module with that last name; -1: none, or several where name is NULL. */
int RengaOnnxLostIn(const RengaOnnxLost *lost, const char *module, size_t length, const char *name)
{
  int found = -1;
  for (int i = 0; i < lost->count; i++) {
    const char *target = lost->parameter[i] ? lost->parameter[i]->target : NULL;
    if (!target || RengaOnnxModuleLength(target) != length || memcmp(target, module, length) != 0 ||
        (name && strcmp(RengaOnnxLastName(target), name) != 0))
      continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

/* How close a module is to the one that reads: 0: out of its reach. */
static size_t Closeness(const char *module, size_t length, const char *reader)
{
  const size_t outer = LengthOfOuter(module, length);
  if (length > 0 && RengaOnnxIsInside(reader, module, length)) return length + 2;
  return RengaOnnxIsInside(reader, module, outer) ? outer + 1 : 0;
}

/* Has the module lost parameters of all these names? */
static bool HasLostAll(const RengaOnnxLost *lost, const RengaOnnxOwners *parameters,
                       const char *module, size_t length)
{
  for (int k = 0; k < parameters->count; k++)
    if (RengaOnnxLostIn(lost, module, length, RengaOnnxLastName(parameters->old[k]->target)) < 0)
      return false;
  return true;
}

/* The closest module that lost all; NULL: none, or two are equally close. */
static const char *FindModule(const RengaOnnxLost *lost, const RengaOnnxOwners *parameters,
                              const char *reader, size_t *length)
{
  const char *found = NULL, *old = parameters->old[0]->target;
  size_t best = 0;
  for (int i = 0; i < lost->count; i++) {
    const char *module = lost->parameter[i] ? lost->parameter[i]->target : NULL;
    const size_t size = module ? RengaOnnxModuleLength(module) : 0;
    if (!module || strcmp(RengaOnnxLastName(module), RengaOnnxLastName(old)) != 0 ||
        !HasLostAll(lost, parameters, module, size))
      continue;
    const size_t close = Closeness(module, size, reader);
    if (close == best) found = NULL;
    if (close <= best) continue;
    best = close;
    found = module;
    *length = size;
  }
  return found;
}

/* Gives the parameters of a module, or the one that is beside a single one in its own module. */
bool RengaOnnxTakeLost(RengaOnnxLost *lost, RengaOnnxOwners *parameters, const char *reader)
{
  const char *old = parameters->old[0]->target, *module;
  size_t length = RengaOnnxModuleLength(old);
  for (int k = 1; k < parameters->count; k++)
    if (RengaOnnxModuleLength(parameters->old[k]->target) != length ||
        memcmp(parameters->old[k]->target, old, length) != 0)
      return false;
  const int beside = parameters->count == 1 && RengaOnnxIsInside(reader, old, length)
                         ? RengaOnnxLostIn(lost, old, length, NULL)
                         : -1;
  module = FindModule(lost, parameters, reader, &length);
  if (module && beside >= 0) return false;
  for (int k = 0; k < parameters->count && (module || beside >= 0); k++) {
    const int at = module ? RengaOnnxLostIn(lost, module, length,
                                            RengaOnnxLastName(parameters->old[k]->target))
                          : beside;
    parameters->other[k] = lost->parameter[at];
    lost->parameter[at] = NULL;
  }
  return module || beside >= 0;
}
