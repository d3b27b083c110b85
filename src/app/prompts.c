/* What renga generate goes on from: texts or numbers of tokens, on the command line or in the lines
   of a file. */
#include "text.h"
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

static bool NameEndsWith(const char *text, const char *end)
{
  const size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

RengaErrorCode AppPromptsOpen(RengaComm comm, AppPromptSource *source)
{
  bool text;
  *source = (AppPromptSource){0};
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString("prompt", &source->text, &text));
  RengaCall(RengaOptionsGetString("prompt_tokens", &source->numbers, NULL));
  RengaCall(RengaOptionsGetString("prompt_file", &source->file, NULL));
  source->given = text || source->numbers || source->file;
  RengaCheck(text + (source->numbers != NULL) + (source->file != NULL) <= 1, printer,
             RENGA_ERR_OPTION,
             "-prompt, -prompt_tokens and -prompt_file: give one of them, not several");
  if (!source->file) return RENGA_SUCCESS;
  source->json = NameEndsWith(source->file, ".jsonl");
  RengaCall(AppReadLines(comm, source->file, &source->lines));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckToken(const AppTextModel *model, const char *where, int64_t token)
{
  RengaCheck(token >= 0 && token < model->kinds, model->printer, RENGA_ERR_OPTION,
             "%s: the network has no token %lld: they are 0 to %lld", where, (long long)token,
             (long long)model->kinds - 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPromptLength(const AppTextModel *model, const char *where,
                                        int64_t length)
{
  RengaCheck(length > 0, model->printer, RENGA_ERR_OPTION, "%s is empty: give some %s", where,
             model->numbers ? "tokens" : "text");
  const AppEncoder *encoder = model->encoder;
  const int field = encoder && encoder->source >= 0 ? encoder->source : model->field;
  const int64_t most = model->fields.specs[field].dim[0] - AppReadsData(model);
  RengaCheck(length <= most, model->printer, RENGA_ERR_OPTION,
             "%s has %lld tokens, and the network's sequence is %lld: shorten it, or build the "
             "network with a longer sequence",
             where, (long long)length, (long long)most);
  return RENGA_SUCCESS;
}

RengaErrorCode AppTakeNumbers(const AppTextModel *model, const char *where, const char *text,
                              int64_t more, AppTokens *tokens)
{
  const char *at = text;
  RengaCall(RengaMalloc((int64_t)strlen(text) + 1 + more, &tokens->token));
  while (*at) {
    char *end;
    errno = 0;
    const long long number = strtoll(at, &end, 10);
    const bool ends = *end == '\0' || (*end == ',' && end[1] != '\0');
    RengaCheck(end > at && ends && errno == 0, model->printer, RENGA_ERR_OPTION,
               "%s: \"%s\" is no list of numbers of tokens such as 15,7,210", where, text);
    RengaCall(CheckToken(model, where, number));
    tokens->token[tokens->length++] = number;
    at = *end ? end + 1 : end;
  }
  return RENGA_SUCCESS;
}

/* What the tokenizer puts before and behind a whole text; more: room behind. */
static RengaErrorCode FramePrompt(const AppTextModel *model, int64_t more, AppTokens *tokens)
{
  const int64_t *n = model->n_frame, length = tokens->length;
  if (n[0] + n[1] == 0) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(n[0] + length + n[1] + more + 1, &tokens->token));
  memmove(tokens->token + n[0], tokens->token, (size_t)length * sizeof *tokens->token);
  for (int64_t i = 0; i < n[0]; i++) tokens->token[i] = model->frame[0][i];
  for (int64_t i = 0; i < n[1]; i++) tokens->token[n[0] + length + i] = model->frame[1][i];
  tokens->length += n[0] + n[1];
  return RENGA_SUCCESS;
}

static RengaErrorCode TakePromptText(const AppTextModel *model, const char *where, const char *text,
                                     int64_t more, AppPrompts *prompts)
{
  const int64_t i = prompts->count++;
  RengaCall(RengaStringCopy(text, &prompts->text[i]));
  RengaCheck(!model->numbers, model->printer, RENGA_ERR_SUPPORT,
             "%s is text, and tokens of this network are numbers: -vocabulary_file says what they "
             "stand for",
             where);
  RengaCall(AppTextModelEncode(model, text, (int64_t)strlen(text), more, &prompts->tokens[i]));
  RengaCall(FramePrompt(model, more, &prompts->tokens[i]));
  RengaCall(CheckPromptLength(model, where, prompts->tokens[i].length));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeArray(const AppTextModel *model, const char *where, json_object *array,
                                int64_t more, AppPrompts *prompts)
{
  AppTokens *tokens = &prompts->tokens[prompts->count++];
  const size_t count = json_object_array_length(array);
  RengaCall(RengaMalloc((int64_t)count + more + 1, &tokens->token));
  for (size_t i = 0; i < count; i++) {
    json_object *number = json_object_array_get_idx(array, i);
    RengaCheck(json_object_is_type(number, json_type_int), model->printer, RENGA_ERR_FILE_FORMAT,
               "%s: \"tokens\" has %.60s, which is no number of a token", where,
               json_object_to_json_string(number));
    RengaCall(CheckToken(model, where, json_object_get_int64(number)));
    tokens->token[tokens->length++] = json_object_get_int64(number);
  }
  RengaCall(CheckPromptLength(model, where, tokens->length));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeObject(const AppTextModel *model, const char *where, json_object *object,
                                 int64_t more, AppPrompts *prompts)
{
  json_object *text = NULL, *tokens = NULL;
  if (json_object_is_type(object, json_type_object)) {
    json_object_object_get_ex(object, "prompt", &text);
    json_object_object_get_ex(object, "tokens", &tokens);
  }
  const bool one = (text != NULL) != (tokens != NULL);
  RengaCheck(one && (text ? json_object_is_type(text, json_type_string)
                          : json_object_is_type(tokens, json_type_array)),
             model->printer, RENGA_ERR_FILE_FORMAT,
             "%s is no prompt: an object with \"prompt\", a text, or with \"tokens\", an array of "
             "numbers",
             where);
  RengaCheck(!text ||
                 strlen(json_object_get_string(text)) == (size_t)json_object_get_string_len(text),
             model->printer, RENGA_ERR_FILE_FORMAT, "%s: the prompt has a character 0", where);
  if (text)
    RengaCall(TakePromptText(model, where, json_object_get_string(text), more, prompts));
  else
    RengaCall(TakeArray(model, where, tokens, more, prompts));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakePromptLine(const AppTextModel *model, const AppPromptSource *source,
                                     int64_t i, int64_t more, AppPrompts *prompts)
{
  char where[256];
  snprintf(where, sizeof where, "%.200s, line %lld", source->file, (long long)i + 1);
  if (!source->json) {
    RengaCall(TakePromptText(model, where, source->lines.line[i], more, prompts));
    return RENGA_SUCCESS;
  }
  json_object *object = AppParseLine(source->lines.line[i]);
  const RengaErrorCode code = TakeObject(model, where, object, more, prompts);
  json_object_put(object);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* -prompt_tokens 1,2;3: prompts with semicolons between them. */
static RengaErrorCode TakeLists(const AppTextModel *model, const char *lists, int64_t more,
                                AppPrompts *prompts)
{
  char *copy = NULL;
  RengaErrorCode code = RengaStringCopy(lists, &copy);
  for (char *at = copy, *next; !code && at; at = next) {
    AppTokens *tokens = &prompts->tokens[prompts->count++];
    next = strchr(at, ';');
    if (next) *next++ = '\0';
    code = AppTakeNumbers(model, "-prompt_tokens", at, more, tokens);
    if (!code) code = CheckPromptLength(model, "-prompt_tokens", tokens->length);
  }
  RengaFree(&copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakePrompts(const AppTextModel *model, const AppPromptSource *source,
                                  int64_t more, AppPrompts *prompts)
{
  const char *list = source->numbers;
  int64_t room = source->file ? source->lines.count : 1;
  for (const char *at = list; at && *at; at++) room += *at == ';';
  RengaCall(RengaMalloc(room, &prompts->text));
  RengaCall(RengaMalloc(room, &prompts->tokens));
  if (list) RengaCall(TakeLists(model, list, more, prompts));
  for (int64_t i = 0; i < source->lines.count; i++)
    RengaCall(TakePromptLine(model, source, i, more, prompts));
  if (!list && !source->file && (source->given || !AppReadsData(model)))
    RengaCall(TakePromptText(model, "-prompt", source->text, more, prompts));
  return RENGA_SUCCESS;
}

/* Texts of samples of a data set begin with one prompt, each with its own, or with none. */
static RengaErrorCode GiveToSamples(const AppTextModel *model, int64_t more, AppPrompts *prompts)
{
  const int64_t samples = model->encoder->samples, count = prompts->count;
  RengaCheck(count < 2 || count == samples, model->printer, RENGA_ERR_OPTION,
             "%lld prompts for %lld samples of -data: give one for all, one for each, or none",
             (long long)count, (long long)samples);
  RengaCall(RengaRealloc(samples, &prompts->text));
  RengaCall(RengaRealloc(samples, &prompts->tokens));
  if (!prompts->tokens) return RENGA_SUCCESS; /* of no sample */
  for (int64_t i = count; i < samples; i++) {
    const AppTokens *given = count ? &prompts->tokens[0] : NULL;
    AppTokens *own = &prompts->tokens[i];
    *own = (AppTokens){.length = given ? given->length : 0};
    prompts->text[i] = NULL;
    prompts->count = i + 1;
    RengaCall(RengaMalloc(own->length + more + 1, &own->token));
    for (int64_t t = 0; given && t < own->length; t++) own->token[t] = given->token[t];
    if (given && prompts->text[0]) RengaCall(RengaStringCopy(prompts->text[0], &prompts->text[i]));
  }
  for (int64_t i = 0; i < samples; i++) prompts->tokens[i].sample = i;
  return RENGA_SUCCESS;
}

RengaErrorCode AppPromptsTake(const AppTextModel *model, const AppPromptSource *source,
                              int64_t more, AppPrompts *prompts)
{
  *prompts = (AppPrompts){0};
  RengaErrorCode code = TakePrompts(model, source, more, prompts);
  if (!code && AppReadsData(model)) code = GiveToSamples(model, more, prompts);
  if (code) AppPromptsFree(prompts);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void AppPromptsFree(AppPrompts *prompts)
{
  for (int64_t i = 0; i < prompts->count; i++) {
    RengaFree(&prompts->text[i]);
    RengaFree(&prompts->tokens[i].token);
  }
  RengaFree(&prompts->text);
  RengaFree(&prompts->tokens);
  prompts->count = 0;
}
