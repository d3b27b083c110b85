/* TEST ranks: 1 2 */
/* Folders of PNG and JPEG files: classes by name, channels, sizes, parts; and what is refused. */
#include "config.h"
#include "datatest.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined RENGA_HAVE_PNG && defined RENGA_HAVE_JPEG
#include <jpeglib.h>
#include <png.h>

static char folder[64], set_name[64]; /* for each number of ranks, since tests run side by side */
static RengaComm comm;

static const char *At(const char *name)
{
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* A PNG file of height rows of width pixels; format: of libpng. */
static RengaErrorCode PutPng(const char *name, png_uint_32 format, int width, int height,
                             const unsigned char pixels[])
{
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)width,
                     .height = (png_uint_32)height,
                     .format = format};
  Expect(png_image_write_to_file(&image, At(name), 0, pixels, 0, NULL));
  return RENGA_SUCCESS;
}

/* A JPEG file of one colour, which it keeps but for a little. */
static RengaErrorCode PutJpeg(const char *name, int width, int height, const unsigned char rgb[3])
{
  struct jpeg_compress_struct info;
  struct jpeg_error_mgr errors;
  unsigned char row[3 * 64];
  JSAMPROW rows = row;
  FILE *file = fopen(At(name), "wb");
  Expect(file && width <= 64);
  for (int i = 0; i < 3 * width; i++) row[i] = rgb[i % 3];
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file);
  info.image_width = (JDIMENSION)width;
  info.image_height = (JDIMENSION)height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) jpeg_write_scanlines(&info, &rows, 1);
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  fclose(file);
  return RENGA_SUCCESS;
}

static RengaErrorCode Make(int folders, int height, int width, double share, int64_t numbers[3])
{
  char second[96];
  const char *const names[] = {folder, second};
  const int size[2] = {height, width};
  snprintf(second, sizeof second, "%s-other", folder);
  RengaCall(RengaCommBarrier(comm, "the files"));
  return RengaDataWriteImages(comm, folders, names, set_name, size, 0, 1, share, numbers);
}

/* Samples of a part, whose numbers are bytes / 255. */
static RengaErrorCode ReadImages(RengaDataPart part, int channels, int height, int width,
                                 int64_t samples, float image[], int64_t labels[])
{
  const char *const names[] = {"image", "labels"};
  RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 3, channels, height), Spec(RENGA_INT64, 0, 0, 0)};
  RengaData data;
  int64_t count;
  specs[0].dim[2] = width;
  RengaCall(RengaDataCreate(comm, &data));
  RengaCall(RengaDataSetFile(data, set_name));
  RengaCall(RengaDataSetShuffle(data, false));
  RengaCall(RengaDataSetFields(data, 2, names, specs, NULL));
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataGetCount(data, part, &count));
  Expect(count == samples);
  RengaCall(RengaDataRead(data, part, 0, 0, 0, samples, image));
  RengaCall(RengaDataRead(data, part, 1, 0, 0, samples, labels));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static bool IsByte(float value, int byte, int about)
{
  return value * 255 > (float)(byte - about) - 0.01f && value * 255 < (float)(byte + about) + 0.01f;
}

/* Grey and colours with and without transparency: 2 high, 3 wide. */
static RengaErrorCode MakeFolder(void)
{
  const unsigned char grey[] = {0, 50, 100, 150, 200, 250}, blue[] = {10, 20, 230};
  unsigned char colours[18], through[24];
  for (int i = 0; i < 18; i++) colours[i] = (unsigned char)(10 * i);
  for (int i = 0; i < 24; i++) through[i] = (unsigned char)(i % 4 == 3 ? 0 : 9 * i);
  if (RengaCommGetRank(comm) != 0) return RENGA_SUCCESS;
  mkdir(folder, 0777);
  mkdir(At("cat"), 0777);
  mkdir(At("ant"), 0777);
  RengaCall(PutPng("cat/a.png", PNG_FORMAT_GRAY, 3, 2, grey));
  RengaCall(PutPng("cat/b.PNG", PNG_FORMAT_RGB, 3, 2, colours));
  RengaCall(PutPng("ant/z.png", PNG_FORMAT_RGBA, 3, 2, through));
  RengaCall(PutJpeg("ant/b.jpg", 3, 2, blue));
  FILE *file = fopen(At("ant/readme.txt"), "w");
  Expect(file != NULL);
  fclose(file);
  return RENGA_SUCCESS;
}

