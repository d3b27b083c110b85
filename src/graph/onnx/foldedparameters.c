/* Parameters that the exporter's optimizer changed. An initializer that was computed from a
   parameter by moving its elements (a transposed weight) is trained in its place; where the
   parameter is in the file as well, the initializer becomes a node that moves it again. One that
   was computed in another way is an error: its gradient is not the parameter's. */
#include "module.h"
#include <string.h>

const char RengaOnnxExportAdvice[] =
    "export the network with torch.onnx.export(..., dynamo=True, optimize=False)";

/* ---- parameters that are made ---- */
/* A parameter that begins equal to the binding, which stood for it. */
RengaErrorCode RengaOnnxSeparate(RengaOnnxImporter *importer, RengaOnnxBinding *from,
                                 const RengaOnnxBinding *named, RengaOnnxBinding **made)
{
  RengaCall(RengaOnnxScopeAdd(importer, importer->model_scope, named->target, made));
  if (!*made) { /* by another node that reads it, or it is in the file in another form */
    RengaOnnxBinding *there = RengaOnnxScopeFind(importer->model_scope, named->target);
    char *name;
    *made = there;
    if (there->tensor == from->tensor) return RENGA_SUCCESS;
    RengaCall(RengaOnnxJoin(importer, named->target, " turned", &name));
    RengaCall(RengaOnnxScopeAdd(importer, importer->model_scope, name, made));
    if (!*made) *made = RengaOnnxScopeFind(importer->model_scope, name);
    (*made)->same = there;
  }
  (*made)->kind = RENGA_ONNX_TENSOR;
  (*made)->tensor = from->tensor;
  (*made)->spec = from->spec;
  RengaOnnxDecide(importer, *made);
  return RENGA_SUCCESS;
}

/* A bias that began as zeros, and that the file has not. */
RengaErrorCode RengaOnnxMakeZeros(RengaOnnxImporter *importer, const RengaOnnxBinding *named,
                                  int64_t count, RengaOnnxBinding **made)
{
  RengaCall(RengaOnnxScopeAdd(importer, importer->model_scope, named->target, made));
  if (!*made) {
    *made = RengaOnnxScopeFind(importer->model_scope, named->target);
    return RENGA_SUCCESS;
  }
  (*made)->kind = RENGA_ONNX_TENSOR;
  (*made)->spec = (RengaTensorSpec){.type = RENGA_FLOAT32, .ndim = 1, .dim = {count}};
  (*made)->zeros = true;
  RengaOnnxDecide(importer, *made);
  return RENGA_SUCCESS;
}

/* Is it a parameter or buffer of the module? */
static bool HasMetadata(const RengaOnnxImporter *importer, const char *name, size_t length)
{
  for (int i = 0; i < importer->placeholders->capacity; i++) {
    const RengaOnnxBinding *named = importer->placeholders->slot[i];
    if (named && RengaOnnxIsName(named->target, name, length)) return true;
  }
  return false;
}

/* ---- which folds move elements ---- */
/* Of val_3 the call has to say more. */
static bool IsOneOfFolds(const char *name, size_t length, const char *words)
{
  char word[32];
  if (length >= sizeof word) return false;
  snprintf(word, sizeof word, "%.*s", (int)RengaOnnxWithoutNumber(name, length), name);
  return RengaOnnxHasWord(words, word);
}

static const char moves[] = "val view reshape _unsafe_view permute transpose t unsqueeze squeeze "
                            "contiguous clone _to_copy flatten unflatten alias slice select split "
                            "getitem chunk unbind cat stack movedim zeros";
static const char numbering[] = "embedding add sub arange cumsum expand full ones";

/* Rows of a table that were looked up; the numbers of the rows were computed. */
static bool IsLookedUp(const RengaOnnxBinding *folded)
{
  return IsOneOfFolds(folded->name, strlen(folded->name), "embedding");
}

/* By its name, elements of a parameter in another place. */
bool RengaOnnxIsMoved(const RengaOnnxBinding *folded)
{
  return IsOneOfFolds(folded->name, strlen(folded->name), moves) || IsLookedUp(folded);
}

/* Of several results one: of a list of parts, unbind, which takes few steps, or of a normalisation,
   whose steps have no names but val_3. */
