/* The shape of a stage: one row for each of its fields says how it is named and what it may be.
   Comparing, printing, files and checks go by the rows. */
#include "planimpl.h"
#include "renga/private/choice.h"
#include "renga/private/op.h"
#include <string.h>

static const char *const shards[] = {RENGA_SHARD_WORDS(RENGA_WORD, RENGA_WORD) NULL};
static const char *const policies[] = {"keep", "recompute", "offload", NULL};
static const char *const precisions[] = {RENGA_PRECISION_WORDS(RENGA_WORD, RENGA_WORD) NULL};
enum { FIRST_SHARD = -RENGA_SHARD_AUTO }; /* of a stage: it is settled */

/*@
   RengaShardName - the ZeRO stage in a word

   Input:
   . shard - auto, none, optimizer (masters and moments), gradients or parameters; NULL is returned
     for what is none of these

   Notes: the words of -layout_zero, and of plans.

   See also: RengaSettingsSetShard()
@*/
const char *RengaShardName(RengaShard shard)
{
  const int word = (int)shard + FIRST_SHARD;
  return word >= 0 && shard <= RENGA_SHARD_PARAMETERS ? shards[word] : NULL;
}

/* A field is a number of at least 1, or one of the words. */
static const struct {
  const char *name;
  const char *const *words; /* NULL: a number */
  const char *noun;         /* of a sentence: %s is the number or word */
} fields[RENGA_PLAN_SHAPE_FIELDS] = {
    {"replicas", NULL, "%s replicas"},
    {"tensor", NULL, "%s tensor-parallel ranks"},
    {"context", NULL, "%s context-parallel ranks"},
    {"shard", shards + FIRST_SHARD, "sharding of %s over replicas"},
    {"saved", policies, "policy %s of saved activations"},
    {"precision", precisions, "precision %s"},
    {"chunks", NULL, "%s chunks per rank"},
};

/* The fields in the order of their rows. */
static void GetShapeFields(const RengaStageShape *shape, int value[RENGA_PLAN_SHAPE_FIELDS])
{
  const int all[RENGA_PLAN_SHAPE_FIELDS] = {
      shape->replicas,   shape->tensor,         shape->sequence, (int)shape->shard,
      (int)shape->saved, (int)shape->precision, shape->chunks};
  memcpy(value, all, sizeof all);
}

static RengaStageShape MakeShape(const int value[RENGA_PLAN_SHAPE_FIELDS])
{
  return (RengaStageShape){.replicas = value[0],
                           .tensor = value[1],
                           .sequence = value[2],
                           .shard = (RengaShard)value[3],
                           .saved = (RengaSaved)value[4],
                           .precision = (RengaPrecision)value[5],
                           .chunks = value[6]};
}

int64_t RengaPlanCountRanks_Private(const RengaStageShape *shape)
{
  const int64_t most = RENGA_PLAN_RANKS_MOST, each = (int64_t)shape->tensor * shape->sequence;
  return each > most || shape->replicas > most ? most + 1 : each * shape->replicas;
}

static int CountWords(int field)
{
  int count = 0;
  while (fields[field].words[count]) count++;
  return count;
}

static bool IsOne(int field, int value)
{
  return fields[field].words ? value >= 0 && value < CountWords(field) : value >= 1;
}

const char *RengaPlanShapeFieldName_Private(int field)
{
  return fields[field].name;
}

int RengaPlanGetShapeField_Private(const RengaStageShape *shape, int field)
{
  int value[RENGA_PLAN_SHAPE_FIELDS];
  GetShapeFields(shape, value);
  return value[field];
}

/* A number of a file in words: as it will be read again. */
void RengaPlanFormatShapeField_Private(const RengaStageShape *shape, int field, size_t size,
                                       char text[])
{
  const int value = RengaPlanGetShapeField_Private(shape, field);
  if (fields[field].words && IsOne(field, value))
    snprintf(text, size, "%s", fields[field].words[value]);
  else
    snprintf(text, size, "%d", value);
}

/* What the first files of version 4 say where nothing is sharded. */
static const char *NewWord(int field, const char *word)
{
  const char *const *words = fields[field].words;
  return words == shards + FIRST_SHARD && !strcmp(word, "nothing") ? words[0] : word;
}

