/* A formula that a program wrote (splitimpl.h), checked sign by sign before it is read. Groups are
   Renga's own, and its letters are axes that mean no more than others. */
#include "splitimpl.h"
#include "renga/private/number.h"
#include "renga/private/object.h"
#include <string.h>

enum { LETTERS = 128 };

typedef struct {
  const RengaOperator *op;
  const char *at;        /* the next sign */
  bool outputs;          /* behind > */
  bool inputs[LETTERS];  /* letters, and *, of an input */
  bool in_word[LETTERS]; /* of this word; * stands for ~, too */
} Formula;

/* What comes next is not what is expected. */
static RengaErrorCode RefuseSign(const Formula *formula, const char *expected)
{
  const char *name = formula->op->name ? formula->op->name : "without a name";
  const char *text = formula->op->split;
  RengaCheck(*formula->at, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the operator %s: its split rule \"%s\" ends where %s is expected", name, text,
             expected);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the operator %s: sign %d of its split rule \"%s\" is %c, where %s is expected", name,
             (int)(formula->at - text) + 1, text, *formula->at, expected);
}

static RengaErrorCode CheckAxis(Formula *formula, int sign)
{
  if (formula->in_word[sign])
    return RefuseSign(formula, "another axis, as a word has each once, and * or ~ once,");
  if (formula->outputs && sign != '~' && !formula->inputs[sign])
    return RefuseSign(formula, "an axis of some input");
  formula->in_word[sign] = true;
  if (sign == '*' || sign == '~') formula->in_word['*'] = formula->in_word['~'] = true;
  if (!formula->outputs) formula->inputs[sign] = true;
  return RENGA_SUCCESS;
}

static bool EndsWord(char sign)
{
  return sign == '\0' || sign == ' ' || sign == '>';
}

static RengaErrorCode CheckWord(Formula *formula)
{
  memset(formula->in_word, 0, sizeof formula->in_word);
  if (*formula->at == '+' && !formula->outputs) formula->at++;
  if (*formula->at == '.') {
    formula->at++;
    return EndsWord(*formula->at) ? RENGA_SUCCESS : RefuseSign(formula, "the end of a word");
  }
  if (EndsWord(*formula->at)) return RefuseSign(formula, "a letter, -, *, ~ or .");
  for (; !EndsWord(*formula->at); formula->at++) {
    const char sign = *formula->at;
    if (sign == '*' || sign == '~' || RengaIsLetter(sign))
      RengaCall(CheckAxis(formula, sign));
    else if (sign != '-')
      return RefuseSign(formula, "a letter, -, *, ~, a space or >");
  }
  return RENGA_SUCCESS;
}

/* At most so many words; the last one stands for all further tensors. */
static RengaErrorCode CheckSide(Formula *formula, int most)
{
  int words = 0;
  for (;;) {
    formula->at += strspn(formula->at, " ");
    if (words > 0 && (*formula->at == '\0' || *formula->at == '>')) return RENGA_SUCCESS;
    if (words == most) return RefuseSign(formula, formula->outputs ? "the end" : ">");
    RengaCall(CheckWord(formula));
    words++;
  }
}

RengaErrorCode RengaSplitCheck_Private(const RengaOperator *op)
{
  Formula formula = {.op = op, .at = op->split};
  const size_t most = sizeof(((RengaFormula *)NULL)->text) - 1;
  RengaCheck(strlen(op->split) <= most, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the operator %s: its split rule has %zu signs, at most %zu are allowed",
             op->name ? op->name : "without a name", strlen(op->split), most);
  RengaCall(CheckSide(&formula, op->max_in));
  if (*formula.at != '>') return RefuseSign(&formula, ">");
  formula.at++;
  formula.outputs = true;
  RengaCall(CheckSide(&formula, op->max_out));
  return *formula.at ? RefuseSign(&formula, "the end") : RENGA_SUCCESS;
}