static bool IsComputedResult(const RengaOnnxBinding *folded)
{
  enum { STEPS_MAX = 6 };
  const char *list = folded->folded_from, *name;
  bool one = IsOneOfFolds(folded->name, strlen(folded->name), "getitem");
  size_t length;
  int steps = 0;
  while (RengaOnnxNextQuoted(&list, &name, &length)) {
    one = one || IsOneOfFolds(name, length, "getitem");
    steps += IsOneOfFolds(name, length, "val");
  }
  return one && steps > STEPS_MAX;
}

static bool IsMovedAlone(const RengaOnnxImporter *importer, const RengaOnnxBinding *folded)
{
  const bool looked_up = IsLookedUp(folded);
  const char *list = folded->folded_from, *name;
  size_t length;
  bool moved = !folded->scaled && !IsComputedResult(folded) &&
               (looked_up || IsOneOfFolds(folded->name, strlen(folded->name), moves));
  while (moved && RengaOnnxNextQuoted(&list, &name, &length))
    moved = IsOneOfFolds(name, length, moves) ||
            (looked_up && IsOneOfFolds(name, length, numbering)) ||
            HasMetadata(importer, name, length);
  return moved;
}

/* ---- data ---- */
static RengaErrorCode HasEqualRows(RengaOnnxImporter *importer, const RengaOnnxBinding *folded,
                                   bool *has)
{
  enum { ROWS_MAX = 1 << 14 };
  RengaTensorSpec spec;
  char *data;
  RengaCall(RengaOnnxTensorRead(importer, folded->tensor, &spec, (void **)&data));
  const int64_t width = spec.ndim > 0 ? spec.dim[spec.ndim - 1] : 1;
  const int64_t rows = width > 0 ? RengaTensorSpecCount(&spec) / width : 0;
  const size_t bytes = (size_t)width * sizeof(float);
  *has = rows > ROWS_MAX;
  for (int64_t i = 0; i < rows && !*has; i++)
    for (int64_t k = 0; k < i && !*has; k++)
      *has = memcmp(data + (size_t)i * bytes, data + (size_t)k * bytes, bytes) == 0;
  return RENGA_SUCCESS;
}

static bool IsTransposed(const RengaTensorSpec *spec, const float *a, const float *b)
{
  const int64_t rows = spec->dim[0], columns = spec->dim[1];
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < columns; k++)
      if (memcmp(&a[i * columns + k], &b[k * rows + i], sizeof *a) != 0) return false;
  return true;
}

/* Is x the other one, transposed or in another shape? */
static RengaErrorCode IsSameMoved(RengaOnnxImporter *importer, RengaOnnxBinding *x,
                                  const RengaOnnxBinding *other, bool *same)
{
  RengaTensorSpec a, b;
  float *x_data, *other_data;
  *same = false;
  if (!other->tensor || x->spec.type != RENGA_FLOAT32 || other->spec.type != RENGA_FLOAT32 ||
      RengaTensorSpecCount(&x->spec) != RengaTensorSpecCount(&other->spec))
    return RENGA_SUCCESS;
  RengaCall(RengaOnnxTensorRead(importer, x->tensor, &a, (void **)&x_data));
  RengaCall(RengaOnnxTensorRead(importer, other->tensor, &b, (void **)&other_data));
  x->turned = a.ndim == 2 && b.ndim == 2 && a.dim[0] == b.dim[1] && a.dim[1] == b.dim[0] &&
              IsTransposed(&a, x_data, other_data);
  *same = x->turned || memcmp(x_data, other_data, RengaTensorSpecBytes(&a)) == 0;
  return RENGA_SUCCESS;
}

/* Two parts of one parameter have no number in common. */
static RengaErrorCode AreApart(RengaOnnxImporter *importer, const RengaOnnxBinding *a,
                               const RengaOnnxBinding *b, bool *apart)
{
  enum { LOOKED_AT = 64 };
  RengaTensorSpec spec;
  float *x, *y;
  RengaCall(RengaOnnxTensorRead(importer, a->tensor, &spec, (void **)&x));
  RengaCall(RengaOnnxTensorRead(importer, b->tensor, &spec, (void **)&y));
  const int64_t n = RengaTensorSpecCount(&a->spec), m = RengaTensorSpecCount(&b->spec);
  *apart = true;
  for (int64_t i = 0; i < n && i < LOOKED_AT && *apart; i++)
    for (int64_t k = 0; k < m && *apart; k++) *apart = memcmp(&x[i], &y[k], sizeof *x) != 0;
  return RENGA_SUCCESS;
}

