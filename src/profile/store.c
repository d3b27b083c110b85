/* Measured seconds in an HDF5 file: a group for each device, named by the digest of its
   description, with attribute "device" and the datasets "calls" (text) and "seconds". It is
   replaced as a whole, with what others wrote meanwhile kept. */
#include "profileimpl.h"
#include "renga/private/open.h"
#include <errno.h>
#include <hdf5.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, NAME_SIZE = 4096 };
static const char version_name[] = "renga_profile";

static int CompareStoredRows(const void *a, const void *b)
{
  return strcmp(((const ProfileRow *)a)->name, ((const ProfileRow *)b)->name);
}

static ProfileRow *FindStoredRow(const ProfileRows *rows, const char *name)
{
  const ProfileRow wanted = {.name = (char *)name};
  if (rows->count == 0) return NULL;
  return bsearch(&wanted, rows->row, (size_t)rows->count, sizeof wanted, CompareStoredRows);
}

bool RengaProfileRowsFind_Private(const ProfileRows *rows, const char *name, double *seconds)
{
  const ProfileRow *row = FindStoredRow(rows, name);
  if (row) *seconds = row->seconds;
  return row != NULL;
}

/* A name that is there gets the new number. */
RengaErrorCode RengaProfileRowsAdd_Private(ProfileRows *rows, const char *name, double seconds)
{
  ProfileRow *row = FindStoredRow(rows, name), made = {NULL, seconds};
  int at = rows->count;
  if (row) {
    row->seconds = seconds;
    return RENGA_SUCCESS;
  }
  if ((rows->count & (rows->count - 1)) == 0) /* room for twice as many */
    RengaCall(RengaRealloc(rows->count ? 2 * rows->count : 1, &rows->row));
  RengaCall(RengaStringCopy(name, &made.name));
  for (; at > 0 && strcmp(rows->row[at - 1].name, name) > 0; at--)
    rows->row[at] = rows->row[at - 1];
  rows->row[at] = made;
  rows->count++;
  return RENGA_SUCCESS;
}

void RengaProfileRowsFree_Private(ProfileRows *rows)
{
  for (int r = 0; r < rows->count; r++) RengaFree(&rows->row[r].name);
  RengaFree(&rows->row);
  rows->count = 0;
}

/* What is in a file: the rows of all devices. */
typedef struct {
  char *device;
  ProfileRows rows;
} Section;
typedef struct {
  int count;
  Section *section;
} Contents;

static void FreeContents(Contents *contents)
{
  for (int s = 0; s < contents->count; s++) {
    RengaFree(&contents->section[s].device);
    RengaProfileRowsFree_Private(&contents->section[s].rows);
  }
  RengaFree(&contents->section);
  contents->count = 0;
}

static RengaErrorCode GetSection(Contents *contents, const char *device, ProfileRows **rows)
{
  for (int s = 0; s < contents->count; s++)
    if (strcmp(contents->section[s].device, device) == 0) {
      *rows = &contents->section[s].rows;
      return RENGA_SUCCESS;
    }
  RengaCall(RengaRealloc(contents->count + 1, &contents->section));
  RengaCall(RengaStringCopy(device, &contents->section[contents->count].device));
  *rows = &contents->section[contents->count++].rows;
  return RENGA_SUCCESS;
}

static hid_t TextType(void)
{
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  return type;
}

static int64_t RowsOf(hid_t dataset)
{
  hid_t space = dataset < 0 ? -1 : H5Dget_space(dataset);
  const hssize_t count = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
  if (space >= 0) H5Sclose(space);
  return count;
}

/* Allocates as HDF5 does: each name is freed by H5free_memory. */
static bool ReadColumns(hid_t group, int64_t *count, char ***names, double **seconds)
{
  hid_t calls = H5Dopen2(group, "calls", H5P_DEFAULT);
  hid_t numbers = H5Dopen2(group, "seconds", H5P_DEFAULT), type = TextType();
  *count = RowsOf(calls);
  bool good = *count >= 0 && *count < 100000000 && RowsOf(numbers) == *count;
  good = good && RengaMalloc(*count + 1, names) == RENGA_SUCCESS;
  good = good && RengaMalloc(*count + 1, seconds) == RENGA_SUCCESS;
  good = good && H5Dread(calls, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, *names) >= 0;
  good = good && H5Dread(numbers, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, *seconds) >= 0;
  H5Tclose(type);
  if (calls >= 0) H5Dclose(calls);
  if (numbers >= 0) H5Dclose(numbers);
  return good;
}

