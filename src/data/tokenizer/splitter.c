/* Data: pre-tokenizers of a tokenizer.json, which split a text into the words of its model. */
#include "steps.h"
#include <string.h>

typedef enum { KEEP_APART, LEAVE_OUT, WITH_PREVIOUS, WITH_NEXT, JOIN_ALIKE } SplitBehaviour;
typedef struct {
  int64_t begin, end;
  bool matched;
} SplitPart;
typedef struct {
  int64_t count, room;
  SplitPart *part;
} SplitParts;

typedef struct SplitStep SplitStep;
/* How many bytes from a place on match; 0: none; or RENGA_EXPRESSION_TOO_HARD. */
typedef int64_t (*SplitMatch)(const SplitStep *step, const unsigned char text[], int64_t at,
                              int64_t end);
struct SplitStep {
  SplitMatch match; /* NULL: nothing is split */
  RengaExpression *pattern;
  SplitBehaviour behaviour;
  bool inverted;
  /* before that: blanks become this text, which also stands in front */
  char *blank; /* NULL: they stay */
  enum { FRONT_NEVER, FRONT_FIRST, FRONT_ALWAYS } front;
};
struct RengaSplitter {
  int count, room;
  SplitStep *step;
};

/* ---- what matches ---- */
static int64_t MatchPattern(const SplitStep *step, const unsigned char text[], int64_t at,
                            int64_t end)
{
  const int64_t stop = RengaExpressionMatch_Private(step->pattern, text, at, end);
  return stop > at ? stop - at : stop == RENGA_EXPRESSION_TOO_HARD ? stop : 0;
}

static int64_t MatchWhite(const SplitStep *step, const unsigned char text[], int64_t at,
                          int64_t end)
{
  uint32_t code = 0;
  (void)step;
  const int bytes = RengaSignDecode_Private(text, at, end, &code);
  return RengaSignIsWhite_Private(code) ? bytes : 0;
}

static int64_t MatchPunctuation(const SplitStep *step, const unsigned char text[], int64_t at,
                                int64_t end)
{
  uint32_t code = 0;
  (void)step;
  const int bytes = RengaSignDecode_Private(text, at, end, &code);
  const bool plain = code < 0x80 && code > 0x20 && code != 0x7f && !(code >= '0' && code <= '9') &&
                     !((code | 32) >= 'a' && (code | 32) <= 'z');
  return plain || (RengaSignCategory_Private(code) & RengaSignCategories_Private("P", 1)) ? bytes
                                                                                          : 0;
}

static int64_t MatchDigit(const SplitStep *step, const unsigned char text[], int64_t at,
                          int64_t end)
{
  uint32_t code = 0;
  (void)step;
  const int bytes = RengaSignDecode_Private(text, at, end, &code);
  return RengaSignCategory_Private(code) & RengaSignCategories_Private("N", 1) ? bytes : 0;
}

static int64_t MatchBlank(const SplitStep *step, const unsigned char text[], int64_t at,
                          int64_t end)
{
  const int64_t length = (int64_t)strlen(step->blank);
  return at + length <= end && memcmp(text + at, step->blank, (size_t)length) == 0 ? length : 0;
}

/* ---- parts ---- */
static RengaErrorCode AddSplitPart(SplitParts *parts, int64_t begin, int64_t end, bool matched)
{
  if (begin == end) return RENGA_SUCCESS;
  if (parts->count == parts->room) {
    parts->room = 2 * parts->room + 64;
    RengaCall(RengaRealloc(parts->room, &parts->part));
  }
  parts->part[parts->count++] = (SplitPart){begin, end, matched};
  return RENGA_SUCCESS;
}

static RengaErrorCode FindSplitParts(const SplitStep *step, const unsigned char text[],
                                     int64_t length, SplitParts *parts)
{
  int64_t begin = 0;
  uint32_t code;
  parts->count = 0;
  for (int64_t at = 0; at < length;) {
    const int64_t bytes = step->match(step, text, at, length);
    if (bytes == RENGA_EXPRESSION_TOO_HARD)
      RengaCall(RengaExpressionRaise_Private(step->pattern, at));
    if (bytes > 0) {
      RengaCall(AddSplitPart(parts, begin, at, step->inverted));
      RengaCall(AddSplitPart(parts, at, at + bytes, !step->inverted));
      begin = at += bytes;
    } else {
      at += RengaSignDecode_Private(text, at, length, &code);
    }
  }
  RengaCall(AddSplitPart(parts, begin, length, step->inverted));
  return RENGA_SUCCESS;
}

