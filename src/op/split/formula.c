/* From a formula (splitimpl.h) to the ways of a call: an axis for each letter. */
#include "splitimpl.h"
#include "renga/private/number.h"
#include <string.h>

enum { STAR = 256 }; /* label of the last dimension of *; those before it follow */

/* An axis on a dimension of a tensor; inputs come first. */
typedef struct {
  int label, tensor;
  int64_t extent;
  RengaSplit split;
} Lie;

typedef struct {
  const RengaOpCall *call;
  const RengaFormula *formula;
  int count;
  Lie *lie;
  bool *added; /* [n_in] words with + */
} Reader;

static RengaErrorCode PutLie(Reader *reader, int label, int tensor, int64_t extent,
                             RengaSplit split)
{
  RengaCall(RengaRealloc(reader->count + 1, &reader->lie));
  reader->lie[reader->count++] = (Lie){label, tensor, extent, split};
  return RENGA_SUCCESS;
}

/* Dimensions that the signs of [text, end) stand for; star: where * or ~ is, -1 where it is not. */
static int CountSigns(const char *text, const char *end, int *star)
{
  int count = 0;
  *star = -1;
  for (const char *at = text; at < end; at++) {
    if (*at == '(') at = strchr(at, ')');
    if (*at == '*' || *at == '~')
      *star = count;
    else if (*at != '.')
      count++;
  }
  return count;
}

/* One dimension of (gx) or (rx). */
static RengaErrorCode ReadGroupSign(Reader *reader, const char *sign, int tensor, int dim,
                                    int64_t extent)
{
  const int64_t groups = reader->formula->groups;
  if (groups < 1 || extent % groups) return RENGA_SUCCESS;
  if (sign[1] == 'g')
    RengaCall(PutLie(reader, 'g', tensor, groups,
                     (RengaSplit){RENGA_SPLIT_ALONG, dim, 1, extent / groups}));
  if (RengaIsLetter(sign[2]))
    RengaCall(PutLie(reader, sign[2], tensor, extent / groups,
                     (RengaSplit){RENGA_SPLIT_ALONG, dim, groups, 1}));
  return RENGA_SUCCESS;
}

/* A word against a shape. Dimensions that are missing on the left are broadcast. */
static RengaErrorCode ReadWord(Reader *reader, const char *text, const char *end, int tensor,
                               const RengaTensorSpec *spec)
{
  int star, signs = CountSigns(text, end, &star), many = star < 0 ? 0 : spec->ndim - signs;
  if (many < 0) many = 0;
  int dim = spec->ndim - signs - many; /* below 0: the word is longer than the shape */
  for (const char *at = text; at < end; at++) {
    if (*at == '.') continue;
    if (*at == '*' || *at == '~') {
      for (int k = many; k > 0; k--, dim++)
        if (*at == '*')
          RengaCall(PutLie(reader, STAR + k, tensor, spec->dim[dim],
                           (RengaSplit){RENGA_SPLIT_ALONG, dim, 1, 1}));
      continue;
    }
    if (dim >= 0 && *at == '(')
      RengaCall(ReadGroupSign(reader, at, tensor, dim, spec->dim[dim]));
    else if (dim >= 0 && RengaIsLetter(*at))
      RengaCall(
          PutLie(reader, *at, tensor, spec->dim[dim], (RengaSplit){RENGA_SPLIT_ALONG, dim, 1, 1}));
    if (*at == '(') at = strchr(at, ')');
    dim++;
  }
  return RENGA_SUCCESS;
}

/* The words of one side; returns where the next begins. */
static RengaErrorCode ReadSide(Reader *reader, const char **at, int n, int before,
                               const RengaTensorSpec specs[])
{
  const char *word = NULL, *end = NULL;
  for (int i = 0; i < n; i++) {
    const char *next = *at + strspn(*at, " ");
    if (*next && *next != '>') {
      word = next;
      end = word + strcspn(word, " >");
      *at = end;
    }
    if (!word || specs[i].ndim < 0) continue;
    const bool added = *word == '+';
    if (added && before == 0) reader->added[i] = true;
    RengaCall(ReadWord(reader, word + added, end, before + i, &specs[i]));
  }
  return RENGA_SUCCESS;
}