/* ant: b.jpg, z.png; cat: a.png, b.PNG. */
static RengaErrorCode CheckFolder(void)
{
  float image[4 * 18];
  int64_t labels[4], numbers[3] = {0};
  RengaCall(Make(1, 0, 0, 0, numbers));
  if (RengaCommGetRank(comm) == 0) Expect(numbers[0] == 4 && numbers[1] == 2 && numbers[2] == 1);
  RengaCall(ReadImages(RENGA_DATA_TRAINING, 3, 2, 3, 4, image, labels));
  Expect(labels[0] == 0 && labels[1] == 0 && labels[2] == 1 && labels[3] == 1);
  for (int c = 0; c < 3; c++)
    for (int i = 0; i < 6; i++) {
      const int blue[] = {10, 20, 230};
      Expect(IsByte(image[c * 6 + i], blue[c], 3));
      Expect(IsByte(image[18 + c * 6 + i], 9 * (4 * i + c), 0));
      Expect(IsByte(image[36 + c * 6 + i], 50 * i, 0));
      Expect(IsByte(image[54 + c * 6 + i], 10 * (3 * i + c), 0));
    }
  return RENGA_SUCCESS;
}

/* The last of each class validate; sizes: one pixel is the weighted mean of its line, by a triangle
   that reaches over one and a half of three pixels: 1/3 + 1 + 1/3. */
static RengaErrorCode CheckParts(void)
{
  float image[4 * 3 * 16];
  int64_t labels[4], numbers[3];
  RengaCall(Make(1, 2, 1, 0.5, numbers));
  RengaCall(ReadImages(RENGA_DATA_TRAINING, 3, 2, 1, 2, image, labels));
  Expect(labels[0] == 0 && labels[1] == 1);
  Expect(IsByte(image[6], 50, 0) && IsByte(image[7], 200, 0));
  RengaCall(ReadImages(RENGA_DATA_VALIDATION, 3, 2, 1, 2, image, labels));
  Expect(labels[0] == 0 && labels[1] == 1 && IsByte(image[6], 30, 0));
  RengaCall(Make(1, 4, 4, 0, numbers)); /* larger: corners stay */
  RengaCall(ReadImages(RENGA_DATA_TRAINING, 3, 4, 4, 4, image, labels));
  const float *grey = image + 2 * 48;
  Expect(IsByte(grey[0], 0, 0) && IsByte(grey[3], 100, 0) && IsByte(grey[15], 250, 0));
  return RENGA_SUCCESS;
}

/* A PNG file gets a note on colours, behind its head, that libpng warns of: gamma 0. */
static RengaErrorCode SpoilGamma(const char *name)
{
  static const unsigned char chunk[] = "\0\0\0\4gAMA\0\0\0\0\x8b%`M";
  enum { HEAD = 33 };
  unsigned char bytes[4096];
  FILE *file = fopen(At(name), "r+b");
  Expect(file != NULL);
  const size_t count = fread(bytes, 1, sizeof bytes, file);
  Expect(count > HEAD && count < sizeof bytes);
  rewind(file);
  fwrite(bytes, 1, HEAD, file);
  fwrite(chunk, 1, sizeof chunk - 1, file);
  fwrite(bytes + HEAD, 1, count - HEAD, file);
  Expect(fclose(file) == 0);
  return RENGA_SUCCESS;
}

/* Only grey images are one channel. */
static RengaErrorCode CheckGrey(void)
{
  float image[6];
  int64_t label, numbers[3];
  if (RengaCommGetRank(comm) == 0) {
    unlink(At("ant/b.jpg"));
    unlink(At("ant/z.png"));
    unlink(At("cat/b.PNG"));
  }
  RengaCall(Make(1, 0, 0, 0, numbers));
  RengaCall(ReadImages(RENGA_DATA_TRAINING, 1, 2, 3, 1, image, &label));
  Expect(label == 1); /* a class without images keeps its number */
  for (int i = 0; i < 6; i++) Expect(IsByte(image[i], 50 * i, 0));
  if (RengaCommGetRank(comm) == 0) RengaCall(SpoilGamma("cat/a.png"));
  RengaCall(Make(1, 0, 0, 0, numbers));
  RengaCall(ReadImages(RENGA_DATA_TRAINING, 1, 2, 3, 1, image, &label));
  for (int i = 0; i < 6; i++) Expect(IsByte(image[i], 50 * i, 0));
  return RENGA_SUCCESS;
}

