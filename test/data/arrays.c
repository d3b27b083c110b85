/* TEST ranks: 1 2 */
/* Files of arrays: types, shapes, names, parts, and what is wrong with them. */
#include "datatest.h"
#include <math.h>

enum { SAMPLES = 9 };
static const char *file_name; /* one for each number of ranks, since tests run side by side */

static hid_t Begin(RengaComm comm)
{
  if (RengaCommGetRank(comm) != 0) return -1;
  return H5Fcreate(file_name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

static RengaErrorCode End(RengaComm comm, hid_t file)
{
  if (file >= 0) H5Fclose(file);
  return RengaCommBarrier(comm, "the file");
}

/* One dataset of values written in a type of the file, read as a type of the network. */
static RengaErrorCode CheckConversion(RengaComm comm, hid_t type, int chunk, RengaDataType to,
                                      int64_t low, int64_t high)
{
  static const char *const names[] = {"x"};
  hsize_t dims[3] = {SAMPLES, 2, 3};
  int64_t values[SAMPLES * 6];
  double out[SAMPLES * 6];
  for (int i = 0; i < SAMPLES * 6; i++) values[i] = i % 7 == 0 ? low : i % 5 == 0 ? high : i;
  hid_t file = Begin(comm);
  if (file >= 0 && chunk == 0)
    PutArray(file, "x", type, H5T_NATIVE_INT64, 3, dims, values);
  else if (file >= 0) {
    hsize_t chunks[3] = {(hsize_t)chunk, 2, 3};
    hid_t create = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(3, dims, NULL);
    H5Pset_chunk(create, 3, chunks);
    H5Pset_deflate(create, 1);
    hid_t id = H5Dcreate2(file, "x", type, space, H5P_DEFAULT, create, H5P_DEFAULT);
    H5Dwrite(id, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(id);
    H5Sclose(space);
    H5Pclose(create);
  }
  RengaCall(End(comm, file));
  RengaData data;
  RengaTensorSpec spec = Spec(to, 2, 2, 3);
  RengaCall(OpenData(comm, file_name, 1, names, &spec, NULL, &data));
  RengaCall(RengaOptionsSetValue("data_shuffle", "false"));
  RengaCall(RengaDataSetFromOptions(data));
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 1, SAMPLES - 2, out));
  for (int i = 0; i < (SAMPLES - 2) * 6; i++) {
    double got = to == RENGA_FLOAT32   ? (double)((float *)out)[i]
                 : to == RENGA_FLOAT64 ? out[i]
                 : to == RENGA_INT64   ? (double)((int64_t *)out)[i]
                 : to == RENGA_INT32   ? (double)((int32_t *)out)[i]
                                       : (double)((uint8_t *)out)[i];
    double expected = (double)values[i + 6];
    if (to == RENGA_FLOAT32) expected = (double)(float)expected;
    Expect(got == expected);
  }
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to close the file");
}

static RengaErrorCode CheckConversions(RengaComm comm)
{
  RengaCall(CheckConversion(comm, H5T_STD_U8BE, 0, RENGA_FLOAT32, 0, 255));
  RengaCall(CheckConversion(comm, H5T_STD_U8LE, 4, RENGA_INT64, 0, 255));
  RengaCall(CheckConversion(comm, H5T_STD_I16BE, 0, RENGA_INT32, -32768, 32767));
  RengaCall(CheckConversion(comm, H5T_STD_U16LE, 0, RENGA_INT64, 0, 65535));
  RengaCall(CheckConversion(comm, H5T_STD_I32LE, 2, RENGA_INT32, INT32_MIN, INT32_MAX));
  RengaCall(CheckConversion(comm, H5T_STD_U32BE, 0, RENGA_FLOAT64, 0, UINT32_MAX));
  RengaCall(CheckConversion(comm, H5T_STD_I64LE, 0, RENGA_INT64, -1000000007, 1000000007));
  RengaCall(CheckConversion(comm, H5T_STD_U64LE, 0, RENGA_INT32, 0, INT32_MAX));
  RengaCall(CheckConversion(comm, H5T_STD_I64LE, 0, RENGA_FLOAT32, -16777217, 1 << 30));
  RengaCall(CheckConversion(comm, H5T_IEEE_F64LE, 0, RENGA_FLOAT32, -3, 100000));
  RengaCall(CheckConversion(comm, H5T_IEEE_F32BE, 3, RENGA_FLOAT64, -3, 100000));
  return RENGA_SUCCESS;
}

/* Half-precision floats, and the bool of h5py, an enumeration of int8. */
static RengaErrorCode CheckOddTypes(RengaComm comm)
{
  static const char *const names[] = {"half", "flag"};
  const RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 0, 0, 0), Spec(RENGA_BOOL, 0, 0, 0)};
  hid_t file = Begin(comm);
  if (file >= 0) {
    hsize_t dim = 3;
    float halves[3] = {0.5f, -65504, 0};
    int8_t flags[3] = {1, 0, 1}, no = 0, yes = 1;
    hid_t half = H5Tcopy(H5T_IEEE_F32LE), flag = H5Tenum_create(H5T_STD_I8LE);
    H5Tset_fields(half, 15, 10, 5, 0, 10);
    H5Tset_size(half, 2);
    H5Tset_ebias(half, 15);
    H5Tenum_insert(flag, "FALSE", &no);
    H5Tenum_insert(flag, "TRUE", &yes);
    PutArray(file, "half", half, H5T_NATIVE_FLOAT, 1, &dim, halves);
    PutArray(file, "flag", flag, flag, 1, &dim, flags);
    H5Tclose(half);
    H5Tclose(flag);
  }
  RengaCall(End(comm, file));
  RengaData data;
  float half[3];
  uint8_t flag[3];
  RengaCall(OpenData(comm, file_name, 2, names, specs, NULL, &data));
  RengaCall(RengaDataSetFromOptions(data)); /* not shuffled */
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 0, 3, half));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 0, 0, 3, flag));
  Expect(half[0] == 0.5f && half[1] == -65504 && half[2] == 0);
  Expect(flag[0] == 1 && flag[1] == 0 && flag[2] == 1);
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to close the file");
}