/* false: the word is none of the field's. */
bool RengaPlanSetShapeField_Private(RengaStageShape *shape, int field, const char *word)
{
  int value[RENGA_PLAN_SHAPE_FIELDS], taken = 0;
  GetShapeFields(shape, value);
  word = NewWord(field, word);
  if (fields[field].words) {
    const int count = CountWords(field);
    for (value[field] = 0; value[field] < count; value[field]++)
      if (!strcmp(word, fields[field].words[value[field]])) break;
  } else if (strlen(word) > 9 || sscanf(word, "%d%n", &value[field], &taken) != 1 || word[taken])
    return false;
  if (!IsOne(field, value[field])) return false;
  *shape = MakeShape(value);
  return true;
}

static void FormatNoun(const RengaStageShape *shape, int field, size_t size, char text[])
{
  char word[32];
  RengaPlanFormatShapeField_Private(shape, field, sizeof word, word);
  snprintf(text, size, fields[field].noun, word);
}

/* "1", or "fp32, bf16 or fp16". */
static void FormatChoice(int field, size_t size, char text[])
{
  const int last = fields[field].words ? CountWords(field) - 1 : 0;
  size_t used = 0;
  if (!fields[field].words) snprintf(text, size, "1");
  for (int w = 0; fields[field].words && w <= last && used < size; w++)
    used += (size_t)snprintf(text + used, size - used, "%s%s",
                             !w          ? ""
                             : w == last ? " or "
                                         : ", ",
                             fields[field].words[w]);
}

RengaErrorCode RengaPlanCheckShape_Private(RengaPlan plan, int s, const RengaStageShape *shape)
{
  char what[64], wanted[64];
  for (int f = 0; f < RENGA_PLAN_SHAPE_FIELDS; f++) {
    if (IsOne(f, RengaPlanGetShapeField_Private(shape, f))) continue;
    FormatNoun(shape, f, sizeof what, what);
    FormatChoice(f, sizeof wanted, wanted);
    RengaRaise(plan->hdr.comm, RENGA_ERR_PLAN, "stage %d has %s: %s%s is needed", s, what,
               fields[f].words ? "" : "at least ", wanted);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaStageShapePlain - the shape of a stage that is as simple as can be

   Input:
   . replicas - the number of ranks that compute the stage, each some of the micro-batches; at least
     1

   Notes: returned is a shape of one tensor-parallel rank and one context-parallel rank per replica,
   that shards nothing, keeps all saved activations, computes in fp32 and has one chunk per rank. A
   program changes the fields that are to be otherwise.

   See also: RengaPlanSetStages()
@*/
RengaStageShape RengaStageShapePlain(int replicas)
{
  return (RengaStageShape){.replicas = replicas, .tensor = 1, .sequence = 1, .chunks = 1};
}

/* Find out whether two shapes are the same. one, other: the shapes; true is returned where all
   their fields are equal. */
bool RengaStageShapeEqual(const RengaStageShape *one, const RengaStageShape *other)
{
  int a[RENGA_PLAN_SHAPE_FIELDS], b[RENGA_PLAN_SHAPE_FIELDS];
  RengaCheckHandle(one, false);
  RengaCheckHandle(other, false);
  GetShapeFields(one, a);
  GetShapeFields(other, b);
  return !memcmp(a, b, sizeof a);
}

/* A shape in words. size: bytes of text, at least 1. text: the text, such as "2 replicas, saved
   recompute": replicas, then name and value of each field that is not as RengaStageShapePlain()
   makes it. It is cut off where there is no room. */
RengaErrorCode RengaStageShapeFormat(const RengaStageShape *shape, size_t size, char text[])
{
  char word[32];
  RengaCheckPointers(shape, text);
  const RengaStageShape plain = RengaStageShapePlain(shape->replicas);
  size_t used = (size_t)snprintf(text, size, "%d replica%s", shape->replicas,
                                 shape->replicas == 1 ? "" : "s");
  for (int f = 1; f < RENGA_PLAN_SHAPE_FIELDS && used < size; f++) {
    if (RengaPlanGetShapeField_Private(shape, f) == RengaPlanGetShapeField_Private(&plain, f))
      continue;
    RengaPlanFormatShapeField_Private(shape, f, sizeof word, word);
    used += (size_t)snprintf(text + used, size - used, ", %s %s", fields[f].name, word);
  }
  return RENGA_SUCCESS;
}