/* The extent of an axis; 0 where dimensions disagree, for then it is none. */
static int64_t AxisExtent(const Reader *reader, int label)
{
  int64_t extent = 1;
  for (int i = 0; i < reader->count; i++) {
    const Lie *lie = &reader->lie[i];
    if (lie->label != label || lie->extent == 1) continue;
    if (extent != 1 && lie->extent != extent) return 0;
    extent = lie->extent;
  }
  return extent;
}

/* Random numbers follow from places; where none are drawn (ratio 0), places do not matter. */
static RengaLaneNeed LaneNeedOf(const RengaOpCall *call, int label)
{
  if (label == 'v') return RENGA_LANE_INDICES;
  if (!(call->op->flags & RENGA_OP_RANDOM)) return RENGA_LANE_ALONE;
  const bool always = strstr(call->op->attributes, "ratio:") == NULL;
  return always || RengaOpCallReal(call, "ratio") > 0 ? RENGA_LANE_PLACE : RENGA_LANE_ALONE;
}

/* Which keys a causal query sees follows from its place. */
static const char *ShiftedOf(const RengaOpCall *call, int label)
{
  const bool causal = label == 't' && call->op->attributes &&
                      strstr(call->op->attributes, "causal:") && RengaOpCallInt(call, "causal");
  return causal ? "first" : NULL;
}

/* Outputs without the axis are sums, and what is added once is a term of them. False where such an
   output cannot be one: integers and truth values are not added up over lanes. */
static bool MarkSums(const Reader *reader, RengaSplitWay *way)
{
  const RengaOpCall *call = reader->call;
  bool sums = false;
  for (int o = 0; o < call->n_out; o++)
    if (way->out[o].kind == RENGA_SPLIT_WHOLE && call->out[o].ndim >= 0) {
      if (!RengaDataTypeIsFloating(call->out[o].type)) return false;
      way->out[o].kind = RENGA_SPLIT_SUM;
      sums = true;
    }
  for (int i = 0; i < call->n_in && sums; i++)
    if (reader->added[i] && way->in[i].kind == RENGA_SPLIT_WHOLE) way->in[i].kind = RENGA_SPLIT_SUM;
  return true;
}

static RengaErrorCode AddAxis(const Reader *reader, int label, const RengaSplitRule *rule,
                              RengaSplitWays *ways)
{
  const RengaOpCall *call = reader->call;
  const int64_t extent = AxisExtent(reader, label);
  RengaSplitWay *way = NULL;
  if (extent < 2) return RENGA_SUCCESS;
  RengaCall(RengaSplitWaysAdd_Private(call, extent, ways, &way));
  if (!call->op->split) way->need = LaneNeedOf(call, label);
  if (!call->op->split) way->shifted = ShiftedOf(call, label);
  if (rule && (label == 'g' || label == 'x')) way->scaled = rule->scaled;
  for (int i = 0; i < reader->count; i++) {
    const Lie *lie = &reader->lie[i];
    if (lie->label != label || lie->extent != extent) continue;
    *(lie->tensor < call->n_in ? &way->in[lie->tensor] : &way->out[lie->tensor - call->n_in]) =
        lie->split;
  }
  if (!MarkSums(reader, way)) {
    RengaFree(&way->in);
    ways->count--;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddAxes(Reader *reader, const RengaSplitRule *rule, RengaSplitWays *ways)
{
  const char *at = reader->formula->text;
  RengaCall(RengaMalloc(reader->call->n_in + 1, &reader->added));
  for (int i = 0; i < reader->call->n_in; i++) reader->added[i] = false;
  RengaCall(ReadSide(reader, &at, reader->call->n_in, 0, reader->call->in));
  at = strchr(reader->formula->text, '>') + 1;
  RengaCall(ReadSide(reader, &at, reader->call->n_out, reader->call->n_in, reader->call->out));
  for (int i = 0; i < reader->count; i++) {
    bool first = true;
    for (int j = 0; j < i; j++) first = first && reader->lie[j].label != reader->lie[i].label;
    if (first) RengaCall(AddAxis(reader, reader->lie[i].label, rule, ways));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFormulaGetWays_Private(const RengaOpCall *call, const RengaFormula *formula,
                                           const RengaSplitRule *rule, RengaSplitWays *ways)
{
  Reader reader = {.call = call, .formula = formula};
  const RengaErrorCode code = AddAxes(&reader, rule, ways);
  RengaFree(&reader.lie);
  RengaFree(&reader.added);
  RengaCall(code);
  return RENGA_SUCCESS;
}