/* Datasets a, b, labels with 7 samples of training and 2 of validation. */
static RengaErrorCode MakeParts(RengaComm comm)
{
  hid_t file = Begin(comm);
  for (int part = 0; part < 2 && file >= 0; part++) {
    const char *group = part ? "/validation" : "/training";
    hsize_t dims[2] = {part ? 2 : 7, 2};
    float a[14], b[14];
    int labels[7];
    for (int i = 0; i < 14; i++) a[i] = (float)(i + 100 * part);
    for (int i = 0; i < 14; i++) b[i] = -a[i];
    for (int i = 0; i < 7; i++) labels[i] = i == 3 ? -100 : i + 10 * part;
    const struct {
      const char *name;
      hid_t type;
      int ndim;
      const void *values;
    } arrays[] = {{"a", H5T_NATIVE_FLOAT, 2, a},
                  {"b", H5T_NATIVE_FLOAT, 2, b},
                  {"labels", H5T_NATIVE_INT, 1, labels}};
    for (int i = 0; i < 3; i++) {
      char path[64];
      snprintf(path, sizeof path, "%s/%s", group, arrays[i].name);
      PutArray(file, path, arrays[i].type, arrays[i].type, arrays[i].ndim, dims, arrays[i].values);
    }
  }
  return End(comm, file);
}