/* A match goes with the part before it, if that is none. */
static int64_t JoinWithPrevious(SplitParts *parts)
{
  bool previous = false;
  int64_t n = 0;
  for (int64_t i = 0; i < parts->count; i++) {
    const SplitPart part = parts->part[i];
    if (part.matched && !previous && n > 0)
      parts->part[n - 1].end = part.end;
    else
      parts->part[n++] = part;
    previous = part.matched;
  }
  return n;
}

static int64_t JoinWithNext(SplitParts *parts)
{
  bool next = false;
  int64_t first = parts->count;
  for (int64_t i = parts->count - 1; i >= 0; i--) {
    const SplitPart part = parts->part[i];
    if (part.matched && !next && first < parts->count)
      parts->part[first].begin = part.begin;
    else
      parts->part[--first] = part;
    next = part.matched;
  }
  memmove(parts->part, parts->part + first, (size_t)(parts->count - first) * sizeof *parts->part);
  return parts->count - first;
}

static void ArrangeParts(SplitBehaviour behaviour, SplitParts *parts)
{
  int64_t n = 0;
  if (parts->count == 0) return;
  if (behaviour == WITH_PREVIOUS) {
    parts->count = JoinWithPrevious(parts);
  } else if (behaviour == WITH_NEXT) {
    parts->count = JoinWithNext(parts);
  } else if (behaviour == LEAVE_OUT) {
    for (int64_t i = 0; i < parts->count; i++)
      if (!parts->part[i].matched) parts->part[n++] = parts->part[i];
    parts->count = n;
  } else if (behaviour == JOIN_ALIKE) {
    for (int64_t i = 0; i < parts->count; i++)
      if (n > 0 && parts->part[n - 1].matched == parts->part[i].matched)
        parts->part[n - 1].end = parts->part[i].end;
      else
        parts->part[n++] = parts->part[i];
    parts->count = n;
  }
}

/* ---- visits ---- */
typedef struct {
  const RengaSplitter *splitter;
  bool first; /* the text is the beginning of the whole */
  RengaPieceVisitor visit;
  void *user;
} SplitVisit;

static RengaErrorCode VisitFrom(const SplitVisit *v, int number, const unsigned char text[],
                                int64_t length, const int64_t at[], bool first);

