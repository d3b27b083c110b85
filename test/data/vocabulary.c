/* TEST ranks: 1 2 */
/* Byte pairs: a known example, text that comes back, files; sets made with them. */
#include "datatest.h"
#include <stdlib.h>

static char text_name[64], other_name[64], kept_name[64], out_name[64];

static RengaErrorCode PutText(RengaComm comm, const char *name, const char *text, size_t length)
{
  RengaCall(RengaCommBarrier(comm, "all to be done with the file"));
  if (RengaCommGetRank(comm) == 0) {
    FILE *file = fopen(name, "wb");
    fwrite(text, 1, length, file);
    fclose(file);
  }
  return RengaCommBarrier(comm, "the file");
}

static RengaErrorCode ExpectPiece(RengaVocabulary vocabulary, int64_t token, const char *expected)
{
  const char *text;
  int64_t length;
  RengaCall(RengaVocabularyDecode(vocabulary, token, &text, &length));
  Expect(length == (int64_t)strlen(expected) && memcmp(text, expected, (size_t)length) == 0);
  return RENGA_SUCCESS;
}

/* The example of Sennrich et al., figure 1: low, lowest, newer, wider. */
static RengaErrorCode CheckExample(RengaComm comm)
{
  static const char text[] =
      "low\nlow\nlow\nlow\nlow\nlower\nlower\nnewest\nnewest\nnewest\nnewest\n"
      "newest\nnewest\nwidest\nwidest\nwidest\n";
  static const char *const pieces[] = {"es", "est", "lo", "low", "ew", "new", "newest"};
  const char *const files[] = {text_name};
  RengaVocabulary vocabulary;
  int64_t kinds, count, *tokens;
  RengaCall(PutText(comm, text_name, text, sizeof text - 1));
  RengaCall(RengaVocabularyTrain(1, files, RENGA_TOKEN_PAIR + 7, &vocabulary));
  RengaCall(RengaVocabularyGetCount(vocabulary, &kinds));
  Expect(kinds == RENGA_TOKEN_PAIR + 7);
  for (int i = 0; i < 7; i++) RengaCall(ExpectPiece(vocabulary, RENGA_TOKEN_PAIR + i, pieces[i]));
  RengaCall(RengaVocabularyEncode(vocabulary, "lowest", 6, &count, &tokens));
  Expect(count == 2 && tokens[0] == RENGA_TOKEN_PAIR + 3 && tokens[1] == RENGA_TOKEN_PAIR + 1);
  RengaFree(&tokens);
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  RengaCall(RengaVocabularyTrain(1, files, 100000, &vocabulary)); /* no more pairs occur twice */
  RengaCall(RengaVocabularyGetCount(vocabulary, &kinds));
  Expect(kinds > RENGA_TOKEN_PAIR + 7 && kinds < RENGA_TOKEN_PAIR + 20);
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  return RENGA_SUCCESS;
}

enum { LENGTH = 60000 };

/* Words of a few syllables, blanks, line ends and bytes of all kinds. */
static void MakeText(char text[])
{
  static const char *const syllables[] = {"ba", "ren", "ga",       " ", "  \t",
                                          "\n", "12",  "\xc3\xa9", "."};
  uint32_t state = 7;
  int n = 0;
  while (n < LENGTH - 4) {
    state = state * 1664525u + 1013904223u;
    const uint32_t draw = state >> 20;
    if (draw % 50 == 0)
      text[n++] = (char)(draw / 50);
    else
      for (const char *at = syllables[draw % 9]; *at; at++) text[n++] = *at;
  }
  while (n < LENGTH) text[n++] = 'x';
}

static RengaErrorCode ExpectText(RengaVocabulary vocabulary, int64_t count, const int64_t tokens[],
                                 const char *text, int64_t length)
{
  int64_t at = 0;
  for (int64_t i = 0; i < count; i++) {
    const char *piece;
    int64_t bytes;
    RengaCall(RengaVocabularyDecode(vocabulary, tokens[i], &piece, &bytes));
    Expect(at + bytes <= length && memcmp(piece, text + at, (size_t)bytes) == 0);
    at += bytes;
  }
  Expect(at == length);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWindows(RengaComm comm, RengaVocabulary vocabulary, const char *text)
{
  enum { T = 16 };
  static const char *const names[] = {"tokens", "labels"};
  const RengaTensorSpec specs[] = {Spec(RENGA_INT64, 1, T, 0), Spec(RENGA_INT64, 1, T, 0)};
  int64_t samples, kinds, count, *all, tokens[T], labels[T];
  RengaData data;
  RengaCall(RengaDataWriteTokens(comm, vocabulary, text_name, out_name, T, 0));
  RengaCall(RengaOptionsSetValue("data_shuffle", "false"));
  RengaCall(RengaVocabularyGetCount(vocabulary, &kinds));
  RengaCall(RengaVocabularyEncode(vocabulary, text, LENGTH, &count, &all));
  RengaCall(ExpectText(vocabulary, count, all, text, LENGTH));
  Expect(count < LENGTH / 2);
  const int64_t classes[] = {kinds, kinds};
  RengaCall(RengaDataCreate(comm, &data));
  RengaCall(RengaDataSetFromOptions(data));
  RengaCall(RengaDataSetFile(data, out_name));
  RengaCall(RengaDataSetFields(data, 2, names, specs, classes));
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &samples));
  Expect(samples == (count - 1) / T);
  for (int64_t s = 0; s < samples; s++) {
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, s, 1, tokens));
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 0, s, 1, labels));
    for (int i = 0; i < T; i++)
      Expect(tokens[i] == all[s * T + i] && labels[i] == all[s * T + i + 1]);
  }
  RengaFree(&all);
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to close the file");
}