/* labels by name, the two others in order, shapes up to dimensions of 1. */
static RengaErrorCode CheckParts(RengaComm comm)
{
  static const char *const names[] = {"labels", "input.1", "b"};
  static const int64_t classes[] = {12, 0, 0};
  const RengaTensorSpec specs[] = {Spec(RENGA_INT64, 1, 1, 0), Spec(RENGA_FLOAT32, 1, 2, 0),
                                   Spec(RENGA_FLOAT32, 2, 1, 2)};
  RengaData data;
  int64_t labels[7], count;
  float a[14], b[14];
  bool seen[7] = {false};
  RengaCall(MakeParts(comm));
  RengaCall(OpenData(comm, file_name, 3, names, specs, classes, &data));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &count));
  Expect(count == 7);
  RengaCall(RengaDataGetCount(data, RENGA_DATA_VALIDATION, &count));
  Expect(count == 2);
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 4, 0, 7, labels));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 4, 0, 7, a));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 2, 4, 0, 7, b));
  for (int i = 0; i < 7; i++) { /* the same order for all inputs */
    int64_t sample = labels[i] == -100 ? 3 : labels[i];
    Expect(a[2 * i] == (float)(2 * sample) && b[2 * i + 1] == -(float)(2 * sample + 1));
    seen[sample] = true;
  }
  for (int i = 0; i < 7; i++) Expect(seen[i]);
  RengaCall(RengaDataRead(data, RENGA_DATA_VALIDATION, 0, 0, 0, 2, labels));
  RengaCall(RengaDataRead(data, RENGA_DATA_VALIDATION, 1, 0, 1, 1, a));
  Expect(labels[0] == 10 && labels[1] == 11 && a[0] == 102);
  RengaCall(RengaDataGetVocabulary(data, &count));
  Expect(count == 0);
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckView(RengaComm comm)
{
  static const char *const names[] = {"a", "b", "labels"};
  const RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 1, 2, 0), Spec(RENGA_FLOAT32, 1, 2, 0),
                                   Spec(RENGA_INT64, 0, 0, 0)};
  char name[64], text[1024];
  RengaData data;
  RengaViewer viewer;
  RengaCall(OpenData(comm, file_name, 3, names, specs, NULL, &data));
  snprintf(name, sizeof name, "ascii:%s.txt", file_name);
  RengaCall(RengaViewerCreate(comm, name, &viewer));
  RengaCall(RengaDataView(data, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(RengaDataDestroy(&data));
  if (RengaCommGetRank(comm) > 0) return RENGA_SUCCESS;
  FILE *file = fopen(name + 6, "r");
  Expect(file != NULL);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  remove(name + 6);
  Expect(strstr(text, "7 samples for training, shuffled, 2 for validation") != NULL);
  Expect(strstr(text, "labels int64[] from") != NULL && strstr(text, "int32[7]") != NULL);
  return RENGA_SUCCESS;
}

/* All ranks fail; rank 0 says why. */
static RengaErrorCode CheckBadFile(RengaComm comm, const char *file, RengaErrorCode code, int n,
                                   const char *const names[], const RengaTensorSpec specs[],
                                   const int64_t classes[], const char *what, const char *more)
{
  RengaData data;
  bool says = RengaCommGetRank(comm) == 0;
  ExpectError(OpenData(comm, file, n, names, specs, classes, &data), code, says ? what : "",
              says ? more : "");
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBadFiles(RengaComm comm)
{
  static const char *const names[] = {"a", "labels"}, *const wrong[] = {"a", "x"};
  RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 1, 2, 0), Spec(RENGA_INT64, 0, 0, 0)};
  char bad[80];
  RengaCall(CheckBadFile(comm, "nowhere.h5", RENGA_ERR_FILE_OPEN, 2, names, specs, NULL,
                         "nowhere.h5", "No such file"));
  RengaCall(CheckBadFile(comm, file_name, RENGA_ERR_FILE_FORMAT, 2, wrong, specs, NULL,
                         "no dataset for input x", "a, b, labels"));
  specs[0] = Spec(RENGA_FLOAT32, 2, 2, 3);
  RengaCall(CheckBadFile(comm, file_name, RENGA_ERR_SHAPE, 2, names, specs, NULL,
                         "a of the network takes float32[2,3]", "has float32[2]"));
  specs[0] = Spec(RENGA_INT32, 1, 2, 0);
  RengaCall(CheckBadFile(comm, file_name, RENGA_ERR_SHAPE, 2, names, specs, NULL,
                         "float32[2], which is not converted to int32", "a of the network"));
  snprintf(bad, sizeof bad, "%s.bad", file_name);
  if (RengaCommGetRank(comm) == 0) { /* no HDF5 at all; then the first half of one */
    FILE *file = fopen(bad, "w");
    fprintf(file, "sample,label\n1,2\n");
    fclose(file);
  }
  RengaCall(RengaCommBarrier(comm, "the file"));
  RengaCall(CheckBadFile(comm, bad, RENGA_ERR_FILE_FORMAT, 2, names, specs, NULL, bad,
                         "is not an HDF5 file"));
  if (RengaCommGetRank(comm) == 0) {
    char bytes[4096];
    FILE *from = fopen(file_name, "r"), *to = fopen(bad, "w");
    fwrite(bytes, 1, fread(bytes, 1, sizeof bytes / 2, from), to);
    fclose(from);
    fclose(to);
  }
  RengaCall(RengaCommBarrier(comm, "the file"));
  RengaCall(
      CheckBadFile(comm, bad, RENGA_ERR_FILE_FORMAT, 2, names, specs, NULL, bad, "truncated"));
  if (RengaCommGetRank(comm) == 0) remove(bad);
  return RENGA_SUCCESS;
}

