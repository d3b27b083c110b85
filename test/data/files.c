/* TEST ranks: 1 2 */
/* Several files as one set, other files for validation, masked tokens; and what does not fit. */
#include "datatest.h"
#include <math.h>
#include <stdlib.h>

enum { T = 8, MASK = 3, KINDS = 50 };
static char name[5][64];
static const char *const inputs[] = {"x", "y"};

/* A file of arrays whose sample i is first + i. */
static void PutNumbers(const char *file_name, int64_t first, hsize_t count, hsize_t width)
{
  int32_t values[64], numbers[64];
  hsize_t dims[2] = {count, width};
  for (hsize_t i = 0; i < count * width; i++) values[i] = (int32_t)(first + (int64_t)(i / width));
  for (hsize_t i = 0; i < count; i++) numbers[i] = (int32_t)(first + (int64_t)i);
  hid_t file = H5Fcreate(file_name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  PutArray(file, "/x", H5T_STD_I16LE, H5T_NATIVE_INT32, 2, dims, values);
  PutArray(file, "/y", count % 2 ? H5T_STD_I32LE : H5T_STD_I64BE, H5T_NATIVE_INT32, 1, dims,
           numbers);
  H5Fclose(file);
}

static void PutInt(hid_t file, const char *attribute, int64_t value)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t id = H5Acreate2(file, attribute, H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(id, H5T_NATIVE_INT64, &value);
  H5Aclose(id);
  H5Sclose(space);
}

/* A stream of tokens: 4, 5, … again and again. */
static void PutTokens(const char *file_name, hsize_t count, int64_t sequence, int64_t mask)
{
  uint16_t tokens[4096];
  hid_t file = H5Fcreate(file_name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t text = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  for (hsize_t i = 0; i < count; i++) tokens[i] = (uint16_t)(4 + i % (KINDS - 4));
  H5Tset_size(text, 7);
  hid_t id = H5Acreate2(file, "format", text, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(id, text, "tokens");
  H5Aclose(id);
  H5Sclose(space);
  H5Tclose(text);
  PutInt(file, "sequence", sequence);
  PutInt(file, "vocabulary", KINDS);
  if (mask >= 0) PutInt(file, "mask", mask);
  PutArray(file, "/training", H5T_STD_U16LE, H5T_NATIVE_UINT16, 1, &count, tokens);
  H5Fclose(file);
}

static RengaErrorCode Open(RengaComm comm, const char *files, const char *validation,
                           double masking, int n, const char *const names[],
                           const RengaTensorSpec specs[], RengaData *data)
{
  double share;
  RengaCall(RengaOptionsSetValue("data_shuffle", "false"));
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFromOptions(*data));
  RengaCall(RengaDataSetFile(*data, files));
  RengaCall(RengaDataSetValidationFile(*data, validation));
  RengaCall(RengaDataSetMasking(*data, masking));
  RengaCall(RengaDataGetMasking(*data, &share));
  Expect(share == masking);
  RengaCall(RengaDataSetFields(*data, n, names, specs, NULL));
  return RengaDataSetUp(*data);
}

static RengaErrorCode OpenNumbers(RengaComm comm, const char *files, const char *validation,
                                  RengaData *data)
{
  const RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 1, 3, 0), Spec(RENGA_INT64, 0, 0, 0)};
  return Open(comm, files, validation, 0, 2, inputs, specs, data);
}

static RengaErrorCode CheckNumbers(RengaComm comm, const char *files, const char *validation,
                                   int64_t training_count, int64_t validation_count)
{
  RengaData data;
  float x[64 * 3];
  int64_t y[64], counts[2];
  RengaCall(OpenNumbers(comm, files, validation, &data));
  for (int part = 0; part < 2; part++) {
    RengaDataPart of = (RengaDataPart)part;
    RengaCall(RengaDataGetCount(data, of, &counts[part]));
    for (int64_t n = 1; n <= counts[part]; n = n * 2 + 1) {
      int64_t at = counts[part] - n, first = part == 1 && validation ? 100 : 0;
      RengaCall(RengaDataRead(data, of, 0, 0, at, n, x));
      RengaCall(RengaDataRead(data, of, 1, 0, at, n, y));
      for (int64_t i = 0; i < n; i++) Expect(y[i] == first + at + i && x[3 * i + 2] == (float)y[i]);
    }
  }
  Expect(counts[0] == training_count && counts[1] == validation_count);
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to close the files");
}

