/* TEST ranks: 1 */
/* A tokenizer.json of the kind of GPT-2: tokens are those that transformers makes; the vocabulary
   in files; what is refused, by name. */
#include "datatest.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };

/* Made with tokenizers 0.23 and encoded with transformers 5. */
static const struct {
  const char *text;
  int64_t count;
  int64_t tokens[MOST];
} cases[] = {
    {"In the beginning", 6, {41, 78, 259, 277, 275, 71}},
    {" it's the end; they'll  and\012\012 the\011band ",
     24,
     {221, 73, 84, 7,   83,  259, 221, 69,  260, 27, 259, 89,
      7,   76, 76, 221, 273, 199, 199, 259, 198, 66, 261, 221}},
    {"na\303\257ve caf\303\251 \346\235\261\344\272\254 x\302\262\331\243 \360\237\231\202",
     26,
     {269, 272, 221, 67, 65,  70,  128, 103, 221, 163, 252, 110, 161,
      119, 106, 221, 88, 127, 111, 150, 97,  221, 173, 254, 248, 225}},
    {"a<|end|><word>the<|end", 9, {65, 0, 280, 257, 69, 28, 92, 69, 260}},
    {"\302\240 \343\200\200and \015\012", 10, {127, 255, 221, 160, 223, 223, 261, 221, 202, 199}},
    {"!!'s --- 2024 it'S",
     18,
     {1, 1, 7, 83, 221, 13, 13, 13, 221, 18, 16, 18, 20, 221, 73, 84, 7, 51}},
    {"", 0, {0}},
};

static char json_name[1024];
static const char changed_name[] = "tokenizer.tmp.json", set_name[] = "tokenizer.tmp.h5",
                  text_name[] = "tokenizer.tmp.txt";

static RengaErrorCode CheckCases(RengaVocabulary vocabulary)
{
  for (int c = 0; c < COUNT_OF(cases); c++) {
    const char *text = cases[c].text, *part;
    int64_t count, *tokens, length;
    RengaCall(RengaVocabularyEncode(vocabulary, text, (int64_t)strlen(text), &count, &tokens));
    Expect(count == cases[c].count);
    for (int64_t t = 0; t < count; t++) {
      Expect(tokens[t] == cases[c].tokens[t]);
      RengaCall(RengaVocabularyDecode(vocabulary, tokens[t], &part, &length));
      if (length == 0) part = "<|end|>"; /* it stands for no text */
      const size_t bytes = length ? (size_t)length : strlen(part);
      Expect(strncmp(text, part, bytes) == 0);
      text += bytes;
    }
    Expect(*text == '\0');
    RengaFree(&tokens);
  }
  return RENGA_SUCCESS;
}

/* The file itself, one that was kept, and a data set that was made with it. */
static RengaErrorCode CheckFiles(RengaComm comm)
{
  RengaVocabulary vocabulary;
  int64_t kinds;
  RengaCall(RengaVocabularyRead(json_name, &vocabulary));
  RengaCall(RengaVocabularyGetCount(vocabulary, &kinds));
  Expect(kinds == 281);
  RengaCall(CheckCases(vocabulary));
  FILE *file = fopen(text_name, "wb");
  Expect(file && fputs(cases[1].text, file) >= 0 && fclose(file) == 0);
  RengaCall(RengaDataWriteTokens(comm, vocabulary, text_name, set_name, 4, 0));
  RengaCall(RengaVocabularyWrite(vocabulary, changed_name));
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  RengaCall(RengaVocabularyRead(changed_name, &vocabulary));
  RengaCall(CheckCases(vocabulary));
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  RengaCall(RengaVocabularyRead(set_name, &vocabulary));
  RengaCall(CheckCases(vocabulary));
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  return RENGA_SUCCESS;
}

