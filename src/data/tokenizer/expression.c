/* Data: the regular expressions by which tokenizers split texts: alternatives, groups, classes of
   signs, repetitions that take as much as they can, and looks ahead. A match is found by trying
   alternatives in their order, as Perl does. Where forms differ they are those of Oniguruma, which
   tokenizers uses. */
#include "expression.h"
#include <stdlib.h>
#include <string.h>

enum {
  MOST_NESTED = 128,    /* groups within each other */
  MOST_DEEP = 8192,     /* nodes whose rest is still to match */
  MOST_TRIED = 10000000 /* nodes in the search for one match */
};
static const int64_t no_match = -1, too_hard = RENGA_EXPRESSION_TOO_HARD;

typedef enum {
  NODE_SIGN,  /* a class of signs */
  NODE_GROUP, /* alternatives: child, and their next siblings by other */
  NODE_AHEAD, /* the same, which takes nothing */
  NODE_BEGIN, /* the begin of a line */
  NODE_END    /* its end */
} NodeKind;

/* A range of signs, or categories; white: and white space, or all else. */
typedef struct {
  uint32_t first, last, categories;
  bool white, negated;
} SignRange;

typedef struct PatternNode PatternNode;
struct PatternNode {
  NodeKind kind;
  PatternNode *next;   /* what follows in the alternative */
  PatternNode *child;  /* of a group: the first node of the first alternative */
  PatternNode *other;  /* of an alternative's head: the next alternative's */
  bool is_head_empty;  /* an alternative of nothing */
  bool negated, small; /* small: capitals and small letters are alike */
  bool kept;           /* a repetition that gives nothing back */
  int least, most;     /* of the repetition; most -1: no bound */
  int first_range, ranges;
};

struct RengaExpression {
  char *text;         /* for errors */
  PatternNode **node; /* all, for the end */
  int64_t count, room, n_ranges, range_room;
  SignRange *range;
  PatternNode *root;
};

typedef struct {
  RengaExpression *pattern;
  const char *owner, *text;
  const unsigned char *bytes;
  int64_t at, end;
  int nested;
  bool small;
} PatternReader;

static RengaErrorCode RaisePattern(const PatternReader *reader)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "tokenizer %s: the pattern \"%.160s\" is not supported from place %lld on",
             reader->owner, reader->text, (long long)reader->at);
}

static RengaErrorCode NewNode(PatternReader *reader, NodeKind kind, PatternNode **node)
{
  RengaExpression *p = reader->pattern;
  if (p->count == p->room) {
    p->room = 2 * p->room + 32;
    RengaCall(RengaRealloc(p->room, &p->node));
  }
  RengaCall(RengaMalloc(1, &p->node[p->count]));
  *node = p->node[p->count++];
  **node = (PatternNode){.kind = kind, .least = 1, .most = 1, .small = reader->small};
  return RENGA_SUCCESS;
}

static RengaErrorCode AddSignRange(PatternReader *reader, PatternNode *node, SignRange range)
{
  RengaExpression *p = reader->pattern;
  if (p->n_ranges == p->range_room) {
    p->range_room = 2 * p->range_room + 32;
    RengaCall(RengaRealloc(p->range_room, &p->range));
  }
  if (node->ranges == 0) node->first_range = (int)p->n_ranges;
  node->ranges++;
  p->range[p->n_ranges++] = range;
  return RENGA_SUCCESS;
}

static bool StartsWith(const PatternReader *reader, const char *word)
{
  const int64_t length = (int64_t)strlen(word);
  return reader->at + length <= reader->end &&
         memcmp(reader->text + reader->at, word, (size_t)length) == 0;
}

/* {L} or {Lu} */
static RengaErrorCode ReadCategories(PatternReader *reader, SignRange *range)
{
  const char *at = reader->text + reader->at;
  const char *stop = *at == '{' ? strchr(at, '}') : NULL;
  const int length = stop ? (int)(stop - at) - 1 : 0;
  if (length == 1 || length == 2) range->categories = RengaSignCategories_Private(at + 1, length);
  if (range->categories == 0) RengaCall(RaisePattern(reader));
  reader->at += length + 2;
  return RENGA_SUCCESS;
}