static bool ReadGroup(hid_t file, const char *name, Contents *contents)
{
  char *device = NULL, **names = NULL;
  double *seconds = NULL;
  int64_t count = 0;
  ProfileRows *rows = NULL;
  hid_t group = H5Gopen2(file, name, H5P_DEFAULT), type = TextType();
  hid_t attribute = group < 0 ? -1 : H5Aopen(group, "device", H5P_DEFAULT);
  bool good = attribute >= 0 && H5Aread(attribute, type, &device) >= 0 && device;
  good = good && ReadColumns(group, &count, &names, &seconds);
  good = good && GetSection(contents, device, &rows) == RENGA_SUCCESS;
  for (int64_t i = 0; good && i < count; i++)
    good = names[i] && seconds[i] >= 0 && seconds[i] < 1e6 &&
           RengaProfileRowsAdd_Private(rows, names[i], seconds[i]) == RENGA_SUCCESS;
  for (int64_t i = 0; names && i < count; i++)
    if (names[i]) H5free_memory(names[i]);
  if (device) H5free_memory(device);
  RengaFree(&names);
  RengaFree(&seconds);
  if (attribute >= 0) H5Aclose(attribute);
  if (group >= 0) H5Gclose(group);
  H5Tclose(type);
  return good;
}

static bool ReadGroups(hid_t file, Contents *contents)
{
  H5G_info_t info;
  bool good = H5Gget_info(file, &info) >= 0;
  for (hsize_t g = 0; good && g < info.nlinks; g++) {
    char name[64];
    good = H5Lget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, g, name, sizeof name,
                              H5P_DEFAULT) > 0 &&
           ReadGroup(file, name, contents);
  }
  return good;
}

static bool HasVersion(hid_t file)
{
  int version = -1;
  hid_t attribute = H5Aopen(file, version_name, H5P_DEFAULT);
  if (attribute < 0) return false;
  const bool good = H5Aread(attribute, H5T_NATIVE_INT, &version) >= 0 && version == VERSION;
  H5Aclose(attribute);
  return good;
}

static hid_t OpenStore(const char *name)
{
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access, false, true); /* files are replaced, never changed */
#endif
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, access);
  H5Pclose(access);
  return file;
}

/* NULL, or what is wrong. A file that is not there is empty. */
static const char *ReadContents(const char *name, Contents *contents)
{
  const char *wrong = NULL;
  if (access(name, F_OK) != 0) return NULL;
  if (RengaFileCheck_Private(name)) return RengaFileReason_Private(RengaFileCheck_Private(name));
  H5E_BEGIN_TRY
  {
    hid_t file = OpenStore(name);
    if (file < 0)
      wrong = "it is no HDF5 file, or damaged";
    else if (!HasVersion(file))
      wrong = "it is no profile of this version of Renga";
    else if (!ReadGroups(file, contents))
      wrong = "it is damaged";
    if (file >= 0) H5Fclose(file);
  }
  H5E_END_TRY
  if (wrong) FreeContents(contents);
  return wrong;
}