/* ---- the check ---- */
/* The parameter is trained through its elements in another place, or as it was before. */
static RengaErrorCode CheckMoved(RengaOnnxImporter *importer, RengaOnnxBinding *folded,
                                 RengaOnnxBinding *said, bool alone)
{
  const char *parameter = said->name;
  bool moved = IsMovedAlone(importer, folded), twice = false;
  if (moved && IsLookedUp(folded)) RengaCall(HasEqualRows(importer, folded, &twice));
  if (!moved && alone) RengaCall(RengaOnnxUndo(importer, folded, said, &moved));
  RengaCheck(moved && !twice, importer->comm, RENGA_ERR_SUPPORT,
             "%s: the exporter's optimizer computed \"%s\" from parameter \"%s\", which cannot be "
             "trained through it: %s, or freeze it with -graph_frozen %s",
             importer->file, folded->name, parameter, RengaOnnxExportAdvice, parameter);
  return RENGA_SUCCESS;
}

/* The parameter itself, or its first form, if the file has it besides. */
static RengaErrorCode TieForms(RengaOnnxImporter *importer, RengaOnnxBinding *folded,
                               RengaOnnxBinding *said)
{
  RengaOnnxBinding *other = RengaOnnxScopeFind(importer->model_scope, said->name);
  bool same, apart = false;
  if (!other) other = said->form;
  if (!other) {
    said->form = folded;
    return RENGA_SUCCESS;
  }
  RengaCall(IsSameMoved(importer, folded, other, &same));
  if (!same && other == said->form) RengaCall(AreApart(importer, folded, other, &apart));
  RengaCheck(same || apart, importer->comm, RENGA_ERR_SUPPORT,
             "%s: parameter \"%s\" is in the file in two forms, \"%s\" and \"%s\", which training "
             "would part: %s",
             importer->file, said->name, other->name, folded->name, RengaOnnxExportAdvice);
  if (same) folded->same = other;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOne(RengaOnnxImporter *importer, RengaOnnxBinding *folded)
{
  bool frozen = true;
  int count = 0;
  RengaOnnxBinding *last = NULL;
  for (int i = 0; i < importer->said->capacity; i++) {
    RengaOnnxBinding *said = importer->said->slot[i];
    if (!said || said->said != RENGA_ONNX_PARAMETER || !RengaOnnxIsFoldedFrom(folded, said->name))
      continue;
    said->found = true;
    frozen = frozen && RengaGraphChoose_Private(importer->graph, said->name) == RENGA_GRAPH_FROZEN;
    last = said;
    count++;
  }
  if (frozen || !last) {
    folded->trainable = false;
    return RENGA_SUCCESS;
  }
  RengaCall(CheckMoved(importer, folded, last, count == 1));
  if (count == 1 && !folded->undone) RengaCall(TieForms(importer, folded, last));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSameFold(RengaOnnxImporter *importer, RengaOnnxBinding *binding)
{
  bool same;
  if (!binding->same || !binding->trainable || binding->undone) return RENGA_SUCCESS;
  RengaCall(IsSameMoved(importer, binding, binding->same, &same));
  RengaCheck(same, importer->comm, RENGA_ERR_SUPPORT,
             "%s: parameter \"%s\" is in the file in two forms, which training would part: %s",
             importer->file, binding->same->name, RengaOnnxExportAdvice);
  return RENGA_SUCCESS;
}

/* Parameters that are given back come to the names while this goes on. */
RengaErrorCode RengaOnnxCheckFolded(RengaOnnxImporter *importer)
{
  const RengaOnnxScope *scope = importer->model_scope;
  RengaOnnxBinding **binding;
  int count = 0;
  RengaCall(RengaOnnxAllocate(importer, scope->count, sizeof(RengaOnnxBinding *), &binding));
  for (int i = 0; i < scope->capacity; i++)
    if (scope->slot[i] && RengaDataTypeIsFloating(scope->slot[i]->spec.type))
      binding[count++] = scope->slot[i];
  for (int i = 0; i < count; i++) {
    if (binding[i]->said == RENGA_ONNX_FOLDED && !binding[i]->same)
      RengaCall(CheckOne(importer, binding[i]));
    RengaCall(CheckSameFold(importer, binding[i]));
  }
  return RENGA_SUCCESS;
}