static RengaErrorCode CheckSame(RengaVocabulary a, RengaVocabulary b)
{
  int64_t kinds, others;
  RengaCall(RengaVocabularyGetCount(a, &kinds));
  RengaCall(RengaVocabularyGetCount(b, &others));
  Expect(kinds == others);
  for (int64_t t = 0; t < kinds; t++) {
    const char *x, *y;
    int64_t n, m;
    RengaCall(RengaVocabularyDecode(a, t, &x, &n));
    RengaCall(RengaVocabularyDecode(b, t, &y, &m));
    Expect(n == m && memcmp(x, y, (size_t)n) == 0);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFiles(RengaComm comm)
{
  char *text;
  const char *const files[] = {text_name};
  RengaVocabulary made, kept, stored;
  RengaCall(RengaMalloc(LENGTH, &text));
  MakeText(text);
  RengaCall(PutText(comm, text_name, text, LENGTH));
  RengaCall(RengaVocabularyTrain(1, files, 320, &made));
  if (RengaCommGetRank(comm) == 0) RengaCall(RengaVocabularyWrite(made, kept_name));
  RengaCall(CheckWindows(comm, made, text));
  RengaCall(RengaVocabularyRead(kept_name, &kept));
  RengaCall(RengaVocabularyRead(out_name, &stored));
  RengaCall(CheckSame(made, kept));
  RengaCall(CheckSame(made, stored));
  RengaFree(&text);
  RengaCall(RengaVocabularyDestroy(&made));
  RengaCall(RengaVocabularyDestroy(&kept));
  RengaCall(RengaVocabularyDestroy(&stored));
  return RengaCommBarrier(comm, "all to close the files");
}

static RengaErrorCode CheckPairs(RengaComm comm)
{
  enum { S = 6, T = 5 };
  static const char source[] = "ab\n\ncdefghijk\nz\n", target[] = "X\r\nempty\nYYYYYYYYY\nW\n";
  static const char *const names[] = {"source", "target", "labels", "source_mask"};
  const RengaTensorSpec specs[] = {Spec(RENGA_INT64, 1, S, 0), Spec(RENGA_INT32, 1, T, 0),
                                   Spec(RENGA_INT64, 1, T, 0), Spec(RENGA_FLOAT32, 1, S, 0)};
  const char *const files[] = {text_name};
  const int64_t lengths[2] = {S, T}, b = RENGA_TOKEN_BYTE;
  const int64_t sources[3 * S] = {b + 'a', b + 'b', 2, 0,       0, 0, b + 'c', b + 'd', b + 'e',
                                  b + 'f', b + 'g', 2, b + 'z', 2, 0, 0,       0,       0};
  const int32_t targets[3 * T] = {1,       b + 'X', 0, 0,       0, 1, b + 'Y', b + 'Y',
                                  b + 'Y', b + 'Y', 1, b + 'W', 0, 0, 0};
  const int64_t labels[3 * T] = {b + 'X', 2, -100,    -100, -100, b + 'Y', b + 'Y', b + 'Y',
                                 b + 'Y', 2, b + 'W', 2,    -100, -100,    -100};
  int64_t pairs[3], x[3 * S], z[3 * T], count;
  int32_t y[3 * T];
  float mask[3 * S];
  RengaVocabulary vocabulary;
  RengaData data;
  RengaCall(PutText(comm, text_name, source, sizeof source - 1));
  RengaCall(PutText(comm, other_name, target, sizeof target - 1));
  RengaCall(RengaVocabularyTrain(1, files, RENGA_TOKEN_PAIR, &vocabulary));
  RengaCall(
      RengaDataWritePairs(comm, vocabulary, text_name, other_name, out_name, lengths, 0, pairs));
  if (RengaCommGetRank(comm) == 0) Expect(pairs[0] == 3 && pairs[1] == 1 && pairs[2] == 1);
  RengaCall(RengaDataCreate(comm, &data));
  RengaCall(RengaDataSetFromOptions(data));
  RengaCall(RengaDataSetFile(data, out_name));
  RengaCall(RengaDataSetFields(data, 4, names, specs, NULL));
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &count));
  Expect(count == 3);
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 0, 3, x));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 0, 0, 3, y));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 2, 0, 0, 3, z));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 3, 0, 0, 3, mask));
  Expect(memcmp(x, sources, sizeof x) == 0);
  Expect(memcmp(y, targets, sizeof y) == 0);
  Expect(memcmp(z, labels, sizeof z) == 0);
  for (int i = 0; i < 3 * S; i++) Expect(mask[i] == (float)(x[i] != RENGA_TOKEN_PADDING));
  RengaCall(RengaDataDestroy(&data));
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  return RengaCommBarrier(comm, "all to close the file");
}

