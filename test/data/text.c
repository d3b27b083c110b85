/* TEST ranks: 1 2 */
/* Text to tokens and back as windows; synthetic samples; what is refused. */
#include "datatest.h"
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { BYTES = 9001, SEQUENCE = 16 };
static char text_name[64], out_name[64];
static const char *const names[] = {"input_ids", "labels"};

static unsigned char Byte(int64_t i)
{
  return (unsigned char)(i * 131 + i / 256);
}

static RengaErrorCode MakeText(RengaComm comm)
{
  snprintf(text_name, sizeof text_name, "text-%d.tmp", RengaCommGetSize(comm));
  snprintf(out_name, sizeof out_name, "text-%d.tmp.h5", RengaCommGetSize(comm));
  if (RengaCommGetRank(comm) == 0) {
    FILE *file = fopen(text_name, "wb");
    for (int64_t i = 0; i < BYTES; i++) fputc(Byte(i), file);
    fclose(file);
  }
  return RengaCommBarrier(comm, "the text");
}

static RengaErrorCode CheckWindows(RengaData data, RengaDataPart part, int64_t from, int64_t length)
{
  int64_t samples, first, count, epoch;
  int32_t tokens[3 * SEQUENCE];
  int64_t labels[3 * SEQUENCE];
  RengaCall(RengaDataGetCount(data, part, &samples));
  Expect(samples == (length - 1) / SEQUENCE);
  for (int64_t step = 0; step < samples / 3; step++) {
    RengaCall(RengaDataGetStep(data, part, 3, step, &first, &count, &epoch));
    RengaCall(RengaDataRead(data, part, 0, epoch, first, count, tokens));
    RengaCall(RengaDataRead(data, part, 1, epoch, first, count, labels));
    for (int64_t s = 0; s < count; s++)
      for (int64_t i = 0; i < SEQUENCE; i++) {
        int64_t at = from + (first + s) * SEQUENCE + i;
        Expect(labels[s * SEQUENCE + i] == Byte(at + 1) && tokens[s * SEQUENCE + i] == Byte(at));
      }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckText(RengaComm comm, double share)
{
  const RengaTensorSpec specs[] = {Spec(RENGA_INT32, 1, SEQUENCE, 0),
                                   Spec(RENGA_INT64, 1, SEQUENCE, 0)};
  static const int64_t classes[] = {256, 256};
  int64_t vocabulary, kept = (int64_t)(BYTES * share);
  RengaData data;
  RengaCall(RengaDataWriteText(comm, text_name, out_name, SEQUENCE, share));
  RengaCall(RengaOptionsSetValue("data_shuffle", "false"));
  RengaCall(RengaDataCreate(comm, &data));
  RengaCall(RengaDataSetFromOptions(data));
  RengaCall(RengaDataSetFile(data, out_name));
  RengaCall(RengaDataSetFields(data, 2, names, specs, classes));
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataGetVocabulary(data, &vocabulary));
  Expect(vocabulary == 256);
  RengaCall(CheckWindows(data, RENGA_DATA_TRAINING, 0, BYTES - kept));
  if (kept > 0) RengaCall(CheckWindows(data, RENGA_DATA_VALIDATION, BYTES - kept, kept));
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to close the file");
}

static RengaErrorCode RefuseTokens(RengaComm comm, int n, const int64_t sequence, int64_t classes,
                                   const char *what, const char *more)
{
  static const char *const three[] = {"input_ids", "labels", "positions"};
  RengaTensorSpec spec = Spec(RENGA_INT64, 1, sequence, 0), specs[] = {spec, spec, spec};
  int64_t bounds[] = {classes, classes, classes};
  bool says = RengaCommGetRank(comm) == 0;
  RengaData data;
  ExpectError(OpenData(comm, out_name, n, three, specs, bounds, &data), RENGA_ERR_SHAPE,
              says ? what : "", says ? more : "");
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode RefuseText(RengaComm comm, const char *text, const char *out,
                                 int64_t sequence, double share, RengaErrorCode code,
                                 const char *what)
{
  ExpectError(RengaDataWriteText(comm, text, out, sequence, share), code,
              RengaCommGetRank(comm) == 0 ? what : "");
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefusals(RengaComm comm)
{
  RengaCall(RefuseTokens(comm, 2, SEQUENCE, 128, "has 256 kinds of tokens", "takes 128"));
  RengaCall(RefuseTokens(comm, 2, 32, 256, "takes int64[32]", "has uint8[16]"));
  RengaCall(RefuseTokens(comm, 3, SEQUENCE, 256, "3 inputs", "positions"));
  RengaCall(RefuseText(comm, "nothing.txt", "o.tmp.h5", 8, 0, RENGA_ERR_FILE_OPEN, "No such file"));
  RengaCall(RefuseText(comm, "/", "o.tmp.h5", 8, 0, RENGA_ERR_FILE_OPEN, "text /"));
  RengaCall(RefuseText(comm, text_name, "o.tmp.h5", BYTES, 0, RENGA_ERR_ARGUMENT, "too short"));
  RengaCall(RefuseText(comm, text_name, "o.tmp.h5", 100, 0.01, RENGA_ERR_ARGUMENT,
                       "90 of them for validation"));
  RengaCall(RefuseText(comm, text_name, "o.tmp.h5", 0, 0, RENGA_ERR_ARGUMENT, "sequence of 0"));
  RengaCall(RefuseText(comm, text_name, "o.tmp.h5", 8, 1, RENGA_ERR_ARGUMENT, "share of 1"));
  RengaCall(
      RefuseText(comm, text_name, "no/where/o.h5", 8, 0, RENGA_ERR_FILE_WRITE, "no/where/o.h5"));
  Expect(access("o.tmp.h5", F_OK) != 0);
  return RENGA_SUCCESS;
}

/* A set that cannot be made leaves the old one as it was. */
static RengaErrorCode CheckOldFileStays(RengaComm comm)
{
  struct stat before, after;
  Expect(stat(out_name, &before) == 0);
  RengaCall(RefuseText(comm, text_name, out_name, BYTES, 0, RENGA_ERR_ARGUMENT, "too short"));
  Expect(stat(out_name, &after) == 0);
  Expect(before.st_ino == after.st_ino && before.st_size == after.st_size);
  return RengaCommBarrier(comm, "all to have looked at the file");
}

static RengaErrorCode CheckSynthetic(RengaComm comm)
{
  enum { PER_SAMPLE = 35, COUNT = 400 };
  const RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 2, 5, 7),
                                   Spec(RENGA_INT32, 1, PER_SAMPLE, 0)};
  static const int64_t classes[] = {0, 10};
  static float x[COUNT * PER_SAMPLE], again[PER_SAMPLE];
  static int32_t y[COUNT * PER_SAMPLE];
  int seen[10] = {0};
  double sum = 0, squares = 0;
  RengaData data;
  RengaCall(OpenData(comm, "synthetic", 2, names, specs, classes, &data));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 0, COUNT, x));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 0, 0, COUNT, y));
  for (int i = 0; i < COUNT * PER_SAMPLE; i++) {
    Expect(y[i] >= 0 && y[i] < 10);
    seen[y[i]]++;
    sum += x[i];
    squares += (double)x[i] * x[i];
  }
  for (int i = 0; i < 10; i++) Expect(abs(seen[i] - COUNT * PER_SAMPLE / 10) < 200);
  Expect(fabs(sum) < 600 && fabs(squares / (COUNT * PER_SAMPLE) - 1) < 0.05);
  for (int i = 0; i < COUNT; i += 13) {
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, i, 1, again));
    Expect(memcmp(again, x + i * PER_SAMPLE, sizeof again) == 0);
  }
  RengaCall(RengaDataSetSeed(data, 1));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 0, 1, again));
  Expect(memcmp(again, x, sizeof again) != 0);
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static void PutAttribute(hid_t file, const char *name, hid_t type, const void *value)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t id = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(id, type, value);
  H5Aclose(id);
  H5Sclose(space);
}

