/* TEST ranks: 1 */
/* A tokenizer.json of other kinds than that of GPT-2: tokens are those of tokenizers. */
#include "datatest.h"
#include <string.h>

enum { TEXTS = 8, MOST = 128 };
static const char json_name[] = "tokenizers.tmp.json";

/* Made, and texts encoded, with tokenizers 0.23. */
static const struct {
  const char *json;
  struct {
    const char *text;
    int64_t count, tokens[MOST];
  } cases[TEXTS];
} kinds[] = {

    /* signs, and bytes where they have no token, as of Llama 2 */
    {"{\042version\042:\0421.0\042,\042truncation\042:null,\042padding\042:null,\042ad"
     "ded_tokens\042:[{\042id\042:0,\042content\042:\042<unk>\042,\042single_word\042:"
     "false,\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:false,\042spe"
     "cial\042:true},{\042id\042:1,\042content\042:\042<s>\042,\042single_word\042:fal"
     "se,\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:false,\042specia"
     "l\042:true},{\042id\042:33,\042content\042:\042hat\042,\042single_word\042:true,"
     "\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:true,\042special"
     "\042:false},{\042id\042:51,\042content\042:\042<end>\042,\042single_word\042:fal"
     "se,\042lstrip\042:false,\042rstrip\042:true,\042normalized\042:false,\042special"
     "\042:true},{\042id\042:52,\042content\042:\042<mask>\042,\042single_word\042:fal"
     "se,\042lstrip\042:true,\042rstrip\042:false,\042normalized\042:false,\042special"
     "\042:true}],\042normalizer\042:{\042type\042:\042Sequence\042,\042normalizers"
     "\042:[{\042type\042:\042Prepend\042,\042prepend\042:\042\342\226\201\042},{\042t"
     "ype\042:\042Replace\042,\042pattern\042:{\042String\042:\042 \042},\042content"
     "\042:\042\342\226\201\042}]},\042pre_tokenizer\042:null,\042post_processor\042:n"
     "ull,\042decoder\042:null,\042model\042:{\042type\042:\042BPE\042,\042dropout\042"
     ":null,\042unk_token\042:\042<unk>\042,\042continuing_subword_prefix\042:null,"
     "\042end_of_word_suffix\042:null,\042fuse_unk\042:true,\042byte_fallback\042:true"
     ",\042ignore_merges\042:false,\042vocab\042:{\042<unk>\042:0,\042<s>\042:1,\042<0"
     "x0A>\042:2,\042<0xC3>\042:3,\042<0xAF>\042:4,\042<0xE2>\042:5,\042<0x82>\042:6,"
     "\042<0xAC>\042:7,\042<0xF0>\042:8,\042<0x9F>\042:9,\042<0x99>\042:10,\042'\042:1"
     "1,\0421\042:12,\0422\042:13,\042a\042:14,\042c\042:15,\042d\042:16,\042e\042:17,"
     "\042h\042:18,\042m\042:19,\042n\042:20,\042s\042:21,\042t\042:22,\042v\042:23,"
     "\042\342\226\201\042:24,\042he\042:25,\042the\042:26,\042\342\226\201the\042:27,"
     "\042at\042:28,\042nd\042:29,\042\342\226\201a\042:30,\042\342\226\201c\042:31,"
     "\042\342\226\201and\042:32,\042hat\042:33,\042\342\226\201n\042:34,\042\342\226"
     "\201hat\042:35,\042\342\226\201cat\042:36,\04212\042:37,\042av\042:38,\042end"
     "\042:39,\042me\042:40,\042s'\042:41,\042\342\226\20112\042:42,\042\342\226\201en"
     "d\042:43,\042\342\226\201then\042:44,\042\342\226\201theme\042:45,\042\342\226"
     "\201ca\042:46,\042\342\226\201nav\042:47,\042\342\226\201hats\042:48,\042\342"
     "\226\201cats'\042:49,\042\342\226\201nave\042:50},\042merges\042:[[\042h\042,"
     "\042e\042],[\042t\042,\042he\042],[\042\342\226\201\042,\042the\042],[\042a\042,"
     "\042t\042],[\042n\042,\042d\042],[\042\342\226\201\042,\042a\042],[\042\342\226"
     "\201\042,\042c\042],[\042\342\226\201a\042,\042nd\042],[\042h\042,\042at\042],["
     "\042\342\226\201\042,\042n\042],[\042\342\226\201\042,\042hat\042],[\042\342\226"
     "\201c\042,\042at\042],[\0421\042,\0422\042],[\042a\042,\042v\042],[\042e\042,"
     "\042nd\042],[\042m\042,\042e\042],[\042s\042,\042'\042],[\042\342\226\201\042,"
     "\04212\042],[\042\342\226\201\042,\042end\042],[\042\342\226\201the\042,\042n"
     "\042],[\042\342\226\201the\042,\042me\042],[\042\342\226\201c\042,\042a\042],["
     "\042\342\226\201n\042,\042av\042],[\042\342\226\201hat\042,\042s\042],[\042\342"
     "\226\201cat\042,\042s'\042],[\042\342\226\201nav\042,\042e\042]]}}",
     {{"the cat and the band", 8, {27, 36, 32, 27, 24, 0, 14, 29}},
      {"", 0, {0}},
      {"  The  then\012\012an", 11, {24, 24, 24, 0, 25, 24, 44, 2, 2, 14, 20}},
      {" hat hats <mask> a<end>  b", 9, {24, 33, 48, 52, 24, 30, 51, 24, 0}},
      {"nai\314\210ve CAF\303\211 12\302\275 cats'S", 11, {34, 14, 0, 23, 17, 24, 0, 42, 0, 49, 0}},
      {"\342\202\254\360\237\231\202\344\270\255 the", 10, {24, 5, 6, 7, 8, 9, 10, 6, 0, 27}},
      {"\342\204\253 e\314\201\314\243 \355\225\234\343\200\200a",
       8,
       {24, 0, 24, 17, 0, 24, 0, 14}},
      {"thethethe and then the theme end in the band and the cat and the hat and then a theme and "
       "the end of it, 1234567890",
       37,
       {27, 26, 26, 32, 44, 27, 45, 43, 24, 0,  20, 27, 24, 0, 14, 29, 32, 27, 36,
        32, 27, 35, 32, 44, 30, 45, 32, 27, 43, 24, 0,  24, 0, 22, 0,  42, 0}}}},
    /* an expression of its own, NFC, whole words first */
    {"{\042version\042:\0421.0\042,\042truncation\042:null,\042padding\042:null,\042ad"
     "ded_tokens\042:[{\042id\042:0,\042content\042:\042<unk>\042,\042single_word\042:"
     "false,\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:false,\042spe"
     "cial\042:true},{\042id\042:45,\042content\042:\042<end>\042,\042single_word\042:"
     "false,\042lstrip\042:false,\042rstrip\042:true,\042normalized\042:false,\042spec"
     "ial\042:true},{\042id\042:46,\042content\042:\042<mask>\042,\042single_word\042:"
     "false,\042lstrip\042:true,\042rstrip\042:false,\042normalized\042:false,\042spec"
     "ial\042:true},{\042id\042:47,\042content\042:\042hat\042,\042single_word\042:tru"
     "e,\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:true,\042special"
     "\042:false}],\042normalizer\042:{\042type\042:\042NFC\042},\042pre_tokenizer\042"
     ":{\042type\042:\042Sequence\042,\042pretokenizers\042:[{\042type\042:\042Split"
     "\042,\042pattern\042:{\042Regex\042:\042\134\134p{N}{1,2}| \077[^\134\134s\134"
     "\134p{L}\134\134p{N}]+| \077(\077i:'s|[\134\134p{L}\134\134p{M}]+)|\134\134s+("
     "\077!\134\134S)|\134\134s+\042},\042behavior\042:\042Isolated\042,\042invert\042"
     ":false},{\042type\042:\042Digits\042,\042individual_digits\042:true}]},\042post_"
     "processor\042:null,\042decoder\042:null,\042model\042:{\042type\042:\042BPE\042,"
     "\042dropout\042:null,\042unk_token\042:\042<unk>\042,\042continuing_subword_pref"
     "ix\042:null,\042end_of_word_suffix\042:null,\042fuse_unk\042:false,\042byte_fall"
     "back\042:false,\042ignore_merges\042:true,\042vocab\042:{\042<unk>\042:0,\042"
     "\134n\042:1,\042 \042:2,\042'\042:3,\0422\042:4,\042a\042:5,\042b\042:6,\042c"
     "\042:7,\042d\042:8,\042e\042:9,\042h\042:10,\042i\042:11,\042n\042:12,\042s\042:"
     "13,\042t\042:14,\042\303\251\042:15,\042\303\257\042:16,\042he\042:17,\042the"
     "\042:18,\042 the\042:19,\042at\042:20,\042nd\042:21,\042 a\042:22,\042 c\042:23,"
     "\042 h\042:24,\042ats\042:25,\042 and\042:26,\042 b\042:27,\042 e\042:28,\042 i"
     "\042:29,\042a\303\251\042:30,\042a\303\257\042:31,\042and\042:32,\042na\303\257"
     "\042:33,\042 thee\042:34,\042 then\042:35,\042 cat\042:36,\042 cats\042:37,\042 "
     "ca\303\251\042:38,\042 hat\042:39,\042 hats\042:40,\042 band\042:41,\042 end\042"
     ":42,\042 in\042:43,\042na\303\257e\042:44},\042merges\042:[[\042h\042,\042e\042]"
     ",[\042t\042,\042he\042],[\042 \042,\042the\042],[\042a\042,\042t\042],[\042n\042"
     ",\042d\042],[\042 \042,\042a\042],[\042 \042,\042c\042],[\042 \042,\042h\042],["
     "\042at\042,\042s\042],[\042 a\042,\042nd\042],[\042 \042,\042b\042],[\042 \042,"
     "\042e\042],[\042 \042,\042i\042],[\042a\042,\042\303\251\042],[\042a\042,\042"
     "\303\257\042],[\042a\042,\042nd\042],[\042n\042,\042a\303\257\042],[\042 the\042"
     ",\042e\042],[\042 the\042,\042n\042],[\042 c\042,\042at\042],[\042 c\042,\042ats"
     "\042],[\042 c\042,\042a\303\251\042],[\042 h\042,\042at\042],[\042 h\042,\042ats"
     "\042],[\042 b\042,\042and\042],[\042 e\042,\042nd\042],[\042 i\042,\042n\042],["
     "\042na\303\257\042,\042e\042]]}}",
     {{"the cat and the band", 5, {18, 36, 26, 19, 41}},
      {"", 0, {0}},
      {"  The  then\012\012an", 10, {2, 2, 0, 17, 2, 35, 1, 1, 5, 12}},
      {" hat hats <mask> a<end>  b", 7, {2, 47, 40, 46, 22, 45, 6}},
      {"nai\314\210ve CAF\303\211 12\302\275 cats'S",
       15,
       {33, 0, 9, 2, 0, 0, 0, 0, 2, 0, 4, 0, 37, 3, 0}},
      {"\342\202\254\360\237\231\202\344\270\255 the", 4, {0, 0, 0, 19}},
      {"\342\204\253 e\314\201\314\243 \355\225\234\343\200\200a", 8, {0, 2, 0, 0, 2, 0, 0, 5}},
      {"thethethe and then the theme end in the band and the cat and the hat and then a theme and "
       "the end of it, 1234567890",
       46,
       {18, 18, 18, 26, 35, 19, 19, 0, 9, 42, 43, 19, 41, 26, 19, 36, 26, 19, 2, 47, 26, 35, 22,
        19, 0,  9,  26, 19, 42, 2,  0, 0, 29, 14, 0,  2,  0,  4,  0,  0,  0,  0, 0,  0,  0,  0}}}},
    /* the likeliest pieces, as of ALBERT */
    {"{\042version\042:\0421.0\042,\042truncation\042:null,\042padding\042:null,\042ad"
     "ded_tokens\042:[{\042id\042:0,\042content\042:\042<unk>\042,\042single_word\042:"
     "false,\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:false,\042spe"
     "cial\042:true},{\042id\042:1,\042content\042:\042<s>\042,\042single_word\042:fal"
     "se,\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:false,\042specia"
     "l\042:true},{\042id\042:28,\042content\042:\042<end>\042,\042single_word\042:fal"
     "se,\042lstrip\042:false,\042rstrip\042:true,\042normalized\042:false,\042special"
     "\042:true},{\042id\042:29,\042content\042:\042<mask>\042,\042single_word\042:fal"
     "se,\042lstrip\042:true,\042rstrip\042:false,\042normalized\042:false,\042special"
     "\042:true},{\042id\042:30,\042content\042:\042hat\042,\042single_word\042:true,"
     "\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:true,\042special"
     "\042:false}],\042normalizer\042:{\042type\042:\042Sequence\042,\042normalizers"
     "\042:[{\042type\042:\042Strip\042,\042strip_left\042:true,\042strip_right\042:tr"
     "ue},{\042type\042:\042NFD\042},{\042type\042:\042Lowercase\042},{\042type\042:"
     "\042StripAccents\042},{\042type\042:\042Replace\042,\042pattern\042:{\042Regex"
     "\042:\042 {2,}\042},\042content\042:\042 \042}]},\042pre_tokenizer\042:{\042type"
     "\042:\042Metaspace\042,\042replacement\042:\042\342\226\201\042,\042prepend_sche"
     "me\042:\042always\042,\042split\042:true},\042post_processor\042:null,\042decode"
     "r\042:null,\042model\042:{\042type\042:\042Unigram\042,\042unk_id\042:0,\042voca"
     "b\042:[[\042<unk>\042,0.0],[\042<s>\042,0.0],[\042\342\226\201\042,-1.7904575238"
     "763072],[\042\342\226\201the\042,-1.8884495168711246],[\042e\042,-2.447506234815"
     "032],[\042n\042,-2.74469823518641],[\042and\042,-2.7747199902016053],[\042i\042,"
     "-3.1833312715195836],[\042\342\226\201hat\042,-3.1969253238146234],[\042\342\226"
     "\201cat\042,-3.3001325967404678],[\042s\042,-3.3031899625093555],[\042a\042,-3.5"
     "203399281473238],[\042\342\226\201ca\042,-3.7512093071962522],[\042nd\042,-3.900"
     "0514839910343],[\042f\042,-3.966664604852917],[\0421\042,-3.966664604852917],["
     "\0422\042,-3.966664604852917],[\042m\042,-3.966664604852917],[\042,\042,-3.96666"
     "4604852917],[\042'\042,-3.966664604852917],[\042b\042,-3.966664604852917],[\042v"
     "\042,-3.966664604852917],[\042\342\226\201a\042,-4.606507407246998],[\042t\042,-"
     "6.4359371407629835],[\042c\042,-6.436037140762983],[\042d\042,-6.436137140762984"
     "],[\042h\042,-6.436237140762984],[\042ts\042,-6.436237140762984]],\042byte_fallb"
     "ack\042:false}}",
     {{"the cat and the band", 8, {3, 9, 2, 6, 3, 2, 20, 6}},
      {"", 0, {0}},
      {"  The  then\012\012an", 6, {3, 3, 5, 0, 11, 5}},
      {" hat hats <mask> a<end>  b", 8, {30, 8, 10, 29, 22, 28, 2, 20}},
      {"nai\314\210ve CAF\303\211 12\302\275 cats'S",
       17,
       {2, 5, 11, 7, 21, 4, 12, 14, 4, 2, 15, 16, 0, 9, 10, 19, 10}},
      {"\342\202\254\360\237\231\202\344\270\255 the", 3, {2, 0, 3}},
      {"\342\204\253 e\314\201\314\243 \355\225\234\343\200\200a", 6, {22, 2, 4, 2, 0, 11}},
      {"thethethe and then the theme end in the band and the cat and the hat and then a theme and "
       "the end of it, 1234567890",
       59,
       {3,  23, 26, 4,  23, 26, 4, 2,  6, 3, 5,  3, 3, 17, 4,  2, 4,  13, 2,  7,
        5,  3,  2,  20, 6,  2,  6, 3,  9, 2, 6,  3, 2, 30, 2,  6, 3,  5,  22, 3,
        17, 4,  2,  6,  3,  2,  4, 13, 2, 0, 14, 2, 7, 23, 18, 2, 15, 16, 0}}}},
    /* the longest pieces, as of BERT */
    {"{\042version\042:\0421.0\042,\042truncation\042:null,\042padding\042:null,\042ad"
     "ded_tokens\042:[{\042id\042:0,\042content\042:\042[UNK]\042,\042single_word\042:"
     "false,\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:false,\042spe"
     "cial\042:true},{\042id\042:36,\042content\042:\042hat\042,\042single_word\042:tr"
     "ue,\042lstrip\042:false,\042rstrip\042:false,\042normalized\042:true,\042special"
     "\042:false},{\042id\042:54,\042content\042:\042<end>\042,\042single_word\042:fal"
     "se,\042lstrip\042:false,\042rstrip\042:true,\042normalized\042:false,\042special"
     "\042:true},{\042id\042:55,\042content\042:\042<mask>\042,\042single_word\042:fal"
     "se,\042lstrip\042:true,\042rstrip\042:false,\042normalized\042:false,\042special"
     "\042:true}],\042normalizer\042:{\042type\042:\042BertNormalizer\042,\042clean_te"
     "xt\042:true,\042handle_chinese_chars\042:true,\042strip_accents\042:null,\042low"
     "ercase\042:true},\042pre_tokenizer\042:{\042type\042:\042BertPreTokenizer\042},"
     "\042post_processor\042:null,\042decoder\042:null,\042model\042:{\042type\042:"
     "\042WordPiece\042,\042unk_token\042:\042[UNK]\042,\042continuing_subword_prefix"
     "\042:\042##\042,\042max_input_chars_per_word\042:100,\042vocab\042:{\042[UNK]"
     "\042:0,\042'\042:1,\042,\042:2,\0421\042:3,\0422\042:4,\042a\042:5,\042b\042:6,"
     "\042c\042:7,\042d\042:8,\042e\042:9,\042f\042:10,\042h\042:11,\042i\042:12,\042m"
     "\042:13,\042n\042:14,\042s\042:15,\042t\042:16,\042v\042:17,\042##n\042:18,\042#"
     "#a\042:19,\042##t\042:20,\042##s\042:21,\042##d\042:22,\042##f\042:23,\042##e"
     "\042:24,\042##h\042:25,\042##m\042:26,\042##i\042:27,\042##v\042:28,\042##2\042:"
     "29,\042th\042:30,\042the\042:31,\042##nd\042:32,\042##at\042:33,\042and\042:34,"
     "\042cat\042:35,\042hat\042:36,\04212\042:37,\042ba\042:38,\042ca\042:39,\042end"
     "\042:40,\042in\042:41,\042na\042:42,\042##fe\042:43,\042##me\042:44,\042##iv\042"
     ":45,\042then\042:46,\042theme\042:47,\042cats\042:48,\042hats\042:49,\042band"
     "\042:50,\042cafe\042:51,\042naiv\042:52,\042naive\042:53}}}",
     {{"the cat and the band", 5, {31, 35, 34, 31, 50}},
      {"", 0, {0}},
      {"  The  then\012\012an", 4, {31, 46, 5, 18}},
      {" hat hats <mask> a<end>  b", 6, {36, 49, 55, 5, 54, 6}},
      {"nai\314\210ve CAF\303\211 12\302\275 cats'S", 6, {53, 51, 0, 48, 1, 15}},
      {"\342\202\254\360\237\231\202\344\270\255 the", 3, {0, 0, 31}},
      {"\342\204\253 e\314\201\314\243 \355\225\234\343\200\200a", 4, {5, 9, 0, 5}},
      {"thethethe and then the theme end in the band and the cat and the hat and then a theme and "
       "the end of it, 1234567890",
       33,
       {31, 20, 25, 24, 20, 25, 24, 34, 46, 31, 47, 40, 41, 31, 50, 34, 31,
        35, 34, 31, 36, 34, 46, 5,  47, 34, 31, 40, 0,  12, 20, 2,  0}}}}};