static RengaErrorCode CheckRefusals(RengaComm comm)
{
  static const struct {
    const char *text, *what;
  } wrong[] = {
      {"", "is no vocabulary"},
      {"some text\n1 2\n", "is no vocabulary"},
      {"Renga byte-pair vocabulary\n40 x\n", "line 2: two tokens are expected, not \"40 x\""},
      {"Renga byte-pair vocabulary\n40 41 42\n", "line 2"},
      {"Renga byte-pair vocabulary\n40 41\n40 41\n", "pair 1 is of tokens 40 and 41"},
      {"Renga byte-pair vocabulary\n40 260\n", "each pair is a new one of tokens 4 to 259"},
      {"Renga byte-pair vocabulary\n3 40\n", "pair 0 is of tokens 3 and 40"},
      {"Renga byte-pair vocabulary\n-1 40\n", "line 2"},
  };
  const char *const files[] = {text_name};
  const int64_t lengths[2] = {4, 4}, narrow[2] = {1, 4};
  const bool first = RengaCommGetRank(comm) == 0;
  int64_t pairs[3];
  RengaVocabulary vocabulary = NULL;
  for (int i = 0; i < COUNT_OF(wrong); i++) {
    RengaCall(PutText(comm, kept_name, wrong[i].text, strlen(wrong[i].text)));
    ExpectError(RengaVocabularyRead(kept_name, &vocabulary), RENGA_ERR_FILE_FORMAT, wrong[i].what);
  }
  ExpectError(RengaVocabularyTrain(1, files, 100, &vocabulary), RENGA_ERR_ARGUMENT, "at least 260");
  RengaCall(PutText(comm, text_name, "one\ntwo\n", 8));
  RengaCall(PutText(comm, other_name, "eins\n", 5));
  RengaCall(RengaVocabularyTrain(1, files, 300, &vocabulary));
  ExpectError(
      RengaDataWritePairs(comm, vocabulary, text_name, other_name, out_name, lengths, 0, pairs),
      RENGA_ERR_FILE_FORMAT, first ? "ends after 1 lines, the other goes on" : "");
  ExpectError(
      RengaDataWritePairs(comm, vocabulary, text_name, other_name, out_name, narrow, 0, pairs),
      RENGA_ERR_ARGUMENT, first ? "sequence of 0" : "");
  RengaCall(PutText(comm, other_name, "\n\n", 2));
  ExpectError(
      RengaDataWritePairs(comm, vocabulary, text_name, other_name, out_name, lengths, 0, pairs),
      RENGA_ERR_ARGUMENT, first ? "have 0 pairs of lines" : "");
  ExpectError(RengaDataWriteTokens(comm, vocabulary, text_name, out_name, 8, 0), RENGA_ERR_ARGUMENT,
              first ? "of 8 tokens is too short" : "");
  RengaCall(PutText(comm, text_name, "", 0));
  ExpectError(RengaDataWriteTokens(comm, vocabulary, text_name, out_name, 8, 0), RENGA_ERR_ARGUMENT,
              first ? "of 0 tokens is too short" : "");
  ExpectError(RengaDataWriteTokens(comm, vocabulary, "none.txt", out_name, 8, 0),
              RENGA_ERR_FILE_OPEN, first ? "none.txt" : "");
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const int ranks = RengaCommGetSize(comm);
  snprintf(text_name, sizeof text_name, "words-%d.tmp", ranks);
  snprintf(other_name, sizeof other_name, "words-%d-other.tmp", ranks);
  snprintf(kept_name, sizeof kept_name, "words-%d.vocabulary.tmp", ranks);
  snprintf(out_name, sizeof out_name, "words-%d.tmp.h5", ranks);
  RengaCall(CheckExample(comm));
  RengaCall(CheckFiles(comm));
  RengaCall(CheckPairs(comm));
  RengaCall(CheckRefusals(comm));
  RengaCall(RengaCommBarrier(comm, "the last look at the files"));
  const char *const names[] = {text_name, other_name, kept_name, out_name};
  for (int i = 0; i < 4 && RengaCommGetRank(comm) == 0; i++) remove(names[i]);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