/* The list means these files, in this order. */
static RengaErrorCode CheckNames(const char *list, int wanted, const char *const names[])
{
  int count;
  char **found;
  RengaCall(RengaDataFindFiles(list, &count, &found));
  Expect(count == wanted);
  for (int i = 0; i < count; i++) {
    Expect(strcmp(found[i], names[i]) == 0);
    RengaFree(&found[i]);
  }
  RengaFree(&found);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFiles(RengaComm comm)
{
  char list[256], pattern[64];
  if (RengaCommGetRank(comm) == 0) {
    PutNumbers(name[0], 0, 5, 3);
    PutNumbers(name[1], 5, 8, 3);
    PutNumbers(name[2], 13, 1, 3);
    PutNumbers(name[3], 100, 4, 3);
  }
  RengaCall(RengaCommBarrier(comm, "the files"));
  snprintf(list, sizeof list, "%s,%s,%s", name[0], name[1], name[2]);
  snprintf(pattern, sizeof pattern, "numbers-%d-[abc].tmp.h5", RengaCommGetSize(comm));
  const char *const all[] = {name[0], name[1], name[2]}, *const absent[] = {"a", "b.h5"};
  RengaCall(CheckNames(list, 3, all));
  RengaCall(CheckNames(pattern, 3, all));
  RengaCall(CheckNames("a,b.h5", 2, absent));
  RengaCall(CheckNumbers(comm, list, NULL, 14, 0));
  RengaCall(CheckNumbers(comm, pattern, name[3], 14, 4));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckMaskedWindows(RengaData data, int64_t epoch, int64_t samples,
                                         int64_t counts[4], uint64_t *hash)
{
  int64_t tokens[64 * T], labels[64 * T], segments[64 * T];
  float attention[64 * T];
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, epoch, 0, samples, tokens));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 1, epoch, 0, samples, segments));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 2, epoch, 0, samples, attention));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 3, epoch, 0, samples, labels));
  *hash = RengaHash(tokens, (size_t)samples * T * sizeof *tokens, 0);
  for (int64_t s = 0; s < samples; s++) {
    int found = 0;
    for (int64_t i = s * T; i < (s + 1) * T; i++) {
      int64_t token = 4 + i % (KINDS - 4);
      Expect(segments[i] == 0 && attention[i] == 1);
      Expect(labels[i] == token || labels[i] == -100);
      Expect(labels[i] == token || tokens[i] == token);
      Expect(tokens[i] >= MASK && tokens[i] < KINDS);
      found += labels[i] >= 0;
      counts[0] += labels[i] >= 0;
      counts[1] += labels[i] >= 0 && tokens[i] == MASK;
      counts[2] += labels[i] >= 0 && tokens[i] != MASK && tokens[i] != token;
      counts[3]++;
    }
    Expect(found >= 1);
  }
  return RENGA_SUCCESS;
}

static const char *const bert[] = {"tokens", "segments", "attention_mask", "labels"};

static RengaErrorCode OpenTokens(RengaComm comm, const char *files, double masking, RengaData *data)
{
  const RengaTensorSpec whole = Spec(RENGA_INT64, 1, T, 0), real = Spec(RENGA_FLOAT32, 1, T, 0);
  const RengaTensorSpec specs[] = {whole, whole, real, whole};
  return Open(comm, files, NULL, masking, 4, bert, specs, data);
}

