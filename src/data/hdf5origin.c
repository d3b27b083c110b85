/* Data: the files that a dataset of HDF5 is read from: its own, which links may lead to, raw files
   (external storage), and those of the parts of virtual datasets. None is outside of the folder of
   the file that names it, unless -allow_external; and none changes while it is in use: what is
   missing at its end HDF5 would read as zeros. */
#include "hdf5impl.h"
#include "renga/private/path.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST = 4096, DEEPEST = 8 };

/* One file as it was. */
typedef struct {
  char *name;
  struct stat status;
} Origin;

struct _RengaHdf5Origins {
  int count;
  Origin *origins;
};

static RengaErrorCode AddOrigin(RengaHdf5Origins list, const char *name, int64_t *bytes)
{
  int i = 0;
  while (i < list->count && strcmp(list->origins[i].name, name) != 0) i++;
  if (i == list->count) {
    Origin made = {0};
    RengaCheck(stat(name, &made.status) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "data set %s: %s",
               name, strerror(errno));
    RengaCall(RengaRealloc(list->count + 1, &list->origins));
    RengaCall(RengaStringCopy(name, &made.name));
    list->origins[list->count++] = made;
  }
  *bytes = (int64_t)list->origins[i].status.st_size;
  return RENGA_SUCCESS;
}

/* Raw files; relative names begin where the process is. */
static RengaErrorCode AddRawFiles(RengaHdf5Origins list, hid_t made, const char *base)
{
  const int count = H5Pget_external_count(made);
  for (int i = 0; i < count; i++) {
    char name[LONGEST] = "";
    off_t offset = 0;
    hsize_t bytes = 0;
    int64_t has;
    RengaCheck(H5Pget_external(made, (unsigned)i, sizeof name - 1, name, &offset, &bytes) >= 0,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "data set %s: external storage cannot be read",
               base);
    RengaCall(RengaPathCheckExternal(base, name, "external storage"));
    RengaCall(AddOrigin(list, name, &has));
    if (bytes == H5F_UNLIMITED) bytes = 0;
    RengaCheck((int64_t)offset + (int64_t)bytes <= has, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "data set %s: its external storage %s has %lld bytes, too few for %lld from %lld on",
               base, name, (long long)has, (long long)bytes, (long long)offset);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddDataset(RengaHdf5Origins list, const char *base, hid_t dataset, int depth);

/* As HDF5 looks for it: in the folder of the file that names it, else where the process is. */
static void FindPart(const char *base, const char *name, char path[LONGEST])
{
  const char *slash = strrchr(base, '/');
  if (strcmp(name, ".") == 0) {
    snprintf(path, LONGEST, "%s", base);
    return;
  }
  const int length =
      snprintf(path, LONGEST, "%.*s%s", slash ? (int)(slash - base) + 1 : 0, base, name);
  if (name[0] == '/' || length >= LONGEST || access(path, F_OK) != 0)
    snprintf(path, LONGEST, "%s", name);
}

static RengaErrorCode AddOriginPart(RengaHdf5Origins list, const char *base, const char *name,
                                    const char *dataset, int depth)
{
  char path[LONGEST], reason[256] = "";
  hid_t file, id = -1;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheck(strchr(name, '%') == NULL && depth < DEEPEST, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "data set %s: its part %s is %s, which is not supported", base, name,
             depth < DEEPEST ? "a pattern of names" : "composed of others too many times");
  FindPart(base, name, path);
  RengaCall(RengaPathCheckExternal(base, path, "a part of a virtual dataset"));
  H5E_BEGIN_TRY
  {
    file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file >= 0) id = H5Dopen2(file, dataset, H5P_DEFAULT);
    if (id < 0) RengaHdf5Reason_Private(reason);
  }
  H5E_END_TRY
  if (id >= 0)
    code = AddDataset(list, path, id, depth + 1);
  else
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, __func__, __FILE__, __LINE__,
                           "data set %s: its part %s:%s cannot be opened: %s", base, path, dataset,
                           reason);
  if (id >= 0) H5Dclose(id);
  if (file >= 0) H5Fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddParts(RengaHdf5Origins list, hid_t made, const char *base, int depth)
{
  size_t count = 0;
  RengaCheck(H5Pget_virtual_count(made, &count) >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s: a virtual dataset cannot be read", base);
  for (size_t i = 0; i < count; i++) {
    char name[LONGEST] = "", dataset[LONGEST] = "";
    H5Pget_virtual_filename(made, i, name, sizeof name);
    H5Pget_virtual_dsetname(made, i, dataset, sizeof dataset);
    RengaCall(AddOriginPart(list, base, name, dataset, depth));
  }
  return RENGA_SUCCESS;
}

/* An open dataset, which was asked for in the file base. */
static RengaErrorCode AddDataset(RengaHdf5Origins list, const char *base, hid_t dataset, int depth)
{
  char own[LONGEST] = "";
  int64_t bytes;
  const ssize_t length = H5Fget_name(dataset, own, sizeof own);
  RengaCheck(length > 0 && length < LONGEST, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s: the file of a dataset has a name of %lld bytes", base,
             (long long)length);
  if (strcmp(own, base) != 0) RengaCall(RengaPathCheckExternal(base, own, "a link's file"));
  RengaCall(AddOrigin(list, own, &bytes));
  hid_t made = H5Dget_create_plist(dataset);
  RengaErrorCode code = AddRawFiles(list, made, own);
  if (code == RENGA_SUCCESS && H5Pget_layout(made) == H5D_VIRTUAL)
    code = AddParts(list, made, own, depth);
  H5Pclose(made);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHdf5OriginsCreate_Private(const char *file, hid_t dataset,
                                              RengaHdf5Origins *origins)
{
  RengaCall(RengaMalloc(1, origins)); /* destroyed by the caller, good or not */
  RengaCall(AddDataset(*origins, file, dataset, 0));
  return RENGA_SUCCESS;
}

static bool SameStatus(const struct stat *was, const struct stat *is)
{
  return is->st_size == was->st_size && is->st_ino == was->st_ino && is->st_dev == was->st_dev &&
         is->st_mtim.tv_sec == was->st_mtim.tv_sec && is->st_mtim.tv_nsec == was->st_mtim.tv_nsec;
}

RengaErrorCode RengaHdf5OriginsCheck_Private(RengaHdf5Origins origins, const char *dataset,
                                             int64_t sample)
{
  for (int i = 0; i < origins->count; i++) {
    const Origin *origin = &origins->origins[i];
    const struct stat *was = &origin->status;
    struct stat is;
    RengaCheck(stat(origin->name, &is) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "data set %s changed while it was in use: %s; noticed at sample %lld of %s",
               origin->name, strerror(errno), (long long)sample, dataset);
    RengaCheck(SameStatus(was, &is), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "data set %s changed while it was in use: %s of %lld bytes, %lld at the beginning; "
               "noticed at sample %lld of %s",
               origin->name, is.st_ino == was->st_ino ? "the same file" : "another file",
               (long long)is.st_size, (long long)was->st_size, (long long)sample, dataset);
  }
  return RENGA_SUCCESS;
}

void RengaHdf5OriginsDestroy_Private(RengaHdf5Origins *origins)
{
  if (*origins == NULL) return;
  for (int i = 0; i < (*origins)->count; i++) RengaFree(&(*origins)->origins[i].name);
  RengaFree(&(*origins)->origins);
  RengaFree(origins);
}