/* Values that do not fit are found when they are read: sample, input and value are named. */
static RengaErrorCode CheckBadValues(RengaComm comm)
{
  static const char *const names[] = {"a", "labels"};
  static const int64_t classes[] = {0, 6};
  RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 1, 2, 0), Spec(RENGA_INT64, 0, 0, 0)};
  RengaData data;
  int64_t labels[7];
  RengaCall(OpenData(comm, file_name, 2, names, specs, classes, &data));
  ExpectError(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 0, 0, 7, labels), RENGA_ERR_FILE_FORMAT,
              "sample 6 of", "labels: 6 is none of the 6 classes");
  RengaCall(RengaDataSetIgnored(data, 6));
  ExpectError(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 0, 0, 7, labels), RENGA_ERR_FILE_FORMAT,
              "sample 3 of", "labels: -100 is none of the 6 classes");
  ExpectError(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 0, 5, 3, labels), RENGA_ERR_ARGUMENT,
              "5 to 7 of 7");
  ExpectError(RengaDataRead(data, RENGA_DATA_TRAINING, 2, 0, 0, 1, labels), RENGA_ERR_ARGUMENT,
              "input 2");
  RengaCall(RengaDataDestroy(&data));
  specs[1] = Spec(RENGA_UINT8, 0, 0, 0);
  RengaCall(OpenData(comm, file_name, 2, names, specs, NULL, &data));
  ExpectError(RengaDataRead(data, RENGA_DATA_TRAINING, 1, 0, 0, 7, labels), RENGA_ERR_FILE_FORMAT,
              "sample 3 of", "labels: -100 does not fit into uint8");
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBadSets(RengaComm comm)
{
  static const char *const names[] = {"a", "b"};
  const RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 0, 0, 0), Spec(RENGA_FLOAT32, 0, 0, 0)};
  hsize_t lengths[][2] = {{0, 0}, {3, 4}};
  float values[4] = {0};
  for (int i = 0; i < 2; i++) {
    RengaCall(RengaCommBarrier(comm, "all to close the file"));
    hid_t file = Begin(comm);
    for (int j = 0; j < 2 && file >= 0; j++)
      PutArray(file, names[j], H5T_NATIVE_FLOAT, H5T_NATIVE_FLOAT, 1, &lengths[i][j], values);
    RengaCall(End(comm, file));
    RengaCall(CheckBadFile(comm, file_name, i ? RENGA_ERR_SHAPE : RENGA_ERR_FILE_FORMAT, 2, names,
                           specs, NULL, i ? "/b holds 4 samples" : "has no samples", file_name));
  }
  return RENGA_SUCCESS;
}

/* An array of NumPy, as numpy.save writes it. */
static RengaErrorCode WriteArray(const char *name, const char *head, size_t bytes,
                                 const void *values)
{
  FILE *file = fopen(name, "wb");
  Expect(file != NULL);
  fprintf(file, "\x93NUMPY\x01%c%c%c%-69s\n", 0, 70, 0, head);
  Expect(fwrite(values, 1, bytes, file) == bytes && fclose(file) == 0);
  return RENGA_SUCCESS;
}

