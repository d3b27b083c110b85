/* TEST ranks: 1 2 */
/* IDX files: types, packed or not, normalisation, parts; and what is wrong with them. */
#include "datatest.h"
#include <math.h>
#include <zlib.h>

enum { SAMPLES = 7, HEIGHT = 2, WIDTH = 3, PIXELS = SAMPLES * HEIGHT * WIDTH };
static char image_name[64], label_name[64], out_name[64];
static const char *const names[] = {"image", "labels"};

static int Pixel(int i)
{
  return (i * 37 + 11) % 256;
}

/* An IDX file of bytes; claimed: what its first dimension says. */
static void Put(const char *name, const char *mode, int type, int ndim, const int dims[],
                int claimed, int bytes)
{
  gzFile file = gzopen(name, mode);
  unsigned char magic[4] = {0, 0, (unsigned char)type, (unsigned char)ndim};
  gzwrite(file, magic, 4);
  for (int d = 0; d < ndim; d++) {
    int dim = d == 0 ? claimed : dims[d];
    unsigned char big[4] = {(unsigned char)(dim >> 24), (unsigned char)(dim >> 16),
                            (unsigned char)(dim >> 8), (unsigned char)dim};
    gzwrite(file, big, 4);
  }
  for (int i = 0; i < bytes; i++) {
    unsigned char value = (unsigned char)(ndim == 1 ? i % 5 : Pixel(i));
    gzwrite(file, &value, 1);
  }
  gzclose(file);
}

static const int image_dims[] = {SAMPLES, HEIGHT, WIDTH}, label_dims[] = {SAMPLES};

static RengaErrorCode PutBoth(RengaComm comm, const char *mode)
{
  if (RengaCommGetRank(comm) == 0) {
    Put(image_name, mode, 0x08, 3, image_dims, SAMPLES, PIXELS);
    Put(label_name, mode, 0x08, 1, label_dims, SAMPLES, SAMPLES);
  }
  return RengaCommBarrier(comm, "the files");
}

