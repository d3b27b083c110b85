/* renga generate: what a trained network writes behind prompts, a token at a time. Several prompts
   are written at once; one that has ended makes room for the next. */
#include "text.h"
#include <json-c/json.h>
#include <string.h>

enum { BATCH = 8 };

/* What ends a text. */
typedef struct {
  char *texts;     /* ended by zeros */
  int64_t longest; /* of them, in bytes */
  int n_texts, n_tokens;
  const char **text; /* [n_texts] in texts */
  int64_t *token;    /* [n_tokens] */
} StopRules;

/* One prompt and what is written behind it. */
typedef struct {
  AppTokens *tokens;
  int64_t prompt;  /* tokens of the prompt */
  int64_t written; /* tokens behind it */
  uint64_t key;    /* of its random numbers */
  char *text;      /* what was written, spelled */
  int64_t length, room, printed;
  bool begun, stopped, done; /* stopped: by a rule */
} Writing;

typedef struct {
  AppTextModel *model;
  AppPrompts prompts;
  AppSampler sampler;
  StopRules stop;
  int64_t most;     /* tokens behind a prompt */
  bool json;        /* -generate_format jsonl */
  Writing *writing; /* [prompts] */
  int64_t next;     /* whose text is printed next */
} Generator;

/* ---- what ends a text ---- */
/* The sign that a letter behind a backslash stands for; 0: none. */
static char EscapedSign(char letter)
{
  static const char signs[][2] = {{'n', '\n'}, {'t', '\t'}, {'\\', '\\'}, {',', ','}};
  for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
    if (signs[i][0] == letter) return signs[i][1];
  return 0;
}

/* Up to the next comma that has no backslash before it. */
static const char *TakeStop(const char *at, char *to)
{
  for (; *at && *at != ','; at++) {
    const char sign = *at == '\\' ? EscapedSign(at[1]) : 0;
    *to++ = sign ? sign : *at;
    at += sign != 0;
  }
  *to = '\0';
  return *at ? at + 1 : at;
}

