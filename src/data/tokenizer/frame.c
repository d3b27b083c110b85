/* Data: the tokens that stand before and behind a text that is a whole: those that the
   post_processor of a tokenizer.json puts there. */
#include "../vocabulary.h"
#include "steps.h"
#include <string.h>

typedef struct {
  int64_t count[2], *token[2]; /* before, behind */
} TextFrame;

static RengaErrorCode AddFrameToken(TextFrame *frame, int side, json_object *number)
{
  const int64_t token = json_object_get_int64(number);
  RengaCheck(json_object_is_type(number, json_type_int) && token >= 0 && token <= INT32_MAX,
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "tokenizer: post_processor has %.60s, which is no number of a token",
             json_object_to_json_string(number));
  RengaCall(RengaRealloc(frame->count[side] + 1, &frame->token[side]));
  frame->token[side][frame->count[side]++] = token;
  return RENGA_SUCCESS;
}

/* "single": the special tokens around {"Sequence": ...}. */
static RengaErrorCode TakePattern(json_object *processor, TextFrame *frame)
{
  json_object *single = RengaTokenizerMember_Private(processor, "single");
  json_object *special = RengaTokenizerMember_Private(processor, "special_tokens");
  const size_t count =
      json_object_is_type(single, json_type_array) ? json_object_array_length(single) : 0;
  int side = 0;
  for (size_t i = 0; i < count; i++) {
    json_object *piece = json_object_array_get_idx(single, i);
    if (RengaTokenizerMember_Private(piece, "Sequence")) side = 1;
    const char *name =
        RengaTokenizerText_Private(RengaTokenizerMember_Private(piece, "SpecialToken"), "id");
    json_object *known = name ? RengaTokenizerMember_Private(special, name) : NULL;
    json_object *numbers = RengaTokenizerMember_Private(known, "ids");
    const size_t tokens =
        json_object_is_type(numbers, json_type_array) ? json_object_array_length(numbers) : 0;
    for (size_t t = 0; t < tokens; t++)
      RengaCall(AddFrameToken(frame, side, json_object_array_get_idx(numbers, t)));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeProcessor(json_object *processor, TextFrame *frame)
{
  static const char *const sides[] = {"cls", "sep"}; /* each ["[CLS]", 101] */
  const char *type = RengaTokenizerText_Private(processor, "type");
  if (!processor || (type && strcmp(type, "ByteLevel") == 0)) return RENGA_SUCCESS;
  if (type && strcmp(type, "TemplateProcessing") == 0)
    RengaCall(TakePattern(processor, frame));
  else if (type && (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0))
    for (int s = 0; s < 2; s++) {
      json_object *pair = RengaTokenizerMember_Private(processor, sides[s]);
      RengaCall(AddFrameToken(
          frame, s,
          json_object_is_type(pair, json_type_array) ? json_object_array_get_idx(pair, 1) : NULL));
    }
  else
    RengaCall(RengaTokenizerRefuse_Private("of the folder", "post_processor", processor));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeProcessors(json_object *root, TextFrame *frame)
{
  json_object *processor = RengaTokenizerMember_Private(root, "post_processor");
  json_object *list = RengaTokenizerMember_Private(processor, "processors");
  if (!json_object_is_type(list, json_type_array)) {
    RengaCall(TakeProcessor(processor, frame));
    return RENGA_SUCCESS;
  }
  for (size_t i = 0; i < json_object_array_length(list); i++)
    RengaCall(TakeProcessor(json_object_array_get_idx(list, i), frame));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindFrame(RengaVocabulary vocabulary, TextFrame *frame)
{
  const RengaTokenizer *tokenizer = vocabulary->tokenizer;
  if (!tokenizer) {
    RengaCall(RengaMalloc(1, &frame->token[1]));
    frame->token[1][frame->count[1]++] = RENGA_TOKEN_END;
    return RENGA_SUCCESS;
  }
  json_tokener *parser = json_tokener_new();
  RengaCheck(parser, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no memory to read a tokenizer");
  json_object *root = json_tokener_parse_ex(parser, tokenizer->json, (int)tokenizer->json_bytes);
  json_tokener_free(parser);
  const RengaErrorCode code = TakeProcessors(root, frame);
  json_object_put(root);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyGetFrame - the tokens that stand before and behind a whole text

   Output:
   . count - [2] the numbers of tokens before and behind, from 0
   . tokens - those, for RengaFree; NULL where there are none

   Errors: RENGA_ERR_SUPPORT for a post_processor of a tokenizer.json that is not known.

   Notes: of a tokenizer.json these are the tokens that encode(text) has besides those of
   encode(text, add_special_tokens=False). Of a vocabulary of Renga it is the end of a text.

   See also: RengaVocabularyEncode(), RengaVocabularySetStart()
@*/
RengaErrorCode RengaVocabularyGetFrame(RengaVocabulary vocabulary, int64_t count[2],
                                       int64_t *tokens[2])
{
  TextFrame frame = {.count = {0, 0}};
  RengaCheckPointers(vocabulary, count, tokens);
  const RengaErrorCode code = FindFrame(vocabulary, &frame);
  for (int side = 0; side < 2 && code; side++) RengaFree(&frame.token[side]);
  RengaCall(code);
  for (int side = 0; side < 2; side++) {
    count[side] = frame.count[side];
    tokens[side] = frame.token[side];
  }
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularySetStart - the token that a decoder's texts begin with, and that of padding

   Input:
   . start, padding - tokens; of a vocabulary of Renga they are 1 and 0 without this call, of a
     tokenizer.json they are not known

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   See also: RengaVocabularyGetStart(), RengaDataWritePairs()
@*/
RengaErrorCode RengaVocabularySetStart(RengaVocabulary vocabulary, int64_t start, int64_t padding)
{
  RengaCheckPointer(vocabulary);
  RengaCheck(start >= 0 && padding >= 0 && start <= INT32_MAX && padding <= INT32_MAX,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a text cannot begin with token %lld, or end with "
             "padding %lld",
             (long long)start, (long long)padding);
  vocabulary->begin_token = start;
  vocabulary->padding_token = padding;
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyGetStart - the token that a decoder's texts begin with, and that of padding

   Output:
   . start, padding - tokens; -1: they are not known
@*/
RengaErrorCode RengaVocabularyGetStart(RengaVocabulary vocabulary, int64_t *start, int64_t *padding)
{
  RengaCheckPointers(vocabulary, start, padding);
  *start = vocabulary->begin_token;
  *padding = vocabulary->padding_token;
  return RENGA_SUCCESS;
}