static RengaErrorCode CheckPart(RengaData data, RengaDataPart part, double mean, double deviation)
{
  float image[PIXELS];
  int64_t label[SAMPLES], count;
  RengaCall(RengaDataGetCount(data, part, &count));
  Expect(count == SAMPLES);
  RengaCall(RengaDataRead(data, part, 0, 0, 0, SAMPLES, image));
  RengaCall(RengaDataRead(data, part, 1, 0, 0, SAMPLES, label));
  for (int i = 0; i < PIXELS; i++)
    Expect(fabs(image[i] - (Pixel(i) / 255.0 - mean) / deviation) < 1e-5);
  for (int i = 0; i < SAMPLES; i++) Expect(label[i] == i % 5);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSet(RengaComm comm, const char *mode, double mean, double deviation)
{
  const char *const files[] = {image_name, label_name, image_name, label_name};
  const RengaTensorSpec specs[] = {{.type = RENGA_FLOAT32, .ndim = 3, .dim = {1, HEIGHT, WIDTH}},
                                   Spec(RENGA_INT64, 0, 0, 0)};
  static const int64_t classes[] = {0, 5};
  RengaData data;
  RengaCall(PutBoth(comm, mode));
  RengaCall(RengaDataWriteIdx(comm, 4, files, out_name, mean, deviation));
  if (deviation == 0) {
    double sum = 0, squares = 0;
    for (int i = 0; i < PIXELS; i++) {
      sum += Pixel(i) / 255.0;
      squares += Pixel(i) / 255.0 * (Pixel(i) / 255.0);
    }
    mean = sum / PIXELS;
    deviation = sqrt(squares / PIXELS - mean * mean);
  }
  RengaCall(RengaOptionsSetValue("data_shuffle", "false"));
  RengaCall(RengaDataCreate(comm, &data));
  RengaCall(RengaDataSetFromOptions(data));
  RengaCall(RengaDataSetFile(data, out_name));
  RengaCall(RengaDataSetFields(data, 2, names, specs, classes));
  RengaCall(RengaDataSetUp(data));
  RengaCall(CheckPart(data, RENGA_DATA_TRAINING, mean, deviation));
  RengaCall(CheckPart(data, RENGA_DATA_VALIDATION, mean, deviation));
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to close the file");
}

static RengaErrorCode Refuse(RengaComm comm, RengaErrorCode code, const char *what)
{
  const char *const files[] = {image_name, label_name};
  RengaCall(RengaCommBarrier(comm, "the files"));
  ExpectError(RengaDataWriteIdx(comm, 2, files, out_name, 0, 0), code,
              RengaCommGetRank(comm) == 0 ? what : "");
  return RengaCommBarrier(comm, "all to have failed");
}

static RengaErrorCode CheckRefusals(RengaComm comm)
{
  static const struct {
    const char *mode;
    int type, ndim, claimed, bytes;
    const char *what;
  } images[] = {
      {"wT", 8, 3, SAMPLES, PIXELS - 1, "samples 0 to 6 cannot be read: the file ends too early"},
      {"wT", 8, 3, SAMPLES, PIXELS + 1, "holds more than its dimensions say"},
      {"wT", 7, 3, SAMPLES, PIXELS, "no IDX file: it begins with 00 00 07 03"},
      {"wT", 8, 9, SAMPLES, PIXELS, "no IDX file"},
      {"wT", 8, 3, INT32_MAX, PIXELS, "a file of 58 bytes does not"},
      {"wT", 8, 3, 0, PIXELS, "does not"},
      {"wT", 8, 3, SAMPLES - 1, PIXELS - HEIGHT * WIDTH, "6 images, 7 labels"},
      {"wb", 8, 3, SAMPLES, PIXELS - 1, "the file ends too early"},
  };
  static const int wide[9] = {SAMPLES, HEIGHT, WIDTH, 1, 1, 1, 1, 1, 1};
  const bool first = RengaCommGetRank(comm) == 0;
  RengaCall(PutBoth(comm, "wb"));
  for (int i = 0; i < COUNT_OF(images); i++) {
    if (first)
      Put(image_name, images[i].mode, images[i].type, images[i].ndim, wide, images[i].claimed,
          images[i].bytes);
    RengaCall(Refuse(comm, RENGA_ERR_FILE_FORMAT, images[i].what));
  }
  if (first) remove(image_name);
  RengaCall(Refuse(comm, RENGA_ERR_FILE_OPEN, "No such file"));
  if (first) Put(image_name, "wb", 8, 1, label_dims, SAMPLES, SAMPLES);
  if (first) Put(label_name, "wb", 8, 3, image_dims, SAMPLES, PIXELS);
  RengaCall(Refuse(comm, RENGA_ERR_FILE_FORMAT, "give the images first, then the labels"));
  return RENGA_SUCCESS;
}

/* A packed file with one bit turned: gzip's checksum tells. */
static RengaErrorCode CheckBrokenPack(RengaComm comm)
{
  RengaCall(PutBoth(comm, "wb0")); /* level 0: the bytes as they are */
  if (RengaCommGetRank(comm) == 0) {
    FILE *file = fopen(image_name, "r+b");
    fseek(file, -20, SEEK_END);
    int byte = fgetc(file);
    fseek(file, -20, SEEK_END);
    fputc(byte ^ 4, file);
    fclose(file);
  }
  return Refuse(comm, RENGA_ERR_FILE_FORMAT, "incorrect data check");
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  snprintf(image_name, sizeof image_name, "image-%d.tmp", RengaCommGetSize(comm));
  snprintf(label_name, sizeof label_name, "label-%d.tmp", RengaCommGetSize(comm));
  snprintf(out_name, sizeof out_name, "idx-%d.tmp.h5", RengaCommGetSize(comm));
  RengaCall(CheckSet(comm, "wb", 0, 0));
  RengaCall(CheckSet(comm, "wT", 0.25, 0.5));
  RengaCall(CheckRefusals(comm));
  RengaCall(CheckBrokenPack(comm));
  if (RengaCommGetRank(comm) == 0) {
    remove(image_name);
    remove(label_name);
    remove(out_name);
  }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