static RengaErrorCode CheckKind(int kind)
{
  RengaVocabulary vocabulary;
  FILE *file = fopen(json_name, "wb");
  Expect(file && fputs(kinds[kind].json, file) >= 0 && fclose(file) == 0);
  RengaCall(RengaVocabularyRead(json_name, &vocabulary));
  for (int c = 0; c < TEXTS; c++) {
    const char *text = kinds[kind].cases[c].text;
    int64_t count, *tokens;
    RengaCall(RengaVocabularyEncode(vocabulary, text, (int64_t)strlen(text), &count, &tokens));
    Expect(count == kinds[kind].cases[c].count);
    for (int64_t t = 0; t < count; t++) Expect(tokens[t] == kinds[kind].cases[c].tokens[t]);
    RengaFree(&tokens);
  }
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  return RENGA_SUCCESS;
}

/* Texts of tokens are those of the text; a blank is in front where the tokenizer puts one. */
static RengaErrorCode CheckTexts(void)
{
  static const char text[] = "the cat and the band";
  RengaVocabulary vocabulary;
  char back[64] = "";
  int64_t count, *tokens;
  RengaCall(RengaVocabularyRead(json_name, &vocabulary));
  RengaCall(RengaVocabularyEncode(vocabulary, text, sizeof text - 1, &count, &tokens));
  for (int64_t t = 0; t < count; t++) {
    const char *part;
    int64_t length;
    RengaCall(RengaVocabularyDecode(vocabulary, tokens[t], &part, &length));
    strncat(back, part, (size_t)length);
  }
  Expect(strcmp(back + 1, text) == 0);
  RengaFree(&tokens);
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  for (int k = 0; k < COUNT_OF(kinds); k++) RengaCall(CheckKind(k));
  RengaCall(CheckTexts());
  remove(json_name);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
