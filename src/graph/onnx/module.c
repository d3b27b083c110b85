/* The modules of parameters and nodes, and the parameters that the file announces and has lost. */
#include "module.h"
#include "renga/private/number.h"
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

/* The last but one of a list: "['', 'a', 'a.b', 'linear_3']" */
static RengaErrorCode ReadLastButOne(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                     const char *property, char **found)
{
  const char *at, *name, *before = "";
  size_t length, before_length = 0, last = 0;
  char *text;
  RengaCall(RengaOnnxProperty(importer, &node->base, property, &text));
  at = text;
  for (const char *next = ""; at && RengaOnnxNextQuoted(&at, &name, &length); next = name) {
    before = next;
    before_length = last;
    last = length;
  }
  RengaCall(RengaOnnxCopyPart(importer, before, before_length, found));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadModule(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                 char **module)
{
  RengaCall(ReadLastButOne(importer, node, "pkg.torch.onnx.name_scopes", module));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxReadOrigin(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                   RengaOnnxOrigin *origin)
{
  RengaCall(ReadModule(importer, node, &origin->module));
  RengaCall(ReadLastButOne(importer, node, "pkg.torch.onnx.class_hierarchy", &origin->type));
  RengaCall(RengaOnnxProperty(importer, &node->base, "pkg.torch.onnx.stack_trace", &origin->trace));
  return RENGA_SUCCESS;
}

/* Is the word in a line of Python of the trace, and not in the name of a file? plural: or with s
   at its end; otherwise it is a member, self.word */
static bool IsInTrace(const char *trace, const char *word, size_t length, bool plural)
{
  bool code = false;
  for (const char *at = trace; at && *at && length > 0; at++) {
    const char *end = at + length;
    if (at == trace || at[-1] == '\n') code = strncmp(at + strspn(at, " "), "File \"", 6) != 0;
    if (!code || strncmp(at, word, length) != 0 || at == trace ||
        (plural ? RengaIsLetterOrDigit(at[-1]) || at[-1] == '_' : at[-1] != '.'))
      continue;
    end += plural && *end == 's';
    if (!RengaIsLetterOrDigit(*end) && *end != '_') return true;
  }
  return false;
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
      if (RengaOnnxScopeFindPart(mentioned, name, length)) continue;
      RengaCall(RengaOnnxCopyPart(importer, name, length, &copy));
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

/* A module that computes with another's parameter of the same name has its own tied to it: the
   embedding of a table that is also the last layer's. */
static RengaErrorCode MarkTied(RengaOnnxImporter *importer, const Onnx__NodeProto *node)
{
  const RengaOnnxBinding *named;
  char *text, *module, *target;
  RengaCall(RengaOnnxCall(importer, node, &text));
  const char *at = RengaOnnxCallArguments(text, NULL);
  while ((named = RengaOnnxNextParameter(importer, &at))) {
    RengaCall(ReadModule(importer, node, &module));
    RengaCall(RengaOnnxJoin(importer, module, *module ? "." : "", &target));
    RengaCall(RengaOnnxJoin(importer, target, RengaOnnxLastName(named->target), &target));
    RengaOnnxBinding *own = RengaOnnxScopeFind(importer->said, target);
    if (own && strcmp(named->target, target) != 0) own->found = true;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxFindMissing(RengaOnnxImporter *importer, RengaOnnxMissing *lost)
{
  const RengaOnnxScope *scope = importer->placeholders;
  RengaOnnxScope *mentioned;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &mentioned));
  RengaCall(ReadMentioned(importer, mentioned));
  for (size_t i = 0; i < importer->n_node; i++) RengaCall(MarkTied(importer, importer->node[i]));
  RengaCall(
      RengaOnnxAllocate(importer, scope->count, sizeof(RengaOnnxBinding *), &lost->parameter));
  lost->count = 0;
  for (int i = 0; i < scope->capacity; i++) {
    RengaOnnxBinding *named = scope->slot[i];
    if (!named || named->said != RENGA_ONNX_PARAMETER ||
        RengaOnnxScopeFind(importer->model_scope, named->target) ||
        RengaOnnxScopeFind(importer->said, named->target)->found ||
        RengaOnnxScopeFind(mentioned, named->name) || IsAnyFoldedFrom(importer, named->target))
      continue;
    lost->parameter[lost->count++] = named;
  }
  return RENGA_SUCCESS;
}

/* A lost parameter of the module with that last name; -1: none, or several where name is NULL. */
int RengaOnnxMissingIn(const RengaOnnxMissing *lost, const char *module, size_t length,
                       const char *name)
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

/* How close a module is to the node that reads, which shows that it computed with the module: 2: it
   is of the module, and does what another node does in the same type of module. 1: a line of Python
   that led to it has the module by name, which the reader's module or one outside of it holds. */
static int Closeness(const char *module, size_t length, const RengaOnnxOrigin *reader,
                     const char *type)
{
  const size_t outer = LengthOfOuter(module, length), name = outer + (outer > 0);
  if (strlen(reader->module) == length && memcmp(reader->module, module, length) == 0)
    return type && strcmp(reader->type, type) == 0 ? 2 : 0;
  return RengaOnnxIsInside(reader->module, module, outer) &&
         IsInTrace(reader->trace, module + name, length - name, false);
}

/* Has the module lost parameters of all these names? */
static bool MissesAll(const RengaOnnxMissing *lost, const RengaOnnxOwners *parameters,
                      const char *module, size_t length)
{
  for (int k = 0; k < parameters->count; k++)
    if (RengaOnnxMissingIn(lost, module, length, RengaOnnxLastName(parameters->old[k]->target)) < 0)
      return false;
  return true;
}

/* Has any module lost parameters like these, or has theirs one besides a single one? */
bool RengaOnnxIsLikeMissing(const RengaOnnxMissing *lost, const RengaOnnxOwners *parameters)
{
  const char *old = parameters->old[0]->target;
  for (int i = 0; i < lost->count; i++) {
    const char *target = lost->parameter[i]->target;
    const size_t length = RengaOnnxModuleLength(target);
    if (MissesAll(lost, parameters, target, length)) return true;
    if (parameters->count == 1 && RengaOnnxModuleLength(old) == length &&
        memcmp(old, target, length) == 0)
      return true;
  }
  return false;
}

bool RengaOnnxNamesMissing(const RengaOnnxMissing *lost, const RengaOnnxOrigin *reader)
{
  for (int i = 0; i < lost->count; i++) {
    const char *target = lost->parameter[i]->target;
    if (Closeness(target, RengaOnnxModuleLength(target), reader, NULL) > 0) return true;
  }
  return false;
}

/* The closest module that lost all, and of those as close the one that is deepest; NULL: none, or
   several. */
static const char *FindModule(const RengaOnnxMissing *lost, const RengaOnnxOwners *parameters,
                              const RengaOnnxOrigin *reader, const char *type, size_t *length)
{
  const char *found = NULL, *old = parameters->old[0]->target;
  size_t best = 0;
  for (int i = 0; i < lost->count; i++) {
    const char *module = lost->parameter[i] ? lost->parameter[i]->target : NULL;
    const size_t size = module ? RengaOnnxModuleLength(module) : 0;
    if (!module || strcmp(RengaOnnxLastName(module), RengaOnnxLastName(old)) != 0 ||
        !MissesAll(lost, parameters, module, size))
      continue;
    const int close = Closeness(module, size, reader, type);
    const size_t depth = close == 2 ? SIZE_MAX : close == 1 ? LengthOfOuter(module, size) + 1 : 0;
    if (depth == best) found = NULL;
    if (depth <= best) continue;
    best = depth;
    found = module;
    *length = size;
  }
  return found;
}

/* Gives the parameters of a module, or the one that is beside a single one in its own module, where
   a line of Python names it. */
bool RengaOnnxTakeMissing(RengaOnnxMissing *lost, RengaOnnxOwners *parameters,
                          const RengaOnnxOrigin *reader, const char *type)
{
  const char *old = parameters->old[0]->target, *module;
  size_t length = RengaOnnxModuleLength(old);
  for (int k = 1; k < parameters->count; k++)
    if (RengaOnnxModuleLength(parameters->old[k]->target) != length ||
        memcmp(parameters->old[k]->target, old, length) != 0)
      return false;
  int beside = parameters->count == 1 && RengaOnnxIsInside(reader->module, old, length)
                   ? RengaOnnxMissingIn(lost, old, length, NULL)
                   : -1;
  if (beside >= 0) {
    const char *name = RengaOnnxLastName(lost->parameter[beside]->target);
    if (!IsInTrace(reader->trace, name, strlen(name), true)) beside = -1;
  }
  module = FindModule(lost, parameters, reader, type, &length);
  if (module && beside >= 0) return false;
  for (int k = 0; k < parameters->count && (module || beside >= 0); k++) {
    const int at = module ? RengaOnnxMissingIn(lost, module, length,
                                               RengaOnnxLastName(parameters->old[k]->target))
                          : beside;
    parameters->other[k] = lost->parameter[at];
    lost->parameter[at] = NULL;
  }
  return module || beside >= 0;
}