/* [3, 2] of float32, by rows and by columns; [2, 2, 2] of float16, big-endian, by columns: 0 to 7,
   but for a subnormal number and an infinite one. */
static RengaErrorCode CheckOrders(RengaComm comm)
{
  static const char *const names[] = {"arrays-of-numpy"}, *const files[] = {"arrays-of-numpy.npy"};
  const float columns[] = {0, 2, 4, 1, 3, 5};
  const unsigned char halves[] = {0,    1, 0x44, 0,    0x40, 0, 0x46, 0,
                                  0x3c, 0, 0x45, 0x00, 0x42, 0, 0x7c, 0};
  const float wanted[2][8] = {{0, 1, 2, 3, 4, 5}, {0x1p-24f, 1, 2, 3, 4, 5, 6, HUGE_VALF}};
  for (int i = 0; i < 2; i++) {
    const RengaTensorSpec spec = Spec(RENGA_FLOAT32, 1 + i, 2, 2);
    const int samples = 3 - i, count = i ? 8 : 6;
    RengaData data;
    float read[8];
    if (RengaCommGetRank(comm) == 0)
      RengaCall(WriteArray(files[0],
                           i ? "{'descr': '>f2', 'fortran_order': True, 'shape': (2, 2, 2), }"
                             : "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }",
                           i ? sizeof halves : sizeof columns, i ? (const void *)halves : columns));
    RengaCall(RengaCommBarrier(comm, "the array"));
    RengaCall(RengaDataWriteNpy(comm, 1, files, file_name));
    RengaCall(OpenData(comm, file_name, 1, names, &spec, NULL, &data));
    RengaCall(RengaDataSetShuffle(data, false));
    RengaCall(RengaDataSetUp(data));
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 0, samples, read));
    for (int v = 0; v < count; v++) Expect(read[v] == wanted[i][v]);
    RengaCall(RengaDataDestroy(&data));
    RengaCall(RengaCommBarrier(comm, "all to close the file"));
  }
  if (RengaCommGetRank(comm) == 0) remove(files[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNumPy(RengaComm comm)
{
  static const char *const names[] = {"arrays-of-numpy"}, *const files[] = {"arrays-of-numpy.npy"};
  const float values[] = {1, -2, 0.5f, 4, 1e-30f, 6};
  const RengaTensorSpec spec = Spec(RENGA_FLOAT32, 1, 2, 0);
  RengaData data;
  float read[4];
  if (RengaCommGetRank(comm) == 0)
    RengaCall(WriteArray(files[0], "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
                         sizeof values, values));
  RengaCall(RengaDataWriteNpy(comm, 1, files, file_name));
  RengaCall(OpenData(comm, file_name, 1, names, &spec, NULL, &data));
  RengaCall(RengaOptionsSetValue("data_shuffle", "false"));
  RengaCall(RengaDataSetFromOptions(data));
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 1, 2, read));
  for (int i = 0; i < 4; i++) Expect(read[i] == values[i + 2]);
  RengaCall(RengaDataDestroy(&data));
  RengaCall(RengaCommBarrier(comm, "all to close the file"));
  if (RengaCommGetRank(comm) == 0) remove(files[0]);
  ExpectError(RengaDataWriteNpy(comm, 0, files, file_name), RENGA_ERR_ARGUMENT,
              RengaCommGetRank(comm) ? "" : "a data set of 0 arrays");
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  char name[64];
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  snprintf(name, sizeof name, "arrays-%d.tmp.h5", RengaCommGetSize(comm));
  file_name = name;
  RengaCall(CheckConversions(comm));
  RengaCall(CheckOddTypes(comm));
  RengaCall(CheckParts(comm));
  RengaCall(CheckView(comm));
  RengaCall(CheckBadFiles(comm));
  RengaCall(CheckBadValues(comm));
  RengaCall(CheckBadSets(comm));
  RengaCall(CheckNumPy(comm));
  RengaCall(CheckOrders(comm));
  RengaCall(RengaCommBarrier(comm, "all to close the file"));
  if (RengaCommGetRank(comm) == 0) remove(name);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