/* A text that is one token of the vocabulary also ends as that, whatever it is spelled. */
static RengaErrorCode AddStop(Generator *generator, const char *text)
{
  const AppTextModel *model = generator->model;
  StopRules *stop = &generator->stop;
  AppTokens tokens = {0};
  const int64_t length = (int64_t)strlen(text);
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheck(length > 0, model->printer, RENGA_ERR_OPTION,
             "-generate_stop has an empty text: write texts with commas between them, and tokens "
             "as #7");
  RengaCheck(!model->numbers || text[0] == '#', model->printer, RENGA_ERR_OPTION,
             "-generate_stop %s: tokens of this network stand for no text; write them as #7", text);
  if (text[0] == '#' && text[1])
    code = AppTakeNumbers(model, "-generate_stop", text + 1, 0, &tokens);
  else if (model->vocabulary)
    code = AppTextModelEncode(model, text, length, 0, &tokens);
  if (!code && tokens.length == 1) stop->token[stop->n_tokens++] = tokens.token[0];
  RengaFree(&tokens.token);
  RengaCall(code);
  if (text[0] == '#' && text[1]) return RENGA_SUCCESS;
  stop->text[stop->n_texts++] = text;
  if (length > stop->longest) stop->longest = length;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadStops(Generator *generator)
{
  StopRules *stop = &generator->stop;
  const char *option;
  RengaCall(RengaOptionsGetString("generate_stop", &option, NULL));
  if (!option) return RENGA_SUCCESS;
  const int64_t room = (int64_t)strlen(option) + 1;
  RengaCall(RengaMalloc(2 * room, &stop->texts));
  RengaCall(RengaMalloc(room, &stop->text));
  RengaCall(RengaMalloc(room, &stop->token));
  char *to = stop->texts;
  do {
    option = TakeStop(option, to);
    RengaCall(AddStop(generator, to));
    to += strlen(to) + 1;
  } while (*option);
  return RENGA_SUCCESS;
}

/* The first of the texts in what was written; -1: none. */
static int64_t FindStop(const StopRules *stop, const Writing *writing, int64_t from)
{
  int64_t first = -1;
  for (int64_t at = from > 0 ? from : 0; at < writing->length && first < 0; at++)
    for (int i = 0; i < stop->n_texts && first < 0; i++) {
      const int64_t length = (int64_t)strlen(stop->text[i]);
      if (at + length <= writing->length &&
          memcmp(writing->text + at, stop->text[i], (size_t)length) == 0)
        first = at;
    }
  return first;
}

static bool IsStopToken(const StopRules *stop, int64_t token)
{
  for (int i = 0; i < stop->n_tokens; i++)
    if (stop->token[i] == token) return true;
  return false;
}

/* ---- writing ---- */
static RengaErrorCode AppendSpelled(Writing *writing, const char *text, int64_t length)
{
  if (writing->length + length + 1 > writing->room) {
    writing->room = 2 * (writing->length + length) + 64;
    RengaCall(RengaRealloc(writing->room, &writing->text));
  }
  memcpy(writing->text + writing->length, text, (size_t)length);
  writing->length += length;
  writing->text[writing->length] = '\0';
  return RENGA_SUCCESS;
}

/* All ranks know the token, and so all that follows from it. */
static RengaErrorCode AddToken(Generator *generator, Writing *writing, int64_t token)
{
  const StopRules *stop = &generator->stop;
  const char *text;
  int64_t length;
  writing->tokens->token[writing->tokens->length++] = token;
  writing->written++;
  writing->stopped = IsStopToken(stop, token);
  if (!writing->stopped) {
    RengaCall(AppTextModelSpell(generator->model, token, &text, &length));
    const int64_t before = writing->length;
    RengaCall(AppendSpelled(writing, text, length));
    const int64_t at = FindStop(stop, writing, before - stop->longest + 1);
    writing->stopped = at >= 0;
    if (at >= 0) writing->length = at;
  }
  writing->text[writing->length] = '\0';
  writing->done = writing->stopped || writing->written == generator->most;
  if (writing->done) AppTextModelLeave(generator->model, writing->tokens);
  return RENGA_SUCCESS;
}

/* Equal prompts have numbers of their own, by their order; else a text depends on its prompt and
   the seed alone. */
static void FindKeys(Generator *generator)
{
  for (int64_t i = 0; i < generator->prompts.count; i++) {
    Writing *writing = &generator->writing[i];
    const uint64_t key =
        RengaHash(writing->tokens->token, (size_t)writing->prompt * sizeof(int64_t), 0);
    uint64_t equal = 0;
    for (int64_t j = 0; j < i; j++) {
      const Writing *other = &generator->writing[j];
      equal += other->prompt == writing->prompt &&
               memcmp(other->tokens->token, writing->tokens->token,
                      (size_t)writing->prompt * sizeof(int64_t)) == 0;
    }
    writing->key = key + equal;
  }
}

/* ---- printing, in the order of the prompts ---- */
static RengaErrorCode PrintPrompt(Generator *generator, int64_t i)
{
  const AppTextModel *model = generator->model;
  const Writing *writing = &generator->writing[i];
  if (generator->prompts.text[i]) {
    RengaCall(RengaPrintf(model->printer, "%s", generator->prompts.text[i]));
    return RENGA_SUCCESS;
  }
  for (int64_t t = 0; t < writing->prompt; t++) {
    const char *text;
    int64_t length;
    RengaCall(AppTextModelSpell(generator->model, writing->tokens->token[t], &text, &length));
    const int blank = model->numbers && t == 0;
    RengaCall(RengaPrintf(model->printer, "%.*s", (int)length - blank, text + blank));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintBytes(const Generator *generator, Writing *writing, int64_t end)
{
  while (writing->printed < end) { /* bytes 0 end a format's text */
    const char *at = writing->text + writing->printed;
    const int64_t run = (int64_t)strnlen(at, (size_t)(end - writing->printed));
    RengaCall(run > 0 ? RengaPrintf(generator->model->printer, "%.*s", (int)run, at)
                      : RengaPrintf(generator->model->printer, "%c", 0));
    writing->printed += run > 0 ? run : 1;
  }
  return RENGA_SUCCESS;
}

/* What may yet become a text that ends it is held back. */
static RengaErrorCode PrintText(Generator *generator, int64_t i)
{
  Writing *writing = &generator->writing[i];
  const int64_t held =
      writing->done || generator->stop.longest == 0 ? 0 : generator->stop.longest - 1;
  if (!writing->begun) RengaCall(PrintPrompt(generator, i));
  writing->begun = true;
  RengaCall(PrintBytes(generator, writing, writing->length - held));
  if (writing->done) RengaCall(RengaPrintf(generator->model->printer, "\n"));
  return RENGA_SUCCESS;
}

/* Bytes of a sign of UTF-8 at a place; 0: there is none. */
static int64_t SignBytes(const unsigned char *at, int64_t left)
{
  const int64_t bytes = at[0] < 0x80                    ? 1
                        : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                        : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                        : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                        : 0;
  if (bytes > left) return 0;
  for (int64_t i = 1; i < bytes; i++)
    if ((at[i] & 0xc0) != 0x80) return 0;
  return bytes;
}

/* JSON has text alone: a byte that is of no sign becomes U+FFFD. */
static RengaErrorCode MakeString(const char *text, int64_t length, json_object **string)
{
  char *valid = NULL;
  int64_t used = 0;
  RengaCall(RengaMalloc(3 * length + 1, &valid));
  for (int64_t at = 0; at < length;) {
    const int64_t bytes = SignBytes((const unsigned char *)text + at, length - at);
    memcpy(valid + used, bytes > 0 ? text + at : "\xef\xbf\xbd", (size_t)(bytes > 0 ? bytes : 3));
    used += bytes > 0 ? bytes : 3;
    at += bytes > 0 ? bytes : 1;
  }
  *string = json_object_new_string_len(valid, (int)used);
  RengaFree(&valid);
  return RENGA_SUCCESS;
}

static json_object *ListTokens(const AppTokens *tokens, int64_t first, int64_t last)
{
  json_object *array = json_object_new_array();
  for (int64_t t = first; t < last; t++)
    json_object_array_add(array, json_object_new_int64(tokens->token[t]));
  return array;
}

static RengaErrorCode FillObject(const Generator *generator, int64_t i, json_object *object)
{
  const Writing *writing = &generator->writing[i];
  const char *prompt = generator->prompts.text[i];
  json_object *text;
  if (prompt) {
    RengaCall(MakeString(prompt, (int64_t)strlen(prompt), &text));
    json_object_object_add(object, "prompt", text);
  }
  json_object_object_add(object, "prompt_tokens", ListTokens(writing->tokens, 0, writing->prompt));
  if (!generator->model->numbers) {
    RengaCall(MakeString(writing->text, writing->length, &text));
    json_object_object_add(object, "text", text);
  }
  json_object_object_add(object, "tokens",
                         ListTokens(writing->tokens, writing->prompt, writing->tokens->length));
  json_object_object_add(object, "end",
                         json_object_new_string(writing->stopped ? "stop" : "length"));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintObject(const Generator *generator, int64_t i)
{
  const int plain = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
  if (!generator->writing[i].done) return RENGA_SUCCESS;
  json_object *object = json_object_new_object();
  RengaErrorCode code = FillObject(generator, i, object);
  if (!code)
    code = RengaPrintf(generator->model->printer, "%s\n",
                       json_object_to_json_string_ext(object, plain));
  json_object_put(object);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintWritten(Generator *generator)
{
  for (bool done = true; done && generator->next < generator->prompts.count;) {
    const int64_t i = generator->next;
    RengaCall(generator->json ? PrintObject(generator, i) : PrintText(generator, i));
    done = generator->writing[i].done;
    generator->next += done;
  }
  return RENGA_SUCCESS;
}

/* ---- all prompts ---- */
/* Those that are under way: as many as go into a forward, in their order. */
static int64_t ChooseWritings(Generator *generator, Writing *chosen[], AppTokens *texts[])
{
  int64_t count = 0;
  for (int64_t i = generator->next; i < generator->prompts.count && count < generator->model->batch;
       i++) {
    if (generator->writing[i].done) continue;
    chosen[count] = &generator->writing[i];
    texts[count++] = generator->writing[i].tokens;
  }
  return count;
}

static RengaErrorCode WriteRound(Generator *generator, int64_t count, Writing *const chosen[],
                                 AppTokens *const texts[], int64_t next[])
{
  AppTextModel *model = generator->model;
  RengaCall(AppTextModelForward(model, count, texts));
  for (int64_t c = 0; c < count && RengaCommGetRank(model->comm) == 0; c++)
    next[c] =
        AppSamplerChoose(&generator->sampler, AppTextModelScoresAt(model, c, texts[c]->length - 1),
                         chosen[c]->key, chosen[c]->written);
  RengaCall(
      RengaCommBroadcast(model->comm, next, (size_t)count * sizeof *next, 0, "the next tokens"));
  for (int64_t c = 0; c < count; c++) RengaCall(AddToken(generator, chosen[c], next[c]));
  RengaCall(PrintWritten(generator));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteTexts(Generator *generator)
{
  Writing **chosen = NULL;
  AppTokens **texts = NULL;
  int64_t *next = NULL, count;
  RengaErrorCode code = RengaMalloc(generator->model->batch, &chosen);
  if (!code) code = RengaMalloc(generator->model->batch, &texts);
  if (!code) code = RengaMalloc(generator->model->batch, &next);
  while (!code && (count = ChooseWritings(generator, chosen, texts)) > 0)
    code = WriteRound(generator, count, chosen, texts, next);
  RengaFree(&next);
  RengaFree(&texts);
  RengaFree(&chosen);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginWritings(Generator *generator)
{
  const int64_t count = generator->prompts.count;
  RengaCall(RengaMalloc(count, &generator->writing));
  for (int64_t i = 0; i < count; i++) {
    Writing *writing = &generator->writing[i];
    writing->tokens = &generator->prompts.tokens[i];
    writing->prompt = writing->tokens->length;
    if (generator->model->encoder && generator->model->encoder->source >= 0)
      writing->tokens->source = writing->prompt;
    RengaCall(AppendSpelled(writing, "", 0));
  }
  FindKeys(generator);
  return RENGA_SUCCESS;
}

/* The last token that is written is not read again. */
static int64_t FindLongest(const Generator *generator)
{
  int64_t longest = 0;
  for (int64_t i = 0; i < generator->prompts.count; i++) {
    const int64_t places = AppTextPlaces(generator->model, generator->writing[i].tokens);
    if (places > longest) longest = places;
  }
  return longest + generator->most - 1;
}

/* A decoder beside an encoder has no texts that lose their begin. */
static RengaErrorCode CheckTarget(const Generator *generator)
{
  const AppTextModel *model = generator->model;
  const int64_t longest = FindLongest(generator);
  RengaCheck(
      !model->encoder || longest <= model->sequence, model->printer, RENGA_ERR_OPTION,
      "-tokens %lld: the network's target has %lld%s; write fewer, or build it with a longer "
      "target",
      (long long)generator->most, (long long)model->sequence,
      AppReadsData(model) ? ", with the prompt and the token before it" : "");
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpGenerator(RengaComm comm, Generator *generator)
{
  AppTextModel *model = generator->model;
  AppPromptSource source;
  const char *file, *format;
  int64_t batch;
  RengaCall(AppNeedOption(comm, "checkpoint", "the file of a trained network", &file));
  RengaCall(AppPromptsOpen(comm, &source));
  RengaCall(AppTextModelOpen(comm, "renga generate", source.numbers || source.json, model));
  if (!AppReadsData(model))
    RengaCall(AppRefuseUnused(model->printer, "data", "the network reads prompts alone"));
  model->numbers = model->numbers || (source.numbers && !model->vocabulary);
  RengaCall(AppSamplerCreate(model->printer, model->lowest, model->highest, &generator->sampler));
  RengaCall(RengaOptionsGetInt64("tokens", &generator->most, NULL));
  RengaCall(RengaOptionsGetInt64("batch_size", &batch, NULL));
  RengaCall(RengaOptionsGetString("generate_format", &format, NULL));
  generator->json = strcmp(format, "jsonl") == 0;
  RengaCall(AppPromptsTake(model, &source, generator->most, &generator->prompts));
  AppFreeLines(&source.lines);
  RengaCall(ReadStops(generator));
  RengaCall(BeginWritings(generator));
  RengaCall(CheckTarget(generator));
  if (batch == 0) batch = BATCH;
  if (batch > generator->prompts.count) batch = generator->prompts.count;
  RengaCall(AppTextModelCache(model, batch, FindLongest(generator)));
  RengaCall(AppTextModelSetUp(model, batch, file));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyGenerator(Generator *generator)
{
  for (int64_t i = 0; i < generator->prompts.count; i++) RengaFree(&generator->writing[i].text);
  RengaFree(&generator->writing);
  RengaFree(&generator->stop.texts);
  RengaFree(&generator->stop.text);
  RengaFree(&generator->stop.token);
  AppSamplerDestroy(&generator->sampler);
  AppPromptsFree(&generator->prompts);
  RengaCall(AppTextModelDestroy(generator->model));
  return RENGA_SUCCESS;
}

RengaErrorCode AppGenerate(const App *app)
{
  AppTextModel model;
  Generator generator = {.model = &model};
  RengaCall(SetUpGenerator(app->comm, &generator));
  RengaCall(WriteTexts(&generator));
  RengaCall(DestroyGenerator(&generator));
  return RENGA_SUCCESS;
}