static RengaErrorCode ReadHere(const char *name, const char *device, bool required,
                               ProfileRows *rows)
{
  Contents contents = {0};
  ProfileRows *found;
  const char *wrong = ReadContents(name, &contents);
  RengaCheck(!wrong || !required, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "-profile_file %s: %s; name another file, or remove this one", name, wrong);
  if (wrong)
    RengaWarning(MPI_COMM_SELF, "measured costs in %s are not used: %s; they are measured again",
                 name, wrong);
  RengaErrorCode code = GetSection(&contents, device, &found);
  if (code == RENGA_SUCCESS) {
    *rows = *found;
    *found = (ProfileRows){0};
  }
  FreeContents(&contents);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The rows of rank 0, as one text and numbers. */
static RengaErrorCode ShareRows(RengaComm comm, MPI_Comm mpi, ProfileRows *rows)
{
  const char *what = "measured costs of rank 0";
  const bool first = RengaCommGetRank(comm) == 0;
  int64_t head[2] = {rows->count, 0};
  char *text = NULL;
  double *seconds = NULL;
  for (int r = 0; first && r < rows->count; r++) head[1] += (int64_t)strlen(rows->row[r].name) + 1;
  RengaCall(RengaCommBroadcast(comm, head, sizeof head, 0, what));
  RengaErrorCode code = RengaMalloc(head[1] + 1, &text);
  if (!code) code = RengaMalloc(head[0] + 1, &seconds);
  code = RengaErrorAgree(mpi, code);
  char *at = text;
  for (int r = 0; first && r < rows->count && !code; r++) {
    at = stpcpy(at, rows->row[r].name) + 1;
    seconds[r] = rows->row[r].seconds;
  }
  if (!code) code = RengaCommBroadcast(comm, text, (size_t)head[1] + 1, 0, what);
  if (code == RENGA_SUCCESS)
    code = RengaCommBroadcast(comm, seconds, (size_t)(head[0] + 1) * sizeof *seconds, 0, what);
  at = text;
  for (int64_t r = 0; !first && r < head[0] && code == RENGA_SUCCESS; r++) {
    code = RengaProfileRowsAdd_Private(rows, at, seconds[r]);
    at += strlen(at) + 1;
  }
  RengaFree(&text);
  RengaFree(&seconds);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileStoreRead_Private(RengaComm comm, const char *file, const char *device,
                                             bool required, ProfileRows *rows)
{
  MPI_Comm mpi;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  if (RengaCommGetRank(comm) == 0 && file[0]) code = ReadHere(file, device, required, rows);
  RengaCall(RengaErrorAgree(mpi, code));
  RengaCall(ShareRows(comm, mpi, rows));
  return RENGA_SUCCESS;
}

static bool WriteColumn(hid_t group, const char *name, hid_t type, hid_t space, const void *values)
{
  hid_t dataset = H5Dcreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const bool good =
      dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
  if (dataset >= 0) H5Dclose(dataset);
  return good;
}

static bool WriteAttribute(hid_t owner, const char *name, hid_t type, const void *value)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t attribute = H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  const bool good = attribute >= 0 && H5Awrite(attribute, type, value) >= 0;
  if (attribute >= 0) H5Aclose(attribute);
  H5Sclose(space);
  return good;
}

static bool WriteSection(hid_t file, const Section *section)
{
  char name[32];
  const char **names = NULL;
  double *seconds = NULL;
  const hsize_t count = (hsize_t)section->rows.count;
  snprintf(name, sizeof name, "%016llx",
           (unsigned long long)RengaHash(section->device, strlen(section->device), 0));
  bool good = RengaMalloc(count + 1, &names) == RENGA_SUCCESS &&
              RengaMalloc(count + 1, &seconds) == RENGA_SUCCESS;
  for (hsize_t r = 0; good && r < count; r++) {
    names[r] = section->rows.row[r].name;
    seconds[r] = section->rows.row[r].seconds;
  }
  hid_t type = TextType(), space = H5Screate_simple(1, &count, NULL);
  hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  good = good && group >= 0 && WriteAttribute(group, "device", type, &section->device) &&
         WriteColumn(group, "calls", type, space, names) &&
         WriteColumn(group, "seconds", H5T_NATIVE_DOUBLE, space, seconds);
  if (group >= 0) H5Gclose(group);
  H5Sclose(space);
  H5Tclose(type);
  RengaFree(&names);
  RengaFree(&seconds);
  return good;
}

static bool WriteContents(const char *name, const Contents *contents)
{
  const int version = VERSION;
  bool good;
  H5E_BEGIN_TRY
  {
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    good = file >= 0 && WriteAttribute(file, version_name, H5T_NATIVE_INT, &version);
    for (int s = 0; good && s < contents->count; s++)
      good = WriteSection(file, &contents->section[s]);
    good = file >= 0 && H5Fclose(file) >= 0 && good;
  }
  H5E_END_TRY
  return good;
}

static void MakeFolders(const char *file)
{
  char path[NAME_SIZE];
  snprintf(path, sizeof path, "%s", file);
  for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
    *at = '\0';
    mkdir(path, 0777);
    *at = '/';
  }
}

/* The file as it is now, and the new rows. */
static RengaErrorCode WriteHere(const char *name, const char *device, bool required,
                                const ProfileRows *rows)
{
  char temporary[NAME_SIZE + 32];
  Contents contents = {0};
  ProfileRows *mine;
  MakeFolders(name);
  const char *wrong = ReadContents(name, &contents);
  RengaCheck(!wrong || !required, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "-profile_file %s: %s",
             name, wrong);
  RengaErrorCode code = GetSection(&contents, device, &mine);
  for (int r = 0; r < rows->count && code == RENGA_SUCCESS; r++)
    code = RengaProfileRowsAdd_Private(mine, rows->row[r].name, rows->row[r].seconds);
  snprintf(temporary, sizeof temporary, "%s.%ld.part", name, (long)getpid());
  bool good =
      code == RENGA_SUCCESS && WriteContents(temporary, &contents) && rename(temporary, name) == 0;
  const int cause = errno;
  if (!good) unlink(temporary);
  FreeContents(&contents);
  RengaCall(code);
  RengaCheck(good || !required, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-profile_file %s cannot be written: %s", name, strerror(cause));
  if (!good)
    RengaWarning(MPI_COMM_SELF, "measured costs cannot be kept in %s: %s", name, strerror(cause));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileStoreWrite_Private(RengaComm comm, const char *file, const char *device,
                                              bool required, const ProfileRows *rows)
{
  MPI_Comm mpi;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  if (RengaCommGetRank(comm) == 0 && file[0]) code = WriteHere(file, device, required, rows);
  RengaCall(RengaErrorAgree(mpi, code));
  return RENGA_SUCCESS;
}

void RengaProfileStoreName_Private(size_t size, char name[])
{
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  name[0] = '\0';
  if (cache && cache[0] == '/')
    snprintf(name, size, "%s/renga/profile.h5", cache);
  else if (home && home[0])
    snprintf(name, size, "%s/.cache/renga/profile.h5", home);
}