/* 64 windows in 30 epochs: shares within five deviations of 0.2 and of 8 and 1 in ten. */
static RengaErrorCode CheckMasking(RengaComm comm)
{
  RengaData data;
  int64_t counts[4] = {0}, one;
  uint64_t hash[30], again, token_alone[T];
  if (RengaCommGetRank(comm) == 0) PutTokens(name[4], 64 * T, T, MASK);
  RengaCall(RengaCommBarrier(comm, "the file"));
  RengaCall(OpenTokens(comm, name[4], 0.2, &data));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &one));
  Expect(one == 64); /* no window needs a token after its last one */
  for (int64_t epoch = 0; epoch < 30; epoch++) {
    RengaCall(CheckMaskedWindows(data, epoch, 64, counts, &hash[epoch]));
    for (int64_t e = 0; e < epoch; e++) Expect(hash[e] != hash[epoch]);
  }
  const double n = (double)counts[3], found = (double)counts[0];
  /* one in (1 - 0.2)^T windows gets a token of its own */
  Expect(fabs(found / n - 0.2 - pow(0.8, T) / T) < 5 * sqrt(0.16 / n));
  Expect(fabs((double)counts[1] / found - 0.8) < 5 * sqrt(0.16 / found));
  Expect(fabs((double)counts[2] / found - 0.1) < 5 * sqrt(0.09 / found));
  RengaCall(CheckMaskedWindows(data, 7, 64, counts, &again));
  Expect(again == hash[7]);
  uint64_t whole[64 * T];
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 7, 0, 64, whole));
  for (int64_t s = 0; s < 64; s += 9) {
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 7, s, 1, token_alone));
    Expect(memcmp(token_alone, whole + s * T, sizeof token_alone) == 0);
  }
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to close the file");
}

static RengaErrorCode RefuseNumbers(RengaComm comm, const char *files, const char *validation,
                                    RengaErrorCode code, const char *what)
{
  RengaData data;
  RengaCall(RengaCommBarrier(comm, "the files"));
  ExpectError(OpenNumbers(comm, files, validation, &data), code,
              RengaCommGetRank(comm) == 0 ? what : "");
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to have failed");
}

static RengaErrorCode RefuseTokens(RengaComm comm, const char *files, double masking,
                                   RengaErrorCode code, const char *what)
{
  RengaData data;
  RengaCall(RengaCommBarrier(comm, "the files"));
  ExpectError(OpenTokens(comm, files, masking, &data), code,
              RengaCommGetRank(comm) == 0 ? what : "");
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to have failed");
}

static RengaErrorCode CheckRefusals(RengaComm comm)
{
  char list[256];
  const bool first = RengaCommGetRank(comm) == 0;
  RengaCall(RefuseNumbers(comm, "nothing-*.h5", NULL, RENGA_ERR_FILE_OPEN, "no file fits"));
  RengaCall(RefuseNumbers(comm, ",", NULL, RENGA_ERR_FILE_OPEN, "names no data set"));
  RengaCall(RefuseNumbers(comm, name[0], "none.h5", RENGA_ERR_FILE_OPEN, "none.h5"));
  if (first) PutNumbers(name[1], 5, 4, 4);
  snprintf(list, sizeof list, "%s,%s", name[0], name[1]);
  RengaCall(RefuseNumbers(comm, list, NULL, RENGA_ERR_SHAPE, "int16[4] per sample"));
  snprintf(list, sizeof list, "%s,%s", name[0], name[4]);
  RengaCall(RefuseNumbers(comm, list, NULL, RENGA_ERR_FILE_FORMAT, "they are no one set"));
  snprintf(list, sizeof list, "%s,%s", name[4], name[3]);
  if (first) PutTokens(name[3], 100, T, MASK + 1);
  RengaCall(RefuseTokens(comm, list, 0, RENGA_ERR_SHAPE, "has 50 kinds of tokens in samples of 8"));
  if (first) PutTokens(name[3], 100, T, -1);
  RengaCall(RefuseTokens(comm, name[3], 0.15, RENGA_ERR_OPTION, "has no token to mask with"));
  RengaCall(RefuseTokens(comm, name[0], 0.15, RENGA_ERR_OPTION, "is no set of tokens"));
  RengaCall(
      RefuseTokens(comm, "synthetic", 0.15, RENGA_ERR_OPTION, "made-up samples have no text"));
  if (first) PutTokens(name[3], 100, 0, -1);
  RengaCall(RefuseTokens(comm, name[3], 0, RENGA_ERR_FILE_FORMAT, "sequence is 0"));
  if (first) PutTokens(name[3], 5, T, MASK);
  RengaCall(RefuseTokens(comm, name[3], 0, RENGA_ERR_FILE_FORMAT, "has no samples"));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int i = 0; i < 5; i++)
    snprintf(name[i], sizeof name[i], "numbers-%d-%c.tmp.h5", RengaCommGetSize(comm), "abcde"[i]);
  RengaCall(CheckFiles(comm));
  RengaCall(CheckMasking(comm));
  RengaCall(CheckRefusals(comm));
  for (int i = 0; i < 5 && RengaCommGetRank(comm) == 0; i++) remove(name[i]);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
