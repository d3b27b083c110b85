/* renga eval -eval_choices: questions with several answers, of which the network takes the one to
   whose tokens it gives the highest probability behind the context.

   Gao and others: A framework for few-shot language model evaluation (lm-evaluation-harness), whose
   acc and acc_norm these are. */
#include "text.h"
#include <json-c/json.h>
#include <math.h>
#include <string.h>

enum { CHOICES_BATCH = 8 };

/* The context with one of the choices behind it. */
typedef struct {
  AppTokens text, seen; /* seen: all but the last token, which nothing follows */
  int64_t begin;        /* the first token of the choice */
  int64_t length;       /* of the choice: its bytes, or its tokens where these stand for no text */
  double likelihood;    /* the logarithm of its probability, on rank 0 */
} JoinedChoice;

typedef struct {
  int64_t first, count; /* among all choices */
  int64_t answer;       /* from 0 */
} Question;

typedef struct {
  AppTextModel model;
  const char *file;
  AppLines lines;
  int64_t n_questions, n_choices, room;
  Question *question;
  JoinedChoice *choice;
} Questionnaire;

/* ---- reading ---- */
static RengaErrorCode AppendNumbers(const AppTextModel *model, const char *where,
                                    json_object *array, AppTokens *tokens)
{
  const int64_t count = (int64_t)json_object_array_length(array);
  RengaCall(RengaRealloc(tokens->length + count + 1, &tokens->token));
  for (int64_t i = 0; i < count; i++) {
    json_object *number = json_object_array_get_idx(array, (size_t)i);
    const int64_t token = json_object_get_int64(number);
    RengaCheck(json_object_is_type(number, json_type_int) && token >= 0 && token < model->kinds,
               model->printer, RENGA_ERR_FILE_FORMAT,
               "%s has %.60s, which is no number of a token: they are 0 to %lld", where,
               json_object_to_json_string(number), (long long)model->kinds - 1);
    tokens->token[tokens->length++] = token;
  }
  return RENGA_SUCCESS;
}

/* Both as one text: a token may be of the end of one and the begin of the other. What the context
   has as a text of its own is taken off. */
