/* TEST ranks: 1 2 */
/* Data sets that change while they are in use; and what leads out of their folder. */
#include "datatest.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { COUNT = 6, LONG_AGO = 1000000000 };
static const char *const x_name[] = {"x"};
static char folder[64], inside[128], outside[128], main_file[128];

static RengaErrorCode OpenOrigin(RengaComm comm, RengaData *data)
{
  const RengaTensorSpec x = Spec(RENGA_INT32, 0, 0, 0);
  RengaCall(RengaCommBarrier(comm, "the files"));
  RengaCall(RengaOptionsSetValue("data_shuffle", "false"));
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFromOptions(*data));
  RengaCall(RengaDataSetFile(*data, main_file));
  RengaCall(RengaDataSetFields(*data, 1, x_name, &x, NULL));
  return RengaDataSetUp(*data);
}

/* Long ago, so that a change in the same instant is another time. */
static void Age(const char *name)
{
  const struct timespec times[2] = {{LONG_AGO, 0}, {LONG_AGO, 0}};
  utimensat(AT_FDCWD, name, times, 0);
}

static void WriteNumbers(const char *name)
{
  int32_t values[COUNT];
  const hsize_t dims[] = {COUNT};
  for (int i = 0; i < COUNT; i++) values[i] = i + 1;
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  PutArray(file, "/x", H5T_STD_I32LE, H5T_NATIVE_INT32, 1, dims, values);
  H5Fclose(file);
  Age(name);
}

/* What made says, of COUNT numbers. */
static void WriteMade(hid_t made)
{
  const hsize_t dims[] = {COUNT};
  hid_t space = H5Screate_simple(1, dims, NULL);
  hid_t file = H5Fcreate(main_file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t id = H5Dcreate2(file, "/x", H5T_STD_I32LE, space, H5P_DEFAULT, made, H5P_DEFAULT);
  H5Dclose(id);
  H5Fclose(file);
  H5Sclose(space);
  H5Pclose(made);
}

/* Numbers as they are, nothing else. */
static void WriteStored(const char *other)
{
  hid_t made = H5Pcreate(H5P_DATASET_CREATE);
  FILE *raw = fopen(other, "wb");
  for (int32_t i = 1; i <= COUNT; i++) fwrite(&i, sizeof i, 1, raw);
  fclose(raw);
  Age(other);
  H5Pset_external(made, other, 0, COUNT * sizeof(int32_t));
  WriteMade(made);
}

/* As seen from the folder of main_file. */
static const char *Seen(const char *other)
{
  return other == inside ? "inside.tmp" : "../origin-outside.tmp";
}

static void WriteLinked(const char *other)
{
  WriteNumbers(other);
  hid_t file = H5Fcreate(main_file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external(Seen(other), "/x", file, "x", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
}

static void WriteVirtual(const char *other)
{
  const hsize_t dims[] = {COUNT};
  hid_t made = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, dims, NULL);
  WriteNumbers(other);
  H5Pset_virtual(made, space, Seen(other), "/x", space);
  H5Sclose(space);
  WriteMade(made);
}

static void WriteOwn(const char *other)
{
  (void)other;
  WriteNumbers(main_file);
}

static void Truncate(const char *name)
{
  struct stat status;
  if (stat(name, &status) != 0 || truncate(name, status.st_size / 2) != 0) perror(name);
}

static void Replace(const char *name)
{
  char other[160];
  snprintf(other, sizeof other, "%s.other", name);
  rename(name, other);
  FILE *in = fopen(other, "rb"), *out = fopen(name, "wb");
  for (int c = getc(in); c != EOF; c = getc(in)) putc(c, out);
  fclose(in);
  fclose(out);
  remove(other);
  Age(name);
}

static void Touch(const char *name)
{
  utimensat(AT_FDCWD, name, NULL, 0);
}

static void Delete(const char *name)
{
  remove(name);
}

static RengaErrorCode ReadAll(RengaData data)
{
  int32_t values[COUNT];
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 0, COUNT, values));
  for (int i = 0; i < COUNT; i++) Expect(values[i] == i + 1);
  return RENGA_SUCCESS;
}

