/* TEST ranks: 1 */
/* A file that is made in parts: rows in any order, attributes, types; a whole file or none. */
#include "datatest.h"
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char name[] = "writer.tmp.h5";

static bool IsThere(void)
{
  return access(name, F_OK) == 0;
}

/* [5, 2] in two parts, the last first; row 2 never comes. */
static RengaErrorCode WriteParts(RengaDataWriter writer)
{
  const RengaTensorSpec table = Spec(RENGA_FLOAT32, 2, 5, 2), flags = Spec(RENGA_BOOL, 1, 3, 0);
  const float values[] = {0, 1, 2, 3, 6, 7, 8, 9};
  const unsigned char bits[] = {1, 0, 1};
  int dataset[2];
  RengaCall(RengaDataWriterAdd(writer, "/training/x", &table, &dataset[0]));
  RengaCall(RengaDataWriterAdd(writer, "/flags", &flags, &dataset[1]));
  RengaCall(RengaDataWriterWrite(writer, dataset[0], 3, 2, values + 4));
  RengaCall(RengaDataWriterWrite(writer, dataset[0], 0, 2, values));
  RengaCall(RengaDataWriterWrite(writer, dataset[1], 0, 3, bits));
  RengaCall(RengaDataWriterPutInt(writer, -1, "count", 7));
  RengaCall(RengaDataWriterPutReal(writer, dataset[0], "scale", 0.5));
  RengaCall(RengaDataWriterPutText(writer, dataset[0], "unit", "m/s"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadAttribute(hid_t owner, const char *attribute, hid_t type, void *value)
{
  hid_t id = H5Aopen(owner, attribute, H5P_DEFAULT);
  Expect(id >= 0 && H5Aread(id, type, value) >= 0);
  H5Aclose(id);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWhole(void)
{
  float values[10];
  unsigned char bits[3];
  int64_t count;
  double scale;
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t x = H5Dopen2(file, "/training/x", H5P_DEFAULT), flags = H5Dopen2(file, "/flags", 0);
  Expect(H5Dread(x, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  for (int i = 0; i < 10; i++) Expect(values[i] == (i / 2 == 2 ? 0 : i));
  Expect(H5Dread(flags, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bits) >= 0);
  Expect(bits[0] == 1 && bits[1] == 0 && bits[2] == 1);
  RengaCall(ReadAttribute(file, "count", H5T_NATIVE_INT64, &count));
  RengaCall(ReadAttribute(x, "scale", H5T_NATIVE_DOUBLE, &scale));
  Expect(count == 7 && scale == 0.5 && H5Aexists(x, "unit") > 0);
  H5Dclose(x);
  H5Dclose(flags);
  H5Fclose(file);
  return RENGA_SUCCESS;
}

/* Nothing is left where one descriptor is there, but not the two that it takes. */
static RengaErrorCode CheckFailedCreate(void)
{
  RengaDataWriter writer = NULL;
  struct rlimit limit, small;
  char temporary[64];
  const int next = dup(0);
  snprintf(temporary, sizeof temporary, "%s.%ld.tmp", name, (long)getpid());
  Expect(next >= 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
  small = limit;
  small.rlim_cur = (rlim_t)next + 1;
  Expect(setrlimit(RLIMIT_NOFILE, &small) == 0);
  const RengaErrorCode code = RengaDataWriterCreate(name, &writer);
  Expect(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  Expect(code == RENGA_ERR_FILE_WRITE && !writer && access(temporary, F_OK) != 0);
  Expect(RengaDataWriterCreate("no-such-folder/a.h5", &writer) == RENGA_ERR_FILE_WRITE && !writer);
  Expect(RengaDataWriterCreate(NULL, &writer) == RENGA_ERR_ARGUMENT && !writer);
  Expect(RengaDataWriterCreate(name, NULL) == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterClose(NULL, RENGA_SUCCESS) == RENGA_ERR_ARGUMENT);
  return RENGA_SUCCESS;
}

/* Datasets 0, int8 [3], and 1, [0]. */
static RengaErrorCode CheckBadArguments(RengaDataWriter writer)
{
  RengaTensorSpec spec = Spec(RENGA_INT8, 1, 3, 0);
  const RengaTensorSpec none = Spec(RENGA_INT8, 1, 0, 0);
  int dataset;
  RengaCall(RengaDataWriterAdd(writer, "/none", &none, &dataset));
  Expect(dataset == 1);
  RengaCall(RengaDataWriterWrite(writer, 1, 0, 0, NULL));
  ExpectError(RengaDataWriterWrite(writer, 1, 0, 1, "a"), RENGA_ERR_ARGUMENT,
              "1 rows from row 0 on are not all in dataset 1 of 0 rows");
  Expect(RengaDataWriterWrite(writer, 0, 0, 1, NULL) == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterWrite(writer, 0, INT64_MAX, 2, "ab") == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterWrite(writer, 0, 1, INT64_MAX, "ab") == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterWrite(writer, 0, -1, 1, "a") == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterWrite(writer, 0, 1, -1, "a") == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterPutInt(NULL, -1, "a", 1) == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterPutInt(writer, -1, NULL, 1) == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterPutText(writer, -1, "a", NULL) == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterPutReal(writer, -2, "a", 1) == RENGA_ERR_ARGUMENT);
  ExpectError(RengaDataWriterPutReal(writer, 2, "a", 1), RENGA_ERR_ARGUMENT,
              "has 2 datasets, number 2, for attribute a, is not one of them");
  spec.dim[0] = -3;
  ExpectError(RengaDataWriterAdd(writer, "/bad", &spec, &dataset), RENGA_ERR_ARGUMENT,
              "dimension 0 of dataset /bad cannot be -3");
  spec = Spec(RENGA_FLOAT32, 2, INT64_MAX / 2, 2);
  Expect(RengaDataWriterAdd(writer, "/bad", &spec, &dataset) == RENGA_ERR_ARGUMENT);
  spec.ndim = RENGA_MAX_DIM + 1;
  ExpectError(RengaDataWriterAdd(writer, "/bad", &spec, &dataset), RENGA_ERR_SUPPORT,
              "dataset /bad, float32 with 9 dimensions, cannot be written");
  spec = Spec((RengaDataType)RENGA_TYPE_COUNT, 1, 3, 0);
  ExpectError(RengaDataWriterAdd(writer, "/bad", &spec, &dataset), RENGA_ERR_SUPPORT,
              "dataset /bad, no type with 1 dimensions, cannot be written");
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  const RengaTensorSpec half = Spec(RENGA_FLOAT16, 1, 3, 0), good = Spec(RENGA_INT8, 1, 3, 0);
  RengaDataWriter writer = NULL;
  int dataset;
  remove(name);
  RengaCall(RengaDataWriterCreate(name, &writer));
  RengaCall(WriteParts(writer));
  Expect(!IsThere());
  RengaCall(RengaDataWriterClose(&writer, RENGA_SUCCESS));
  Expect(!writer);
  RengaCall(CheckWhole());
  RengaCall(RengaDataWriterCreate(name, &writer));
  Expect(RengaDataWriterAdd(writer, "/half", &half, &dataset) == RENGA_ERR_SUPPORT);
  RengaCall(RengaDataWriterAdd(writer, "/good", &good, &dataset));
  Expect(RengaDataWriterAdd(writer, "/good", &good, &dataset) == RENGA_ERR_FILE_WRITE);
  Expect(RengaDataWriterWrite(writer, 0, 2, 2, "ab") == RENGA_ERR_ARGUMENT);
  Expect(RengaDataWriterWrite(writer, 1, 0, 1, "a") == RENGA_ERR_ARGUMENT);
  RengaCall(CheckBadArguments(writer));
  Expect(RengaDataWriterClose(&writer, RENGA_ERR_NUMERIC) == RENGA_ERR_NUMERIC);
  RengaCall(CheckWhole()); /* the file from before */
  remove(name);
  RengaCall(CheckFailedCreate());
  Expect(RengaDataWriterClose(&writer, RENGA_ERR_FILE_WRITE) == RENGA_ERR_FILE_WRITE);
  Expect(RengaDataWriterClose(&writer, RENGA_SUCCESS) == RENGA_SUCCESS);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