static RengaErrorCode JoinTexts(const AppTextModel *model, const char *context, const char *choice,
                                JoinedChoice *made)
{
  char *whole = NULL;
  AppTokens before = {0};
  const size_t head = strlen(context), tail = strlen(choice);
  RengaCall(RengaMalloc((int64_t)(head + tail) + 1, &whole));
  memcpy(whole, context, head);
  memcpy(whole + head, choice, tail);
  RengaErrorCode code = AppTextModelEncode(model, whole, (int64_t)(head + tail), 0, &made->text);
  if (!code) code = AppTextModelEncode(model, context, (int64_t)head, 0, &before);
  made->begin = before.length < made->text.length ? before.length : made->text.length - 1;
  made->length = (int64_t)tail;
  RengaFree(&before.token);
  RengaFree(&whole);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode JoinNumbers(const AppTextModel *model, const char *where,
                                  json_object *context, json_object *choice, JoinedChoice *made)
{
  RengaCall(AppendNumbers(model, where, context, &made->text));
  made->begin = made->text.length;
  RengaCall(AppendNumbers(model, where, choice, &made->text));
  made->length = made->text.length - made->begin;
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeChoice(Questionnaire *all, const char *where, json_object *context,
                                 json_object *choice)
{
  const AppTextModel *model = &all->model;
  const json_type type = json_object_get_type(context);
  RengaCheck(json_object_is_type(choice, type), model->printer, RENGA_ERR_FILE_FORMAT,
             "%s: context and choices are all texts, or all arrays of numbers", where);
  RengaCheck(type == json_type_array || !model->numbers, model->printer, RENGA_ERR_SUPPORT,
             "%s is text, and tokens of this network are numbers: -vocabulary_file says what they "
             "stand for",
             where);
  if (all->n_choices == all->room) {
    all->room = 2 * all->room + 64;
    RengaCall(RengaRealloc(all->room, &all->choice));
  }
  JoinedChoice *made = &all->choice[all->n_choices++];
  if (type == json_type_array)
    RengaCall(JoinNumbers(model, where, context, choice, made));
  else
    RengaCall(
        JoinTexts(model, json_object_get_string(context), json_object_get_string(choice), made));
  RengaCheck(made->begin > 0 && made->length > 0, model->printer, RENGA_ERR_FILE_FORMAT,
             "%s: context or choice is empty", where);
  made->seen = (AppTokens){.length = made->text.length - 1, .token = made->text.token};
  RengaCheck(made->seen.length <= model->sequence, model->printer, RENGA_ERR_SHAPE,
             "%s: context and choice have %lld tokens but the last, and the network's sequence is "
             "%lld",
             where, (long long)made->seen.length, (long long)model->sequence);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeQuestion(Questionnaire *all, const char *where, json_object *object)
{
  static const char *const keys[] = {"context", "choices", "answer"};
  Question *question = &all->question[all->n_questions++];
  json_object *value[3] = {NULL};
  for (int k = 0; k < 3 && json_object_is_type(object, json_type_object); k++)
    json_object_object_get_ex(object, keys[k], &value[k]);
  const json_type type = json_object_get_type(value[0]);
  RengaCheck((type == json_type_string || type == json_type_array) &&
                 json_object_is_type(value[1], json_type_array) &&
                 json_object_is_type(value[2], json_type_int),
             all->model.printer, RENGA_ERR_FILE_FORMAT,
             "%s is no question: an object with \"context\", a text or an array of tokens, "
             "\"choices\", an array of such, and \"answer\", the number of the right one from 0",
             where);
  *question = (Question){.first = all->n_choices,
                         .count = (int64_t)json_object_array_length(value[1]),
                         .answer = json_object_get_int64(value[2])};
  RengaCheck(question->answer >= 0 && question->answer < question->count, all->model.printer,
             RENGA_ERR_FILE_FORMAT, "%s: answer %lld is none of its %lld choices, from 0 on", where,
             (long long)question->answer, (long long)question->count);
  for (int64_t c = 0; c < question->count; c++)
    RengaCall(TakeChoice(all, where, value[0], json_object_array_get_idx(value[1], (size_t)c)));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeQuestions(Questionnaire *all)
{
  char where[256];
  RengaCall(RengaMalloc(all->lines.count, &all->question));
  for (int64_t i = 0; i < all->lines.count; i++) {
    snprintf(where, sizeof where, "%.200s, line %lld", all->file, (long long)i + 1);
    json_object *object = AppParseLine(all->lines.line[i]);
    const RengaErrorCode code = TakeQuestion(all, where, object);
    json_object_put(object);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

/* ---- judging ---- */
/* The logarithm of a token's probability among all. */
static double LogProbability(const float scores[], int64_t kinds, int64_t token)
{
  double most = (double)scores[0], sum = 0;
  for (int64_t t = 1; t < kinds; t++)
    if ((double)scores[t] > most) most = (double)scores[t];
  for (int64_t t = 0; t < kinds; t++) sum += exp((double)scores[t] - most);
  return (double)scores[token] - most - log(sum);
}

static RengaErrorCode JudgeBatch(Questionnaire *all, int64_t first, int64_t count)
{
  AppTextModel *model = &all->model;
  AppTokens *texts[CHOICES_BATCH];
  for (int64_t c = 0; c < count; c++) texts[c] = &all->choice[first + c].seen;
  RengaCall(AppTextModelForward(model, count, texts));
  for (int64_t c = 0; c < count && RengaCommGetRank(model->comm) == 0; c++) {
    JoinedChoice *choice = &all->choice[first + c];
    for (int64_t t = choice->begin; t < choice->text.length; t++)
      choice->likelihood += LogProbability(AppTextModelScoresAt(model, c, t - 1), model->kinds,
                                           choice->text.token[t]);
  }
  return RENGA_SUCCESS;
}

/* The first of the best. */
static int64_t ChooseAnswer(const Questionnaire *all, const Question *question, bool by_length)
{
  int64_t best = 0;
  double most = -INFINITY;
  for (int64_t c = 0; c < question->count; c++) {
    const JoinedChoice *choice = &all->choice[question->first + c];
    const double value =
        by_length ? choice->likelihood / (double)choice->length : choice->likelihood;
    if (value > most) best = c;
    if (value > most) most = value;
  }
  return best;
}

static void CountAnswers(const Questionnaire *all, AppChoices *found)
{
  for (int64_t q = 0; q < all->n_questions; q++) {
    const Question *question = &all->question[q];
    const JoinedChoice *right = &all->choice[question->first + question->answer];
    found->right += ChooseAnswer(all, question, false) == question->answer;
    found->right_by_length += ChooseAnswer(all, question, true) == question->answer;
    found->loss -= right->likelihood;
    found->tokens += (double)(right->text.length - right->begin);
  }
  found->loss /= found->tokens;
}

static RengaErrorCode Judge(Questionnaire *all, AppChoices *found)
{
  AppTextModel *model = &all->model;
  RengaCall(AppReadLines(model->comm, all->file, &all->lines));
  RengaCall(TakeQuestions(all));
  RengaCall(AppTextModelSetUp(
      model, all->n_choices < CHOICES_BATCH ? all->n_choices : CHOICES_BATCH, NULL));
  for (int64_t c = 0; c < all->n_choices; c += model->batch) {
    const int64_t left = all->n_choices - c;
    RengaCall(JudgeBatch(all, c, left < model->batch ? left : model->batch));
  }
  *found = (AppChoices){.questions = all->n_questions, .step = model->step};
  if (RengaCommGetRank(model->comm) == 0) CountAnswers(all, found);
  RengaCall(RengaCommBroadcast(model->comm, found, sizeof *found, 0, "the answers"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppEvaluateChoices(RengaComm comm, const char *file, AppChoices *found)
{
  static const char *const unused[] = {"data",         "part",         "eval",
                                       "eval_samples", "data_masking", "data_validation"};
  Questionnaire all = {.file = file};
  const MPI_Comm printer = AppPrinter(comm);
  for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++)
    RengaCall(AppRefuseUnused(printer, unused[i], "-eval_choices has questions of its own"));
  RengaCall(AppPeekInitial(comm));
  RengaCall(AppTextModelOpen(comm, "renga eval -eval_choices", true, &all.model));
  RengaCheck(!all.model.encoder, all.model.printer, RENGA_ERR_SUPPORT,
             "-eval_choices: the network has an encoder, and answers are judged of decoders alone");
  const RengaErrorCode code = Judge(&all, found);
  for (int64_t c = 0; c < all.n_choices; c++) RengaFree(&all.choice[c].text.token);
  RengaFree(&all.choice);
  RengaFree(&all.question);
  AppFreeLines(&all.lines);
  RengaCall(code);
  RengaCall(AppTextModelDestroy(&all.model));
  return RENGA_SUCCESS;
}