/* Behind a backslash. single: it is one sign. */
static RengaErrorCode ReadEscape(PatternReader *reader, SignRange *range, bool *single)
{
  static const char letters[] = "nrtfv", signs[] = "\n\r\t\f\v";
  const char letter = reader->text[reader->at];
  const char *found = letter ? strchr(letters, letter) : NULL;
  *range = (SignRange){.first = 1, .last = 0};
  *single = false;
  if (letter == 's' || letter == 'S') {
    range->white = true;
    range->negated = letter == 'S';
  } else if (letter == 'd' || letter == 'D') {
    range->categories = RengaSignCategories_Private("Nd", 2);
    range->negated = letter == 'D';
  } else if (letter == 'p' || letter == 'P') {
    reader->at++;
    RengaCall(ReadCategories(reader, range));
    range->negated = letter == 'P';
    return RENGA_SUCCESS;
  } else if (found || (letter && !strchr("0123456789", letter) &&
                       ((letter | 32) < 'a' || (letter | 32) > 'z'))) {
    uint32_t code = 0;
    const int bytes = RengaSignDecode_Private(reader->bytes, reader->at, reader->end, &code);
    if (found) code = (uint32_t)signs[found - letters];
    range->first = range->last = code;
    reader->at += bytes;
    *single = true;
    return RENGA_SUCCESS;
  } else {
    RengaCall(RaisePattern(reader));
  }
  reader->at++;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadOneSign(PatternReader *reader, SignRange *range, bool *single)
{
  uint32_t code = 0;
  if (reader->text[reader->at] == '\\') {
    reader->at++;
    RengaCall(ReadEscape(reader, range, single));
    return RENGA_SUCCESS;
  }
  const int bytes = RengaSignDecode_Private(reader->bytes, reader->at, reader->end, &code);
  if (bytes == 0) RengaCall(RaisePattern(reader));
  reader->at += bytes;
  *range = (SignRange){.first = code, .last = code};
  *single = true;
  return RENGA_SUCCESS;
}

/* [...], from behind the bracket on */
static RengaErrorCode ReadClass(PatternReader *reader, PatternNode *node)
{
  if (reader->text[reader->at] == '^') {
    node->negated = true;
    reader->at++;
  }
  while (reader->at < reader->end && reader->text[reader->at] != ']') {
    SignRange range, last;
    bool single;
    if (StartsWith(reader, "[") || StartsWith(reader, "&&")) RengaCall(RaisePattern(reader));
    RengaCall(ReadOneSign(reader, &range, &single));
    const char *rest = reader->text + reader->at;
    if (single && rest[0] == '-' && rest[1] != ']') {
      reader->at++;
      RengaCall(ReadOneSign(reader, &last, &single));
      if (!single || reader->small) RengaCall(RaisePattern(reader));
      range.last = last.last;
    }
    RengaCall(AddSignRange(reader, node, range));
  }
  if (reader->at >= reader->end) RengaCall(RaisePattern(reader));
  reader->at++;
  return RENGA_SUCCESS;
}

/* What stands behind a repetition: + behind ? * + says that it gives nothing back; behind {n,m},
   that it is repeated itself. */
static RengaErrorCode ReadBehindRepetition(PatternReader *reader, PatternNode *node, bool counted)
{
  const bool more = StartsWith(reader, "+");
  const bool good = !StartsWith(reader, "?") && !StartsWith(reader, "*") &&
                    !StartsWith(reader, "{") && (node->kind == NODE_SIGN || !more) &&
                    (node->kind == NODE_SIGN || node->kind == NODE_GROUP) &&
                    !(more && counted && (node->least > 1 || node->most == 0));
  if (!good) RengaCall(RaisePattern(reader));
  if (more && counted)
    node->most = -1;
  else
    node->kept = more;
  reader->at += more;
  return RENGA_SUCCESS;
}

/* ? * + {n} {n,} {n,m} */
static RengaErrorCode ReadRepetition(PatternReader *reader, PatternNode *node)
{
  const char *at = reader->text + reader->at;
  const bool counted = *at == '{';
  char *stop;
  if (*at == '?' || *at == '*' || *at == '+') {
    node->least = *at == '+';
    node->most = *at == '?' ? 1 : -1;
    reader->at++;
  } else if (*at == '{') {
    const long least = strtol(at + 1, &stop, 10);
    const bool said = stop > at + 1 || (stop[0] == ',' && stop[1] != '}');
    const bool open = stop[0] == ',' && stop[1] == '}';
    const long most = *stop == ',' && !open ? strtol(stop + 1, &stop, 10) : least;
    stop += open;
    if (*stop != '}' || !said || least < 0 || most < least || most > 1000)
      RengaCall(RaisePattern(reader));
    node->least = (int)least;
    node->most = open ? -1 : (int)most;
    reader->at += stop + 1 - at;
  } else {
    return RENGA_SUCCESS;
  }
  RengaCall(ReadBehindRepetition(reader, node, counted));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadAlternatives(PatternReader *reader, PatternNode *group);

/* (...), from behind the bracket on */
static RengaErrorCode ReadSignGroup(PatternReader *reader, PatternNode *node)
{
  const bool small = reader->small;
  if (StartsWith(reader, "?i:")) {
    reader->small = true;
    reader->at += 3;
  } else if (StartsWith(reader, "?:")) {
    reader->at += 2;
  } else if (StartsWith(reader, "?!") || StartsWith(reader, "?=")) {
    node->kind = NODE_AHEAD;
    node->negated = StartsWith(reader, "?!");
    reader->at += 2;
  } else if (StartsWith(reader, "?")) {
    RengaCall(RaisePattern(reader));
  }
  if (++reader->nested > MOST_NESTED) RengaCall(RaisePattern(reader));
  RengaCall(ReadAlternatives(reader, node));
  if (!StartsWith(reader, ")")) RengaCall(RaisePattern(reader));
  reader->at++;
  reader->nested--;
  reader->small = small;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadPiece(PatternReader *reader, PatternNode **node)
{
  static const struct {
    char letter;
    NodeKind kind;
  } kinds[] = {{'(', NODE_GROUP}, {'^', NODE_BEGIN}, {'$', NODE_END}};
  const char letter = reader->text[reader->at];
  NodeKind kind = NODE_SIGN;
  for (int k = 0; k < 3; k++)
    if (kinds[k].letter == letter) kind = kinds[k].kind;
  if (strchr("?*+{", letter)) RengaCall(RaisePattern(reader));
  RengaCall(NewNode(reader, kind, node));
  if (kind != NODE_SIGN || letter == '[' || letter == '.') reader->at++;
  if (kind == NODE_GROUP) {
    RengaCall(ReadSignGroup(reader, *node));
  } else if (letter == '[') {
    RengaCall(ReadClass(reader, *node));
  } else if (letter == '.') {
    (*node)->negated = true;
    RengaCall(AddSignRange(reader, *node, (SignRange){.first = '\n', .last = '\n'}));
  } else if (kind == NODE_SIGN) {
    SignRange range;
    bool single;
    RengaCall(ReadOneSign(reader, &range, &single));
    RengaCall(AddSignRange(reader, *node, range));
  }
  RengaCall(ReadRepetition(reader, *node));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadAlternatives(PatternReader *reader, PatternNode *group)
{
  PatternNode **head = &group->child;
  for (;;) {
    PatternNode **to = head, *first = NULL;
    while (reader->at < reader->end && !StartsWith(reader, "|") && !StartsWith(reader, ")")) {
      RengaCall(ReadPiece(reader, to));
      if (!first) first = *to;
      to = &(*to)->next;
    }
    if (!first) {
      RengaCall(NewNode(reader, NODE_GROUP, head));
      (*head)->is_head_empty = true;
      first = *head;
    }
    if (!StartsWith(reader, "|")) return RENGA_SUCCESS;
    reader->at++;
    head = &first->other;
  }
}

RengaErrorCode RengaExpressionCreate_Private(const char *owner, const char *expression,
                                             RengaExpression **pattern)
{
  PatternReader reader = {.owner = owner,
                          .text = expression,
                          .bytes = (const unsigned char *)expression,
                          .end = (int64_t)strlen(expression)};
  RengaErrorCode code = RengaMalloc(1, &reader.pattern);
  if (!code) code = RengaStringCopy(expression, &reader.pattern->text);
  if (!code) code = NewNode(&reader, NODE_GROUP, &reader.pattern->root);
  if (!code) code = ReadAlternatives(&reader, reader.pattern->root);
  if (!code && reader.at < reader.end) code = RaisePattern(&reader);
  if (code) RengaExpressionFree_Private(&reader.pattern);
  RengaCall(code);
  *pattern = reader.pattern;
  return RENGA_SUCCESS;
}

void RengaExpressionFree_Private(RengaExpression **pattern)
{
  if (!*pattern) return;
  for (int64_t i = 0; i < (*pattern)->count; i++) RengaFree(&(*pattern)->node[i]);
  RengaFree(&(*pattern)->text);
  RengaFree(&(*pattern)->node);
  RengaFree(&(*pattern)->range);
  RengaFree(pattern);
}

/* ---- matching ---- */
typedef struct {
  const RengaExpression *pattern;
  const unsigned char *text;
  int64_t end;
  int deep, tried;
} PatternText;

/* What is to match behind a node: of its alternative, or of the groups around it. */
typedef struct Continuation Continuation;
struct Continuation {
  const PatternNode *node; /* NULL: the whole has matched */
  const Continuation *outer;
  const PatternNode *repeated; /* a group that may go on, and how often it has */
  int times;
  int64_t from;
};

static bool IsInRange(const SignRange *range, uint32_t code)
{
  bool in = code >= range->first && code <= range->last;
  if (range->white) in = RengaSignIsWhite_Private(code);
  if (range->categories) in = (RengaSignCategory_Private(code) & range->categories) != 0;
  return in != range->negated;
}

static bool TakesSign(const PatternText *t, const PatternNode *node, uint32_t code)
{
  bool in = false;
  for (int i = 0; i < node->ranges && !in; i++) {
    const SignRange *range = &t->pattern->range[node->first_range + i];
    in = IsInRange(range, code);
    if (!in && node->small && range->first == range->last)
      in = RengaSignSmall_Private(code) == RengaSignSmall_Private(range->first);
  }
  return in != node->negated;
}

static int64_t MatchNode(PatternText *t, const PatternNode *node, int64_t at,
                         const Continuation *then);

static int64_t MatchThen(PatternText *t, const Continuation *then, int64_t at);

/* Whether the search may go on, one node deeper; the stack has an end. */
static bool GoDeeper(PatternText *t)
{
  return ++t->deep <= MOST_DEEP && ++t->tried <= MOST_TRIED;
}

/* One more turn of a group, or on behind it. */
static int64_t TurnGroup(PatternText *t, const PatternNode *node, int64_t at, int times,
                         const Continuation *then)
{
  const bool may_turn = node->most < 0 || times < node->most;
  if (may_turn) {
    const Continuation again = {.outer = then, .repeated = node, .times = times + 1, .from = at};
    for (const PatternNode *head = node->child; head; head = head->other) {
      const int64_t stop =
          head->is_head_empty ? MatchThen(t, &again, at) : MatchNode(t, head, at, &again);
      if (stop != no_match) return stop;
    }
  }
  return times >= node->least ? MatchThen(t, then, at) : no_match;
}

static int64_t MatchGroup(PatternText *t, const PatternNode *node, int64_t at, int times,
                          const Continuation *then)
{
  const int64_t stop = GoDeeper(t) ? TurnGroup(t, node, at, times, then) : too_hard;
  t->deep--;
  return stop;
}

static int64_t MatchThen(PatternText *t, const Continuation *then, int64_t at)
{
  if (!then) return at;
  if (then->repeated) {
    if (then->from == at && then->times > then->repeated->least)
      return no_match; /* it took nothing */
    return MatchGroup(t, then->repeated, at, then->times, then->outer);
  }
  return then->node ? MatchNode(t, then->node, at, then->outer) : MatchThen(t, then->outer, at);
}

/* As many signs as there are, and one less as long as what follows does not match. */
static int64_t MatchSigns(PatternText *t, const PatternNode *node, int64_t at,
                          const Continuation *then)
{
  const int64_t begin = at;
  int64_t least_at = node->least == 0 ? at : -1;
  uint32_t code = 0;
  int times = 0;
  while (node->most < 0 || times < node->most) {
    const int bytes = RengaSignDecode_Private(t->text, at, t->end, &code);
    if (bytes == 0 || !TakesSign(t, node, code)) break;
    at += bytes;
    if (++times == node->least) least_at = at;
  }
  if (least_at < 0) return no_match;
  for (;;) {
    const int64_t stop = MatchThen(t, then, at);
    if (stop != no_match || at <= least_at || node->kept) return stop;
    for (at--; at > begin && (t->text[at] & 0xc0) == 0x80;) at--;
  }
}

static int64_t MatchAhead(PatternText *t, const PatternNode *node, int64_t at,
                          const Continuation *then)
{
  int64_t stop = no_match;
  for (const PatternNode *head = node->child; head && stop == no_match; head = head->other)
    stop = head->is_head_empty ? at : MatchNode(t, head, at, NULL);
  if (stop == too_hard) return stop;
  return (stop != no_match) != node->negated ? MatchThen(t, then, at) : no_match;
}

static bool EndsLineAt(const PatternText *t, int64_t at)
{
  return at < t->end && t->text[at] == '\n';
}

static int64_t MatchKind(PatternText *t, const PatternNode *node, int64_t at,
                         const Continuation *then)
{
  switch (node->kind) {
  case NODE_SIGN:
    return MatchSigns(t, node, at, then);
  case NODE_GROUP:
    return MatchGroup(t, node, at, 0, then);
  case NODE_AHEAD:
    return MatchAhead(t, node, at, then);
  case NODE_BEGIN:
    return at == 0 || (at < t->end && EndsLineAt(t, at - 1)) ? MatchThen(t, then, at) : no_match;
  case NODE_END:
    break;
  }
  return at == t->end || EndsLineAt(t, at) ? MatchThen(t, then, at) : no_match;
}

static int64_t MatchNode(PatternText *t, const PatternNode *node, int64_t at,
                         const Continuation *outer)
{
  const Continuation then = {.node = node->next, .outer = outer, .from = -1};
  const int64_t stop = GoDeeper(t) ? MatchKind(t, node, at, &then) : too_hard;
  t->deep--;
  return stop;
}

int64_t RengaExpressionMatch_Private(const RengaExpression *pattern, const unsigned char text[],
                                     int64_t at, int64_t end)
{
  PatternText t = {.pattern = pattern, .text = text, .end = end};
  return MatchGroup(&t, pattern->root, at, 0, NULL);
}

RengaErrorCode RengaExpressionRaise_Private(const RengaExpression *pattern, int64_t at)
{
  RengaRaise(
      MPI_COMM_SELF, RENGA_ERR_SUPPORT,
      "the pattern \"%.160s\" of the tokenizer is too hard to match from byte %lld of a part "
      "of the text on: it repeats groups more often than %d times, or in too many ways",
      pattern->text, (long long)at, MOST_DEEP / 4);
}
