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

/* A JPEG file of one colour, which it keeps but for a little: of three parts, or of four inks as
   Adobe writes them. exif: a note, or NULL. */
static RengaErrorCode PutJpegOf(const char *name, int width, int height, int parts,
                                const unsigned char colour[], const char *exif, unsigned length)
{
  struct jpeg_compress_struct info;
  struct jpeg_error_mgr errors;
  unsigned char row[4 * 64];
  JSAMPROW rows = row;
  FILE *file = fopen(At(name), "wb");
  Expect(file && width <= 64);
  for (int i = 0; i < parts * width; i++) row[i] = colour[i % parts];
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file);
  info.image_width = (JDIMENSION)width;
  info.image_height = (JDIMENSION)height;
  info.input_components = parts;
  info.in_color_space = parts == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  if (exif) jpeg_write_marker(&info, JPEG_APP0 + 1, (const JOCTET *)exif, length);
  while (info.next_scanline < info.image_height) jpeg_write_scanlines(&info, &rows, 1);
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  fclose(file);
  return RENGA_SUCCESS;
}

static RengaErrorCode PutJpeg(const char *name, int width, int height, const unsigned char rgb[3])
{
  RengaCall(PutJpegOf(name, width, height, 3, rgb, NULL, 0));
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

/* Puts a chunk into a PNG file, behind its head. */
static RengaErrorCode PutChunk(const char *name, const unsigned char chunk[], size_t length)
{
  enum { HEAD = 33 };
  unsigned char bytes[4096];
  FILE *file = fopen(At(name), "r+b");
  Expect(file != NULL);
  const size_t count = fread(bytes, 1, sizeof bytes, file);
  Expect(count > HEAD && count < sizeof bytes);
  rewind(file);
  fwrite(bytes, 1, HEAD, file);
  fwrite(chunk, 1, length, file);
  fwrite(bytes + HEAD, 1, count - HEAD, file);
  Expect(fclose(file) == 0);
  return RENGA_SUCCESS;
}

/* A note on colours that libpng warns of: gamma 0. */
static RengaErrorCode SpoilGamma(const char *name)
{
  static const unsigned char chunk[] = "\0\0\0\4gAMA\0\0\0\0\x8b%`M";
  RengaCall(PutChunk(name, chunk, sizeof chunk - 1));
  return RENGA_SUCCESS;
}

/* PNG, annex D. */
static uint32_t ChecksumChunk(const unsigned char bytes[], size_t count)
{
  uint32_t sum = 0xffffffff;
  for (size_t i = 0; i < 8 * count; i++) {
    if (i % 8 == 0) sum ^= bytes[i / 8];
    sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum;
}

/* A note of Exif, behind one on the software. */
static RengaErrorCode NoteOrientation(const char *name, int orientation, bool little)
{
  enum { LENGTH = 38, EXIF = 8 };
  static const unsigned char exif[2][LENGTH + 1] = {
      "MM\0*\0\0\0\x08\0\2\x01\x31\0\2\0\0\0\4abc\0\x01\x12\0\3\0\0\0\1\0\0\0\0\0\0\0\0",
      "II*\0\x08\0\0\0\2\0\x31\x01\2\0\4\0\0\0abc\0\x12\x01\3\0\1\0\0\0\0\0\0\0\0\0\0\0"};
  unsigned char chunk[EXIF + LENGTH + 4] = {0, 0, 0, LENGTH, 'e', 'X', 'I', 'f'};
  memcpy(chunk + EXIF, exif[little], LENGTH);
  chunk[little ? EXIF + 30 : EXIF + 31] = (unsigned char)orientation;
  const uint32_t sum = ChecksumChunk(chunk + 4, LENGTH + 4);
  for (int i = 0; i < 4; i++) chunk[EXIF + LENGTH + i] = (unsigned char)(sum >> (24 - 8 * i));
  RengaCall(PutChunk(name, chunk, sizeof chunk));
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
  Expect(label == 0); /* a folder without images is no class */
  for (int i = 0; i < 6; i++) Expect(IsByte(image[i], 50 * i, 0));
  if (RengaCommGetRank(comm) == 0) RengaCall(SpoilGamma("cat/a.png"));
  RengaCall(Make(1, 0, 0, 0, numbers));
  RengaCall(ReadImages(RENGA_DATA_TRAINING, 1, 2, 3, 1, image, &label));
  for (int i = 0; i < 6; i++) Expect(IsByte(image[i], 50 * i, 0));
  return RENGA_SUCCESS;
}

/* What a file is follows from its content; four inks become three colours; folders without images
   are no classes. */
static RengaErrorCode CheckContents(void)
{
  const unsigned char inks[] = {255, 128, 51, 204}; /* light of cyan, magenta, yellow and black */
  const int mixed[] = {204, 102, 41};
  float image[2 * 18];
  int64_t labels[2], numbers[3];
  char path[2][256];
  FILE *file;
  if (RengaCommGetRank(comm) == 0) {
    RengaCall(PutJpegOf("cat/ink.png", 3, 2, 4, inks, NULL, 0));
    snprintf(path[0], sizeof path[0], "%s", At("cat/grey.JPEG"));
    Expect(rename(At("cat/a.png"), path[0]) == 0);
    Expect(mkdir(At("__MACOSX"), 0777) == 0 && mkdir(At("__MACOSX/cat"), 0777) == 0);
  }
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = Make(1, 0, 0, 0, numbers);
  const char *said = EndErrors(file, saved);
  RengaCall(code);
  if (RengaCommGetRank(comm) == 0)
    Expect(numbers[1] == 1 && strstr(said, "/__MACOSX is taken for no class") &&
           strstr(said, "/ant holds no images and is no class"));
  RengaCall(ReadImages(RENGA_DATA_TRAINING, 3, 2, 3, 2, image, labels));
  Expect(labels[0] == 0 && labels[1] == 0);
  for (int c = 0; c < 3; c++)
    for (int i = 0; i < 6; i++)
      Expect(IsByte(image[6 * c + i], 50 * i, 0) && IsByte(image[18 + 6 * c + i], mixed[c], 3));
  if (RengaCommGetRank(comm) == 0) {
    snprintf(path[1], sizeof path[1], "%s", At("cat/a.png"));
    Expect(rename(path[0], path[1]) == 0 && unlink(At("cat/ink.png")) == 0);
    Expect(rmdir(At("__MACOSX/cat")) == 0 && rmdir(At("__MACOSX")) == 0);
  }
  RengaCall(RengaCommBarrier(comm, "the files"));
  return RENGA_SUCCESS;
}

/* A note of Exif says how the camera was held: each of the eight ways, in both orders of bytes, in
   PNG files (3 wide, 2 high, 0 to 5 from the left above); one JPEG file, by its sizes. */
static RengaErrorCode CheckOrientations(void)
{
  static const unsigned char turned[9][6] = {
      {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3},
      {5, 4, 3, 2, 1, 0}, {3, 4, 5, 0, 1, 2}, {0, 3, 1, 4, 2, 5},
      {3, 0, 4, 1, 5, 2}, {5, 2, 4, 1, 3, 0}, {2, 5, 1, 4, 0, 3}};
  const unsigned char grey[] = {0, 50, 100, 150, 200, 250}, blue[] = {10, 20, 230};
  float image[3 * 15];
  int64_t label, numbers[3];
  for (int o = 1; o <= 9; o++) {
    const bool known = o <= 8, upright = o < 5 || !known;
    if (RengaCommGetRank(comm) == 0) {
      RengaCall(PutPng("cat/a.png", PNG_FORMAT_GRAY, 3, 2, grey));
      RengaCall(NoteOrientation("cat/a.png", o, o % 2));
    }
    RengaCall(Make(1, 0, 0, 0, numbers));
    RengaCall(
        ReadImages(RENGA_DATA_TRAINING, 1, upright ? 2 : 3, upright ? 3 : 2, 1, image, &label));
    for (int i = 0; i < 6; i++) Expect(IsByte(image[i], 50 * turned[known ? o : 0][i], 0));
    RengaCall(RengaCommBarrier(comm, "the look"));
  }
  if (RengaCommGetRank(comm) == 0)
    RengaCall(PutJpegOf("cat/a.png", 5, 3, 3, blue,
                        "Exif\0\0MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0", 28));
  RengaCall(Make(1, 0, 0, 0, numbers));
  RengaCall(ReadImages(RENGA_DATA_TRAINING, 3, 5, 3, 1, image, &label));
  RengaCall(RengaCommBarrier(comm, "the look"));
  if (RengaCommGetRank(comm) == 0) RengaCall(PutPng("cat/a.png", PNG_FORMAT_GRAY, 3, 2, grey));
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
  RengaCall(CheckContents());
  RengaCall(CheckOrientations());
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