/* A set as h5py writes it: text of variable length, tokens of 16 bits, small integers. */
static RengaErrorCode CheckForeign(RengaComm comm, const char *format, int sequence)
{
  const RengaTensorSpec spec = Spec(RENGA_INT64, 1, 4, 0);
  static const char *const labels[] = {"labels"};
  int64_t read[4], count;
  RengaData data;
  if (RengaCommGetRank(comm) == 0) {
    uint16_t tokens[14], vocabulary = 50257;
    hsize_t dim = 14;
    hid_t file = H5Fcreate(out_name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t text = H5Tcopy(H5T_C_S1);
    for (int i = 0; i < 14; i++) tokens[i] = (uint16_t)(50000 + i);
    H5Tset_size(text, H5T_VARIABLE);
    H5Tset_cset(text, H5T_CSET_UTF8);
    PutAttribute(file, "format", text, &format);
    PutAttribute(file, "sequence", H5T_NATIVE_INT, &sequence);
    PutAttribute(file, "vocabulary", H5T_NATIVE_UINT16, &vocabulary);
    PutArray(file, "training", H5T_STD_U16LE, H5T_NATIVE_UINT16, 1, &dim, tokens);
    H5Tclose(text);
    H5Fclose(file);
  }
  RengaCall(RengaCommBarrier(comm, "the file"));
  RengaErrorCode code = OpenData(comm, out_name, 1, labels, &spec, NULL, &data);
  if (code == RENGA_SUCCESS) {
    RengaCall(RengaDataGetVocabulary(data, &count));
    Expect(count == 50257);
    RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &count));
    Expect(count == 3);
    RengaCall(RengaDataSetSeed(data, 3));
    for (int64_t i = 0; i < 3; i++) {
      RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, i, 1, read));
      Expect(read[0] % 4 == 50001 % 4 && read[0] <= 50009 && read[3] == read[0] + 3);
    }
  }
  RengaCall(RengaDataDestroy(&data));
  RengaCall(RengaCommBarrier(comm, "all to close the file"));
  return code;
}

