/* Data: normalizers of a tokenizer.json, which change a text before it is split. */
#include "steps.h"
#include <string.h>

typedef struct NormalStep NormalStep;
typedef RengaErrorCode (*NormalFunction)(const NormalStep *step, const RengaSignText *from,
                                         RengaSignText *to);
struct NormalStep {
  NormalFunction apply;
  RengaExpression *pattern;            /* of Replace */
  char *content;                       /* of Replace and Prepend */
  bool left, right;                    /* of Strip */
  bool composed;                       /* NFC, not NFD */
  bool clean, chinese, accents, small; /* of BertNormalizer; accents: they are stripped */
  /* of Precompiled: a trie of double arrays, and texts that its leaves begin */
  uint32_t *unit, n_units;
  unsigned char *replaced;
  int64_t replaced_bytes;
};
struct RengaNormalizer {
  int count, room;
  NormalStep *step;
};

static int64_t PlaceOfByte(const RengaSignText *text, int64_t i)
{
  return text->at ? text->at[i] : i;
}

static RengaErrorCode ApplyCanonical(const NormalStep *step, const RengaSignText *from,
                                     RengaSignText *to)
{
  RengaCall(RengaSignNormalize_Private(from, step->composed, to));
  return RENGA_SUCCESS;
}

/* Marks that take no room of their own are left out. */
static bool IsAccent(uint32_t code)
{
  return RengaSignCategory_Private(code) == RengaSignCategories_Private("Mn", 2);
}

static RengaErrorCode AddSmall(const RengaSignText *from, int64_t i, uint32_t code,
                               RengaSignText *to)
{
  if (code == 0x130) { /* two signs in small letters */
    RengaCall(RengaSignTextAddSign_Private(to, 'i', PlaceOfByte(from, i)));
    code = 0x307;
  }
  RengaCall(RengaSignTextAddSign_Private(to, RengaSignSmall_Private(code), PlaceOfByte(from, i)));
  return RENGA_SUCCESS;
}