static RengaErrorCode CutFile(const char *name, long bytes)
{
  Expect(truncate(At(name), bytes) == 0);
  return RENGA_SUCCESS;
}

/* Two folders with as many classes, one of them of another name. */
static RengaErrorCode CheckOtherClasses(void)
{
  const bool first = RengaCommGetRank(comm) == 0;
  int64_t numbers[3] = {-1, -1, -1};
  char other[96], class[2][128];
  snprintf(other, sizeof other, "%s-other", folder);
  for (int k = 0; k < 2; k++)
    snprintf(class[k], sizeof class[k], "%s/%s", other, k ? "dog" : "ant");
  if (first) Expect(!mkdir(other, 0777) && !mkdir(class[0], 0777) && !mkdir(class[1], 0777));
  ExpectError(Make(2, 8, 8, 0, numbers), RENGA_ERR_FILE_FORMAT,
              first ? "must hold the same classes: dog is only in images-" : "",
              first ? "-other" : "");
  Expect(numbers[0] == -1);
  RengaCall(RengaCommBarrier(comm, "the answer"));
  if (first) Expect(!rmdir(class[1]));
  ExpectError(Make(2, 8, 8, 0, numbers), RENGA_ERR_FILE_FORMAT,
              first ? "must hold the same classes: cat is only in images-" : "");
  RengaCall(RengaCommBarrier(comm, "the answer"));
  if (first) Expect(!rmdir(class[0]) && !rmdir(other));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefusals(void)
{
  const unsigned char blue[] = {10, 20, 230};
  const bool first = RengaCommGetRank(comm) == 0;
  int64_t numbers[3];
  if (first) RengaCall(PutJpeg("ant/c.jpg", 40, 40, blue));
  ExpectError(Make(1, 0, 0, 0, numbers), RENGA_ERR_FILE_FORMAT, first ? "is 2 x 3," : "",
              first ? "-data_image_size HxW" : "");
  RengaCall(RengaCommBarrier(comm, "the answer"));
  if (first) RengaCall(CutFile("ant/c.jpg", 500));
  ExpectError(Make(1, 8, 8, 0, numbers), RENGA_ERR_FILE_FORMAT, first ? "ant/c.jpg: " : "");
  RengaCall(RengaCommBarrier(comm, "the answer"));
  if (first) {
    unlink(At("ant/c.jpg"));
    RengaCall(CutFile("cat/a.png", 60));
  }
  ExpectError(Make(1, 8, 8, 0, numbers), RENGA_ERR_FILE_FORMAT, first ? "cat/a.png: " : "");
  RengaCall(RengaCommBarrier(comm, "the answer"));
  if (first) unlink(At("cat/a.png"));
  ExpectError(Make(1, 8, 8, 0, numbers), RENGA_ERR_FILE_FORMAT, first ? "holds no images" : "");
  if (first) mkdir(At("cat/inner"), 0777);
  ExpectError(Make(1, 8, 8, 0, numbers), RENGA_ERR_FILE_FORMAT, first ? "within a class" : "");
  ExpectError(Make(2, 8, 8, 0.5, numbers), RENGA_ERR_ARGUMENT, first ? "2 folders of images" : "");
  RengaCall(RengaCommBarrier(comm, "the answer"));
  if (first) {
    Expect(rmdir(At("cat/inner")) == 0 && rmdir(At("cat")) == 0);
    Expect(unlink(At("ant/readme.txt")) == 0 && rmdir(At("ant")) == 0);
  }
  ExpectError(Make(1, 8, 8, 0, numbers), RENGA_ERR_FILE_FORMAT, first ? "holds no folders" : "");
  if (first) Expect(rmdir(folder) == 0 && unlink(set_name) == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  snprintf(folder, sizeof folder, "images-%d.tmp", RengaCommGetSize(comm));
  snprintf(set_name, sizeof set_name, "images-%d.tmp.h5", RengaCommGetSize(comm));
  RengaCall(MakeFolder());
  RengaCall(CheckFolder());
  RengaCall(CheckParts());
  RengaCall(CheckGrey());
  RengaCall(CheckOtherClasses());
  RengaCall(CheckRefusals());
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)

#else

int main(void)
{
  return 77; /* built without one of the libraries */
}

#endif