/* Read well, changed, read again on every rank. */
static RengaErrorCode CheckChange(RengaComm comm, void (*write)(const char *), const char *source,
                                  void (*change)(const char *), const char *how)
{
  RengaData data;
  int32_t values[2];
  const bool first = RengaCommGetRank(comm) == 0;
  if (first) write(source);
  RengaCall(OpenOrigin(comm, &data));
  RengaCall(ReadAll(data));
  RengaCall(RengaCommBarrier(comm, "all to have read"));
  if (first) change(source);
  RengaCall(RengaCommBarrier(comm, "the change"));
  ExpectError(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 4, 2, values), RENGA_ERR_FILE_FORMAT,
              source, "changed while it was in use", how, "at sample 4 of", main_file);
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to have failed");
}

static RengaErrorCode CheckChanges(RengaComm comm)
{
  static void (*const writes[])(const char *) = {WriteOwn, WriteStored, WriteLinked, WriteVirtual};
  for (int i = 0; i < COUNT_OF(writes); i++) {
    const char *source = i == 0 ? main_file : inside;
    RengaCall(CheckChange(comm, writes[i], source, Truncate, "the same file"));
    RengaCall(CheckChange(comm, writes[i], source, Replace, "another file"));
    RengaCall(CheckChange(comm, writes[i], source, Touch, "the same file"));
    RengaCall(CheckChange(comm, writes[i], source, Delete, "No such file"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RefuseOrigin(RengaComm comm, RengaErrorCode code, const char *what,
                                   const char *why)
{
  RengaData data;
  const bool first = RengaCommGetRank(comm) == 0;
  ExpectError(OpenOrigin(comm, &data), code, first ? main_file : "", first ? what : "",
              first ? why : "");
  RengaCall(RengaDataDestroy(&data));
  return RengaCommBarrier(comm, "all to have failed");
}

static RengaErrorCode CheckOutside(RengaComm comm, void (*write)(const char *), const char *what)
{
  RengaData data;
  if (RengaCommGetRank(comm) == 0) write(outside);
  RengaCall(RefuseOrigin(comm, RENGA_ERR_FILE_FORMAT, what, "-allow_external"));
  RengaCall(RengaOptionsSetValue("allow_external", "true"));
  RengaCall(OpenOrigin(comm, &data));
  RengaCall(ReadAll(data));
  RengaCall(RengaDataDestroy(&data));
  RengaCall(RengaOptionsSetValue("allow_external", "false"));
  return RengaCommBarrier(comm, "all to have read");
}

/* HDF5 would read zeros. */
static RengaErrorCode CheckMissing(RengaComm comm)
{
  const bool first = RengaCommGetRank(comm) == 0;
  if (first) WriteStored(inside);
  if (first) Truncate(inside);
  RengaCall(RefuseOrigin(comm, RENGA_ERR_FILE_FORMAT, inside, "has 12 bytes"));
  if (first) WriteVirtual(inside);
  if (first) remove(inside);
  RengaCall(RefuseOrigin(comm, RENGA_ERR_FILE_OPEN, "a part of a virtual dataset", "No such file"));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const bool first = RengaCommGetRank(comm) == 0;
  char top[48];
  snprintf(top, sizeof top, "origin-%d.tmp", RengaCommGetSize(comm));
  snprintf(folder, sizeof folder, "%s/set", top);
  snprintf(main_file, sizeof main_file, "%s/main.h5", folder);
  snprintf(inside, sizeof inside, "%s/inside.tmp", folder);
  snprintf(outside, sizeof outside, "%s/origin-outside.tmp", top);
  if (first) Expect((mkdir(top, 0777) == 0 || errno == EEXIST));
  if (first) Expect((mkdir(folder, 0777) == 0 || errno == EEXIST));
  RengaCall(CheckChanges(comm));
  RengaCall(CheckOutside(comm, WriteStored, "external storage"));
  RengaCall(CheckOutside(comm, WriteLinked, "a link"));
  RengaCall(CheckOutside(comm, WriteVirtual, "a part of a virtual dataset"));
  RengaCall(CheckMissing(comm));
  if (first) Expect(remove(main_file) == 0 && remove(outside) == 0);
  if (first) Expect(rmdir(folder) == 0 && rmdir(top) == 0);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