/* Samples of the data set are the tokens in order. */
static RengaErrorCode CheckSamples(RengaComm comm)
{
  static const char *const names[] = {"tokens", "labels"};
  const RengaTensorSpec specs[] = {Spec(RENGA_INT64, 1, 4, 0), Spec(RENGA_INT64, 1, 4, 0)};
  const int64_t classes[] = {281, 281};
  RengaData data;
  int64_t tokens[8], labels[8], count;
  RengaCall(OpenData(comm, set_name, 2, names, specs, classes, &data));
  RengaCall(RengaDataSetShuffle(data, false));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &count));
  Expect(count == 5);
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 0, 2, tokens));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 0, 0, 2, labels));
  for (int i = 0; i < 8; i++)
    Expect(tokens[i] == cases[1].tokens[i] && labels[i] == cases[1].tokens[i + 1]);
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

/* The file with one part changed. */
static RengaErrorCode Change(const char *from, const char *to)
{
  static char text[16384];
  FILE *file = fopen(json_name, "rb");
  Expect(file != NULL);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  char *at = strstr(text, from);
  Expect(at != NULL);
  file = fopen(changed_name, "wb");
  Expect(file != NULL);
  fprintf(file, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  fclose(file);
  return RENGA_SUCCESS;
}

#define PLAIN "\"normalizer\":null"
#define REPLACE(expression)                                                                        \
  "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"" expression                      \
  "\"},\"content\":\"#\"}"

/* The forms of expressions are those of Oniguruma. */
static RengaErrorCode CheckExpressions(void)
{
  static const struct {
    const char *json, *text, *becomes;
  } known[] = {
      {REPLACE("^a"), "aa a\na", "#a a\n#"}, {REPLACE("a$"), "a b\na\nba", "a b\n#\nb#"},
      {REPLACE("a{1,2}+"), "aaaaab", "#b"},  {REPLACE("a{,2}b"), "aaab", "a#"},
      {REPLACE("a++b|a"), "aab a", "# #"},   {REPLACE("(?:a|ab)+c(?!d)"), "aabc abcd", "# abcd"}};
  RengaVocabulary vocabulary;
  for (int k = 0; k < COUNT_OF(known); k++) {
    char back[64] = "";
    int64_t count, *tokens, length;
    const char *part;
    RengaCall(Change(PLAIN, known[k].json));
    RengaCall(RengaVocabularyRead(changed_name, &vocabulary));
    RengaCall(RengaVocabularyEncode(vocabulary, known[k].text, (int64_t)strlen(known[k].text),
                                    &count, &tokens));
    for (int64_t t = 0; t < count; t++) {
      RengaCall(RengaVocabularyDecode(vocabulary, tokens[t], &part, &length));
      strncat(back, part, (size_t)length);
    }
    Expect(strcmp(back, known[k].becomes) == 0);
    RengaFree(&tokens);
    RengaCall(RengaVocabularyDestroy(&vocabulary));
  }
  return RENGA_SUCCESS;
}

/* A group that is repeated as often as a long text has it. */
static RengaErrorCode CheckHardExpression(void)
{
  enum { LENGTH = 200000 };
  static char text[LENGTH];
  RengaVocabulary vocabulary;
  int64_t count, *tokens;
  for (int i = 0; i < LENGTH; i++) text[i] = "ab"[i % 2];
  RengaCall(Change(PLAIN, REPLACE("(?:ab)+")));
  RengaCall(RengaVocabularyRead(changed_name, &vocabulary));
  ExpectError(RengaVocabularyEncode(vocabulary, text, LENGTH, &count, &tokens), RENGA_ERR_SUPPORT,
              "the pattern \"(?:ab)+\" of the tokenizer is too hard to match from byte 0");
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  return RENGA_SUCCESS;
}

#define DEEP "(((((((((((((((((((("

static RengaErrorCode CheckRefusedExpressions(void)
{
  static const struct {
    const char *json, *place;
  } refused[] = {
      {REPLACE("(?:a)++"), "is not supported from place 6 on"},
      {REPLACE("(?!a)*"), "is not supported from place 6 on"},
      {REPLACE("a{2}+"), "is not supported from place 4 on"},
      {REPLACE("a{3,2}"), "is not supported from place 1 on"},
      {REPLACE("(?i:[a-z])"), "is not supported from place 8 on"},
      {REPLACE(DEEP DEEP DEEP DEEP DEEP DEEP DEEP), "is not supported from place 129 on"},
  };
  RengaVocabulary vocabulary;
  for (int r = 0; r < COUNT_OF(refused); r++) {
    RengaCall(Change(PLAIN, refused[r].json));
    ExpectError(RengaVocabularyRead(changed_name, &vocabulary), RENGA_ERR_SUPPORT, changed_name,
                refused[r].place);
  }
  return RENGA_SUCCESS;
}

#define BARE "\"post_processor\":null"
#define AROUND                                                                                     \
  "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":"  \
  "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{\"id\":"    \
  "\"A\"}},"                                                                                       \
  "{\"SpecialToken\":{\"id\":\"y\"}}],\"special_tokens\":{\"x\":{\"ids\":[7,8]},\"y\":{\"ids\":["  \
  "9]}}}]}"
#define PAIRED                                                                                     \
  "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"</s>\",2],\"cls\":[\"<s>\",0]}"

/* What stands around texts, and what targets begin with. */
static RengaErrorCode CheckFrames(void)
{
  static const struct {
    const char *json;
    int64_t count[2], first[2]; /* their first tokens */
  } known[] = {{BARE, {0, 0}, {0, 0}}, {AROUND, {2, 1}, {7, 9}}, {PAIRED, {1, 1}, {0, 2}}};
  RengaVocabulary vocabulary;
  int64_t count[2], *tokens[2], start, padding;
  for (int k = 0; k < COUNT_OF(known); k++) {
    RengaCall(Change(BARE, known[k].json));
    RengaCall(RengaVocabularyRead(changed_name, &vocabulary));
    RengaCall(RengaVocabularyGetFrame(vocabulary, count, tokens));
    for (int side = 0; side < 2; side++) {
      Expect(count[side] == known[k].count[side]);
      Expect(count[side] == 0 || tokens[side][0] == known[k].first[side]);
      RengaFree(&tokens[side]);
    }
    RengaCall(RengaVocabularyGetStart(vocabulary, &start, &padding));
    Expect(start == -1 && padding == -1);
    ExpectError(RengaVocabularySetStart(vocabulary, -1, 0), RENGA_ERR_ARGUMENT,
                "a text cannot begin with token -1");
    RengaCall(RengaVocabularySetStart(vocabulary, 3, 4));
    RengaCall(RengaVocabularyGetStart(vocabulary, &start, &padding));
    Expect(start == 3 && padding == 4);
    RengaCall(RengaVocabularyDestroy(&vocabulary));
  }
  RengaCall(Change(BARE, "\"post_processor\":{\"type\":\"Odd\"}"));
  RengaCall(RengaVocabularyRead(changed_name, &vocabulary));
  ExpectError(RengaVocabularyGetFrame(vocabulary, count, tokens), RENGA_ERR_SUPPORT,
              "post_processor is {\"type\":\"Odd\"}, which is not supported");
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefusals(void)
{
  static const struct {
    const char *from, *to;
    RengaErrorCode code;
    const char *says;
  } changes[] = {
      {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}", RENGA_ERR_SUPPORT,
       "normalizer is {\"type\":\"NFKC\"}, which is not supported"},
      {"\"normalizer\":null",
       "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA\"}",
       RENGA_ERR_FILE_FORMAT, "precompiled_charsmap of its normalizer is damaged"},
      {"\"normalizer\":null",
       "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a(?<b\"},\"content\":\"\"}",
       RENGA_ERR_SUPPORT, "the pattern \"a(?<b\" is not supported from place 2 on"},
      {PLAIN, REPLACE("\xff"), RENGA_ERR_FILE_FORMAT, ", 0xff, is no text in UTF-8"},
      {PLAIN,
       "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAD/AA==\"}",
       RENGA_ERR_FILE_FORMAT, "precompiled_charsmap of its normalizer is damaged"},
      {"\"type\":\"BPE\"", "\"type\":\"WordPiece\"", RENGA_ERR_SUPPORT,
       "pre_tokenizer ByteLevel with model WordPiece is not supported"},
      {"\"type\":\"BPE\"", "\"type\":\"WordLevel\"", RENGA_ERR_SUPPORT,
       "its model (WordLevel) is not BPE with vocab and merges, Unigram or WordPiece"},
      {"\"type\":\"ByteLevel\"", "\"type\":\"Chinese\"", RENGA_ERR_SUPPORT,
       "pre_tokenizer is {\"type\":\"Chinese\""},
      {"\"dropout\":null", "\"dropout\":0.5", RENGA_ERR_SUPPORT, "model.dropout is 0.5"},
      {"\"truncation\":null", "\"truncation\":{}", RENGA_ERR_SUPPORT, "truncation is"},
      {"\"merges\"", "\"fusions\"", RENGA_ERR_SUPPORT, "is not BPE with vocab and merges"},
      {"\"a\":", "\"aa\":", RENGA_ERR_SUPPORT, "byte 0x61 has no token"},
      {"\"a\":65", "\"a\":-65", RENGA_ERR_FILE_FORMAT, "\"a\" has no token"},
      {"\"vocab\":{", "\"vocab\":[65],\"more\":{", RENGA_ERR_FILE_FORMAT,
       "model.vocab is no object of tokens: [ 65 ]"},
      {"\"merges\":[", "\"merges\":\"a b\",\"more\":[", RENGA_ERR_FILE_FORMAT,
       "model.merges is no array: \"a b\""},
      {"\"added_tokens\":[", "\"added_tokens\":5,\"more\":[", RENGA_ERR_FILE_FORMAT,
       "added_tokens is no array: 5"},
      {"\"added_tokens\":[", "\"added_tokens\":[7,", RENGA_ERR_FILE_FORMAT,
       "the id of added token 0, null, is no number from 0"},
      {"\"id\":280", "\"id\":\"280\"", RENGA_ERR_FILE_FORMAT,
       "the id of added token 1, \"280\", is no number from 0"},
      {"\"content\":\"<word>\"", "\"content\":5", RENGA_ERR_FILE_FORMAT,
       "added token 1 has no text as its content: 5"},
      {"\"content\":\"<word>\"", "\"content\":\"\\u0000a\"", RENGA_ERR_FILE_FORMAT,
       "added token 1 has no text as its content: "},
      {"{\"version\"", "{version", RENGA_ERR_FILE_FORMAT, "is no JSON object: "},
  };
  RengaVocabulary vocabulary;
  int64_t count, *tokens;
  for (int c = 0; c < COUNT_OF(changes); c++) {
    RengaCall(Change(changes[c].from, changes[c].to));
    ExpectError(RengaVocabularyRead(changed_name, &vocabulary), changes[c].code, changed_name,
                changes[c].says);
  }
  RengaCall(RengaVocabularyRead(json_name, &vocabulary));
  ExpectError(RengaVocabularyEncode(vocabulary, "ab\xff", 3, &count, &tokens),
              RENGA_ERR_FILE_FORMAT, "byte 2 of the text, 0xff, is no UTF-8");
  const RengaVocabulary before = vocabulary;
  Expect(RengaVocabularyRead("no-such-file", &vocabulary) && vocabulary == before);
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  const char *top = getenv("top_srcdir");
  snprintf(json_name, sizeof json_name, "%s/test/data/tokenizer.json", top ? top : ".");
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckFiles(comm));
  RengaCall(CheckSamples(comm));
  RengaCall(CheckExpressions());
  RengaCall(CheckHardExpression());
  RengaCall(CheckRefusedExpressions());
  RengaCall(CheckFrames());
  RengaCall(CheckRefusals());
  RengaCall(RengaCommDestroy(&comm));
  remove(changed_name);
  remove(set_name);
  remove(text_name);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