static RengaErrorCode VisitParts(const SplitVisit *v, int number, const unsigned char text[],
                                 int64_t length, const int64_t at[], bool first)
{
  const SplitStep *step = &v->splitter->step[number];
  SplitParts parts = {0};
  if (!step->match) {
    RengaCall(VisitFrom(v, number + 1, text, length, at, first));
    return RENGA_SUCCESS;
  }
  RengaErrorCode code = FindSplitParts(step, text, length, &parts);
  if (!code) ArrangeParts(step->behaviour, &parts);
  for (int64_t i = 0; i < parts.count && !code; i++) {
    const SplitPart part = parts.part[i];
    code = VisitFrom(v, number + 1, text + part.begin, part.end - part.begin,
                     at ? at + part.begin : NULL, first && part.begin == 0);
  }
  RengaFree(&parts.part);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReplaceBlanks(const SplitStep *step, const unsigned char text[],
                                    int64_t length, const int64_t at[], bool first,
                                    RengaSignText *to)
{
  const int64_t width = (int64_t)strlen(step->blank);
  const bool has = (width <= length && memcmp(text, step->blank, (size_t)width) == 0) ||
                   (length > 0 && text[0] == ' ');
  const bool front = step->front == FRONT_ALWAYS || (step->front == FRONT_FIRST && first);
  if (front && !has) RengaCall(RengaSignTextAdd_Private(to, step->blank, width, at ? at[0] : 0));
  for (int64_t i = 0; i < length; i++)
    RengaCall(RengaSignTextAdd_Private(to, text[i] == ' ' ? step->blank : (const char *)text + i,
                                       text[i] == ' ' ? width : 1, at ? at[i] : 0));
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitFrom(const SplitVisit *v, int number, const unsigned char text[],
                                int64_t length, const int64_t at[], bool first)
{
  RengaSignText changed = {.places = at != NULL};
  if (length == 0) return RENGA_SUCCESS;
  if (number == v->splitter->count) {
    RengaCall(v->visit(v->user, text, length, at));
    return RENGA_SUCCESS;
  }
  if (!v->splitter->step[number].blank) {
    RengaCall(VisitParts(v, number, text, length, at, first));
    return RENGA_SUCCESS;
  }
  RengaErrorCode code =
      ReplaceBlanks(&v->splitter->step[number], text, length, at, first, &changed);
  if (!code) code = VisitParts(v, number, changed.bytes, changed.length, changed.at, first);
  RengaSignTextFree_Private(&changed);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSplitterVisit_Private(const RengaSplitter *splitter, const unsigned char text[],
                                          int64_t length, const int64_t at[], bool first,
                                          RengaPieceVisitor visit, void *user)
{
  const SplitVisit v = {splitter, first, visit, user};
  RengaCall(VisitFrom(&v, 0, text, length, at, first));
  return RENGA_SUCCESS;
}

/* ---- the file ---- */
static const char of_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                              "\\s+(?!\\S)|\\s+";
/* Signs of words: letters, also in circles and squares, marks, digits, joins. */
#define OF_WORDS                                                                                   \
  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\xe2\x80\x8c\xe2\x80\x8d\xe2\x92\xb6-"                         \
  "\xe2\x93\xa9\xf0\x9f\x84\xb0-\xf0\x9f"                                                          \
  "\x85\x89\xf0\x9f\x85\x90-\xf0\x9f\x85\xa9\xf0\x9f\x85\xb0-\xf0\x9f\x86\x89"
static const char of_words[] = "[" OF_WORDS "]+|[^\\s" OF_WORDS "]+";

static RengaErrorCode NewSplitStep(RengaSplitter *splitter, SplitStep **step)
{
  if (splitter->count == splitter->room) {
    splitter->room = 2 * splitter->room + 8;
    RengaCall(RengaRealloc(splitter->room, &splitter->step));
  }
  *step = &splitter->step[splitter->count++];
  **step = (SplitStep){0};
  return RENGA_SUCCESS;
}

static RengaErrorCode AddMatchStep(RengaSplitter *splitter, SplitMatch match,
                                   SplitBehaviour behaviour)
{
  SplitStep *step;
  RengaCall(NewSplitStep(splitter, &step));
  step->match = match;
  step->behaviour = behaviour;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddPatternStep(const char *owner, RengaSplitter *splitter,
                                     const char *expression, bool inverted)
{
  SplitStep *step;
  RengaCall(NewSplitStep(splitter, &step));
  step->match = MatchPattern;
  step->inverted = inverted;
  step->behaviour = inverted ? LEAVE_OUT : KEEP_APART;
  RengaCall(RengaExpressionCreate_Private(owner, expression, &step->pattern));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadBehaviour(const char *owner, json_object *value, const char *otherwise,
                                    SplitBehaviour *behaviour)
{
  static const struct {
    const char *names[2];
    SplitBehaviour behaviour;
  } known[] = {{{"Isolated", "isolated"}, KEEP_APART},
               {{"Removed", "removed"}, LEAVE_OUT},
               {{"MergedWithPrevious", "merged_with_previous"}, WITH_PREVIOUS},
               {{"MergedWithNext", "merged_with_next"}, WITH_NEXT},
               {{"Contiguous", "contiguous"}, JOIN_ALIKE}};
  const char *name = RengaTokenizerText_Private(value, "behavior");
  if (!name) name = otherwise;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].names[0], name) || !strcmp(known[i].names[1], name)) {
      *behaviour = known[i].behaviour;
      return RENGA_SUCCESS;
    }
  RengaCall(RengaTokenizerRefuse_Private(owner, "pre_tokenizer", value));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadSplit(const char *owner, json_object *value, RengaSplitter *splitter)
{
  SplitStep *step;
  RengaCall(NewSplitStep(splitter, &step));
  step->match = MatchPattern;
  step->inverted = RengaTokenizerFlag_Private(value, "invert", false);
  RengaCall(ReadBehaviour(owner, value, "", &step->behaviour));
  RengaCall(RengaTokenizerExpression_Private(
      owner, "pre_tokenizer", RengaTokenizerMember_Private(value, "pattern"), &step->pattern));
  return RENGA_SUCCESS;
}

/* Older files say add_prefix_space. */
static RengaErrorCode ReadMetaspace(const char *owner, json_object *value, RengaSplitter *splitter)
{
  const char *scheme = RengaTokenizerText_Private(value, "prepend_scheme");
  const char *blank = RengaTokenizerText_Private(value, "replacement");
  const bool prefix = RengaTokenizerFlag_Private(value, "add_prefix_space", true);
  SplitStep *step;
  if (!scheme) scheme = prefix ? "always" : "never";
  const bool first = strcmp(scheme, "first") == 0, always = strcmp(scheme, "always") == 0;
  if (!blank || (!first && !always && strcmp(scheme, "never") != 0))
    RengaCall(RengaTokenizerRefuse_Private(owner, "pre_tokenizer", value));
  RengaCall(NewSplitStep(splitter, &step));
  step->front = first ? FRONT_FIRST : always ? FRONT_ALWAYS : FRONT_NEVER;
  step->match = RengaTokenizerFlag_Private(value, "split", true) ? MatchBlank : NULL;
  step->behaviour = WITH_NEXT;
  RengaCall(RengaStringCopy(blank, &step->blank));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadByteLevel(const char *owner, json_object *value, RengaSplitter *splitter)
{
  SplitStep *step;
  if (RengaTokenizerFlag_Private(value, "add_prefix_space", true)) {
    RengaCall(NewSplitStep(splitter, &step));
    step->front = FRONT_ALWAYS;
    RengaCall(RengaStringCopy(" ", &step->blank));
  }
  if (RengaTokenizerFlag_Private(value, "use_regex", true))
    RengaCall(AddPatternStep(owner, splitter, of_gpt2, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadSplitter(const char *owner, json_object *value, RengaSplitter *splitter,
                                   bool *bytes);

static RengaErrorCode ReadSplitters(const char *owner, json_object *value, RengaSplitter *splitter,
                                    bool *bytes)
{
  json_object *list = RengaTokenizerMember_Private(value, "pretokenizers");
  if (!list || !json_object_is_type(list, json_type_array))
    RengaCall(RengaTokenizerRefuse_Private(owner, "pre_tokenizer", value));
  for (size_t i = 0; i < json_object_array_length(list); i++)
    RengaCall(ReadSplitter(owner, json_object_array_get_idx(list, i), splitter, bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadSplitter(const char *owner, json_object *value, RengaSplitter *splitter,
                                   bool *bytes)
{
  const char *type = RengaTokenizerText_Private(value, "type");
  SplitBehaviour behaviour;
  if (!value || json_object_is_type(value, json_type_null)) return RENGA_SUCCESS;
  if (!type) type = "";
  if (*bytes)
    RengaCall(RengaTokenizerRefuse_Private(owner, "pre_tokenizer behind ByteLevel", value));
  if (strcmp(type, "Sequence") == 0) {
    RengaCall(ReadSplitters(owner, value, splitter, bytes));
  } else if (strcmp(type, "ByteLevel") == 0) {
    RengaCall(ReadByteLevel(owner, value, splitter));
    *bytes = true;
  } else if (strcmp(type, "Split") == 0) {
    RengaCall(ReadSplit(owner, value, splitter));
  } else if (strcmp(type, "Metaspace") == 0) {
    RengaCall(ReadMetaspace(owner, value, splitter));
  } else if (strcmp(type, "Whitespace") == 0) {
    RengaCall(AddPatternStep(owner, splitter, of_words, true));
  } else if (strcmp(type, "WhitespaceSplit") == 0) {
    RengaCall(AddMatchStep(splitter, MatchWhite, LEAVE_OUT));
  } else if (strcmp(type, "BertPreTokenizer") == 0) {
    RengaCall(AddMatchStep(splitter, MatchWhite, LEAVE_OUT));
    RengaCall(AddMatchStep(splitter, MatchPunctuation, KEEP_APART));
  } else if (strcmp(type, "Punctuation") == 0) {
    RengaCall(ReadBehaviour(owner, value, "Isolated", &behaviour));
    RengaCall(AddMatchStep(splitter, MatchPunctuation, behaviour));
  } else if (strcmp(type, "Digits") == 0) {
    const bool each = RengaTokenizerFlag_Private(value, "individual_digits", false);
    RengaCall(AddMatchStep(splitter, MatchDigit, each ? KEEP_APART : JOIN_ALIKE));
  } else {
    RengaCall(RengaTokenizerRefuse_Private(owner, "pre_tokenizer", value));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSplitterCreate_Private(const char *owner, json_object *value,
                                           RengaSplitter **splitter, bool *bytes)
{
  *bytes = false;
  RengaCall(RengaMalloc(1, splitter));
  const RengaErrorCode code = ReadSplitter(owner, value, *splitter, bytes);
  if (code) RengaSplitterFree_Private(splitter);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaSplitterFree_Private(RengaSplitter **splitter)
{
  if (!*splitter) return;
  for (int s = 0; s < (*splitter)->count; s++) {
    RengaExpressionFree_Private(&(*splitter)->step[s].pattern);
    RengaFree(&(*splitter)->step[s].blank);
  }
  RengaFree(&(*splitter)->step);
  RengaFree(splitter);
}