static RengaErrorCode ApplySmall(const NormalStep *step, const RengaSignText *from,
                                 RengaSignText *to)
{
  uint32_t code = 0;
  (void)step;
  for (int64_t i = 0; i < from->length;) {
    const int bytes = RengaSignDecode_Private(from->bytes, i, from->length, &code);
    RengaCall(AddSmall(from, i, code, to));
    i += bytes;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ApplyStripAccents(const NormalStep *step, const RengaSignText *from,
                                        RengaSignText *to)
{
  const uint32_t marks = RengaSignCategories_Private("M", 1);
  uint32_t code = 0;
  for (int64_t i = 0; i < from->length;) {
    const int bytes = RengaSignDecode_Private(from->bytes, i, from->length, &code);
    const bool left_out =
        step->accents ? IsAccent(code) : (RengaSignCategory_Private(code) & marks) != 0;
    if (!left_out) RengaCall(RengaSignTextAddSign_Private(to, code, PlaceOfByte(from, i)));
    i += bytes;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ApplyReplace(const NormalStep *step, const RengaSignText *from,
                                   RengaSignText *to)
{
  uint32_t code = 0;
  for (int64_t i = 0; i < from->length;) {
    const int64_t stop = RengaExpressionMatch_Private(step->pattern, from->bytes, i, from->length);
    if (stop == RENGA_EXPRESSION_TOO_HARD)
      RengaCall(RengaExpressionRaise_Private(step->pattern, i));
    if (stop > i) {
      RengaCall(RengaSignTextAdd_Private(to, step->content, (int64_t)strlen(step->content),
                                         PlaceOfByte(from, i)));
      i = stop;
    } else {
      const int bytes = RengaSignDecode_Private(from->bytes, i, from->length, &code);
      RengaCall(RengaSignTextAdd_Private(to, from->bytes + i, bytes, PlaceOfByte(from, i)));
      i += bytes;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyRest(const RengaSignText *from, int64_t begin, int64_t end,
                               RengaSignText *to)
{
  if (!to->places) {
    RengaCall(RengaSignTextAdd_Private(to, from->bytes + begin, end - begin, 0));
    return RENGA_SUCCESS;
  }
  for (int64_t i = begin; i < end; i++)
    RengaCall(RengaSignTextAdd_Private(to, from->bytes + i, 1, PlaceOfByte(from, i)));
  return RENGA_SUCCESS;
}

static RengaErrorCode ApplyPrepend(const NormalStep *step, const RengaSignText *from,
                                   RengaSignText *to)
{
  if (from->length > 0)
    RengaCall(RengaSignTextAdd_Private(to, step->content, (int64_t)strlen(step->content),
                                       PlaceOfByte(from, 0)));
  RengaCall(CopyRest(from, 0, from->length, to));
  return RENGA_SUCCESS;
}

static RengaErrorCode ApplyStrip(const NormalStep *step, const RengaSignText *from,
                                 RengaSignText *to)
{
  int64_t begin = 0, end = from->length;
  uint32_t code = 0;
  while (step->left && begin < end) {
    const int bytes = RengaSignDecode_Private(from->bytes, begin, end, &code);
    if (!RengaSignIsWhite_Private(code)) break;
    begin += bytes;
  }
  while (step->right && end > begin) {
    int64_t last = end - 1;
    while (last > begin && (from->bytes[last] & 0xc0) == 0x80) last--;
    RengaSignDecode_Private(from->bytes, last, end, &code);
    if (!RengaSignIsWhite_Private(code)) break;
    end = last;
  }
  RengaCall(CopyRest(from, begin, end, to));
  return RENGA_SUCCESS;
}

/* ---- BERT ---- */
static bool IsChinese(uint32_t code)
{
  static const uint32_t ranges[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                       {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                       {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (code >= ranges[i][0] && code <= ranges[i][1]) return true;
  return false;
}

static bool IsNoText(uint32_t code)
{
  const uint32_t others =
      RengaSignCategories_Private("C", 1) & ~RengaSignCategories_Private("Cn", 2);
  if (code == '\t' || code == '\n' || code == '\r') return false;
  return code == 0 || code == 0xfffd || (RengaSignCategory_Private(code) & others);
}

static RengaErrorCode AddCleanSign(const NormalStep *step, uint32_t code, int64_t at,
                                   RengaSignText *to)
{
  if (step->clean && IsNoText(code)) return RENGA_SUCCESS;
  if (step->clean && RengaSignIsWhite_Private(code)) code = ' ';
  const bool chinese = step->chinese && IsChinese(code);
  if (chinese) RengaCall(RengaSignTextAddSign_Private(to, ' ', at));
  RengaCall(RengaSignTextAddSign_Private(to, code, at));
  if (chinese) RengaCall(RengaSignTextAddSign_Private(to, ' ', at));
  return RENGA_SUCCESS;
}

static RengaErrorCode ApplyClean(const NormalStep *step, const RengaSignText *from,
                                 RengaSignText *to)
{
  uint32_t code = 0;
  for (int64_t i = 0; i < from->length;) {
    const int bytes = RengaSignDecode_Private(from->bytes, i, from->length, &code);
    RengaCall(AddCleanSign(step, code, PlaceOfByte(from, i), to));
    i += bytes;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ApplyBert(const NormalStep *step, const RengaSignText *from,
                                RengaSignText *to)
{
  const NormalStep accents = {.accents = true};
  RengaSignText clean = {.places = to->places}, apart = clean, bare = clean;
  RengaErrorCode code = ApplyClean(step, from, &clean);
  const RengaSignText *now = &clean;
  if (!code && step->accents) {
    code = RengaSignNormalize_Private(now, false, &apart);
    if (!code) code = ApplyStripAccents(&accents, &apart, &bare);
    now = &bare;
  }
  if (!code) code = step->small ? ApplySmall(step, now, to) : CopyRest(now, 0, now->length, to);
  RengaSignTextFree_Private(&clean);
  RengaSignTextFree_Private(&apart);
  RengaSignTextFree_Private(&bare);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* ---- the trie of sentencepiece: a double array as of darts-clone ---- */
/* The longest key that the text at a place begins with; its text begins at *value. 0: there is
   none. */
static int64_t FindPrecompiled(const NormalStep *step, const unsigned char text[], int64_t length,
                               uint32_t *value)
{
  const uint32_t *unit = step->unit;
  int64_t found = 0;
  uint32_t node = 0;
#define OFFSET(u) (((u) >> 10) << (((u)&0x200u) >> 6))
  node ^= OFFSET(unit[0]);
  for (int64_t i = 0; i < length; i++) {
    if (text[i] == 0) break;
    node ^= text[i];
    if (node >= step->n_units || (unit[node] & 0x800000ffu) != text[i]) break;
    const uint32_t here = unit[node];
    node ^= OFFSET(here);
    if (node >= step->n_units) break;
    if (here >> 8 & 1) {
      *value = unit[node] & 0x7fffffffu;
      found = i + 1;
      return found; /* tokenizers takes the first key, which is the shortest */
    }
  }
#undef OFFSET
  return found;
}

/* The text of a key, which a zero ends. */
static RengaErrorCode AddReplaced(const NormalStep *step, uint32_t value, int64_t at,
                                  RengaSignText *to)
{
  const unsigned char *text = step->replaced + value;
  if ((int64_t)value >= step->replaced_bytes || (*text & 0xc0) == 0x80) return RENGA_SUCCESS;
  RengaCall(RengaSignTextAdd_Private(to, text, (int64_t)strlen((const char *)text), at));
  return RENGA_SUCCESS;
}

/* What stands with marks of no width, or joined by them, is one grapheme. */
static int64_t GraphemeEnd(const RengaSignText *from, int64_t at)
{
  const uint32_t marks = RengaSignCategories_Private("M", 1);
  uint32_t code = 0, first = 0;
  int64_t stop = at + RengaSignDecode_Private(from->bytes, at, from->length, &first);
  if (first == '\r' && stop < from->length && from->bytes[stop] == '\n') return stop + 1;
  if (first < 0x20) return stop;
  while (stop < from->length) {
    const int bytes = RengaSignDecode_Private(from->bytes, stop, from->length, &code);
    if (!(RengaSignCategory_Private(code) & marks) && code != 0x200d) break;
    stop += bytes;
  }
  return stop;
}

/* A grapheme of fewer than six bytes as a whole, if it is a key; else each of its signs. */
static RengaErrorCode ApplyPrecompiled(const NormalStep *step, const RengaSignText *from,
                                       RengaSignText *to)
{
  uint32_t value = 0, code = 0;
  for (int64_t i = 0; i < from->length;) {
    const int64_t stop = GraphemeEnd(from, i);
    if (stop - i < 6 && FindPrecompiled(step, from->bytes + i, stop - i, &value) > 0) {
      RengaCall(AddReplaced(step, value, PlaceOfByte(from, i), to));
      i = stop;
    }
    while (i < stop) {
      const int bytes = RengaSignDecode_Private(from->bytes, i, from->length, &code);
      if (FindPrecompiled(step, from->bytes + i, bytes, &value) > 0)
        RengaCall(AddReplaced(step, value, PlaceOfByte(from, i), to));
      else
        RengaCall(RengaSignTextAdd_Private(to, from->bytes + i, bytes, PlaceOfByte(from, i)));
      i += bytes;
    }
  }
  return RENGA_SUCCESS;
}

/* The bytes that a text in base 64 stands for; *count: -1 if it is none. */
static RengaErrorCode DecodeBase64(const char *text, unsigned char **bytes, int64_t *count)
{
  static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t bits = 0;
  int n_bits = 0;
  int64_t n = 0;
  RengaCall(RengaMalloc(strlen(text) + 4, bytes));
  for (; *text && *text != '='; text++) {
    const char *found = strchr(signs, *text);
    if (!found) break;
    bits = (bits << 6 | (uint32_t)(found - signs)) & 0xffffff;
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    (*bytes)[n++] = (unsigned char)(bits >> n_bits & 0xff);
  }
  *count = *text && *text != '=' ? -1 : n;
  return RENGA_SUCCESS;
}

/* Are its texts UTF-8, so that what they are put into is so, too? */
static bool HasSigns(const unsigned char text[], int64_t length)
{
  uint32_t code;
  for (int64_t at = 0, bytes; at < length; at += bytes) {
    bytes = RengaSignDecode_Private(text, at, length, &code);
    if (bytes == 0) return false;
  }
  return true;
}

/* A size in four bytes, the units of the trie, the texts. */
static RengaErrorCode ReadPrecompiled(const char *owner, json_object *value, NormalStep *step)
{
  const char *text = RengaTokenizerText_Private(value, "precompiled_charsmap");
  unsigned char *bytes = NULL;
  int64_t count = -1, size = 0;
  RengaErrorCode code = text ? DecodeBase64(text, &bytes, &count) : RENGA_SUCCESS;
  if (!code && count >= 8)
    size = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (int64_t)bytes[3] << 24;
  const bool good = size >= 4 && size % 4 == 0 && size <= count - 4 &&
                    HasSigns(bytes + 4 + size, count - 4 - size);
  if (!code && good) {
    step->n_units = (uint32_t)(size / 4);
    step->replaced_bytes = count - 4 - size;
    code = RengaMalloc(step->n_units, &step->unit);
  }
  if (!code && good) code = RengaMalloc(step->replaced_bytes + 1, &step->replaced);
  for (uint32_t u = 0; !code && good && u < step->n_units; u++) {
    const unsigned char *at = bytes + 4 + 4 * (size_t)u;
    step->unit[u] = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
  }
  if (!code && good) memcpy(step->replaced, bytes + 4 + size, (size_t)step->replaced_bytes);
  RengaFree(&bytes);
  RengaCall(code);
  RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "tokenizer %s: precompiled_charsmap of its normalizer is damaged", owner);
  return RENGA_SUCCESS;
}

/* ---- the file ---- */
static RengaErrorCode ReadStep(const char *owner, const char *type, json_object *value,
                               NormalStep *step)
{
  static const struct {
    const char *type;
    NormalFunction apply;
  } kinds[] = {{"NFC", ApplyCanonical},
               {"NFD", ApplyCanonical},
               {"Lowercase", ApplySmall},
               {"StripAccents", ApplyStripAccents},
               {"Replace", ApplyReplace},
               {"Prepend", ApplyPrepend},
               {"Strip", ApplyStrip},
               {"BertNormalizer", ApplyBert},
               {"Precompiled", ApplyPrecompiled}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (strcmp(kinds[k].type, type) == 0) step->apply = kinds[k].apply;
  if (!step->apply) RengaCall(RengaTokenizerRefuse_Private(owner, "normalizer", value));
  step->composed = strcmp(type, "NFC") == 0;
  step->left = RengaTokenizerFlag_Private(value, "strip_left", true);
  step->right = RengaTokenizerFlag_Private(value, "strip_right", true);
  step->clean = RengaTokenizerFlag_Private(value, "clean_text", true);
  step->chinese = RengaTokenizerFlag_Private(value, "handle_chinese_chars", true);
  step->small = RengaTokenizerFlag_Private(value, "lowercase", true);
  step->accents =
      step->apply == ApplyBert && RengaTokenizerFlag_Private(value, "strip_accents", step->small);
  const char *content =
      RengaTokenizerText_Private(value, step->apply == ApplyPrepend ? "prepend" : "content");
  if ((step->apply == ApplyReplace || step->apply == ApplyPrepend) && !content)
    RengaCall(RengaTokenizerRefuse_Private(owner, "normalizer", value));
  if (content) RengaCall(RengaStringCopy(content, &step->content));
  if (step->apply == ApplyReplace)
    RengaCall(RengaTokenizerExpression_Private(
        owner, "normalizer", RengaTokenizerMember_Private(value, "pattern"), &step->pattern));
  if (step->apply == ApplyPrecompiled) RengaCall(ReadPrecompiled(owner, value, step));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadSteps(const char *owner, json_object *value, RengaNormalizer *n)
{
  const char *type = RengaTokenizerText_Private(value, "type");
  if (!value || json_object_is_type(value, json_type_null)) return RENGA_SUCCESS;
  if (!type) return RengaTokenizerRefuse_Private(owner, "normalizer", value);
  if (strcmp(type, "Sequence") == 0) {
    json_object *list = RengaTokenizerMember_Private(value, "normalizers");
    if (!list || !json_object_is_type(list, json_type_array))
      RengaCall(RengaTokenizerRefuse_Private(owner, "normalizer", value));
    for (size_t i = 0; i < json_object_array_length(list); i++)
      RengaCall(ReadSteps(owner, json_object_array_get_idx(list, i), n));
    return RENGA_SUCCESS;
  }
  if (n->count == n->room) {
    n->room = 2 * n->room + 8;
    RengaCall(RengaRealloc(n->room, &n->step));
  }
  n->step[n->count++] = (NormalStep){0};
  RengaCall(ReadStep(owner, type, value, &n->step[n->count - 1]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaNormalizerCreate_Private(const char *owner, json_object *value,
                                             RengaNormalizer **normalizer)
{
  RengaCall(RengaMalloc(1, normalizer));
  const RengaErrorCode code = ReadSteps(owner, value, *normalizer);
  if (code) RengaNormalizerFree_Private(normalizer);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaNormalizerApply_Private(const RengaNormalizer *normalizer, RengaSignText *from,
                                            RengaSignText *to)
{
  for (int s = 0; s < normalizer->count; s++) {
    const NormalStep *step = &normalizer->step[s];
    to->length = 0;
    RengaCall(step->apply(step, from, to));
    const RengaSignText swapped = *from;
    *from = *to;
    *to = swapped;
  }
  const RengaSignText swapped = *from;
  *from = *to;
  *to = swapped;
  return RENGA_SUCCESS;
}

void RengaNormalizerFree_Private(RengaNormalizer **normalizer)
{
  RengaNormalizer *n = *normalizer;
  if (!n) return;
  for (int s = 0; s < n->count; s++) {
    RengaExpressionFree_Private(&n->step[s].pattern);
    RengaFree(&n->step[s].content);
    RengaFree(&n->step[s].unit);
    RengaFree(&n->step[s].replaced);
  }
  RengaFree(&n->step);
  RengaFree(normalizer);
}