static RengaErrorCode CheckForeigners(RengaComm comm)
{
  bool says = RengaCommGetRank(comm) == 0;
  RengaCall(CheckForeign(comm, "tokens", 4));
  ExpectError(CheckForeign(comm, "pictures", 4), RENGA_ERR_FILE_FORMAT,
              says ? "has format pictures" : "");
  ExpectError(CheckForeign(comm, "tokens", 0), RENGA_ERR_FILE_FORMAT, says ? "sequence is 0" : "");
  ExpectError(CheckForeign(comm, "tokens", 14), RENGA_ERR_SHAPE, says ? "uint16[14]" : "");
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaData data;
  int64_t count;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(MakeText(comm));
  RengaCall(CheckText(comm, 0));
  RengaCall(CheckText(comm, 0.1));
  RengaCall(CheckSynthetic(comm));
  RengaCall(CheckRefusals(comm));
  RengaCall(CheckOldFileStays(comm));
  RengaCall(CheckForeigners(comm));
  RengaCall(RengaDataCreate(comm, &data));
  ExpectError(RengaDataSetUp(data), RENGA_ERR_ORDER,
              RengaCommGetRank(comm) == 0 ? "set -data" : "");
  ExpectError(RengaDataGetCount(data, RENGA_DATA_TRAINING, &count), RENGA_ERR_ORDER, "RengaData");
  RengaCall(RengaDataDestroy(&data));
  if (RengaCommGetRank(comm) == 0) remove(text_name);
  RengaCall(RengaCommBarrier(comm, "the last look at the file"));
  if (RengaCommGetRank(comm) == 0) remove(out_name);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
