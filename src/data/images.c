/* Data: a set of images and classes from a folder: each folder in it is a class, numbered in the
   order of their names, with PNG and JPEG files. Heads are read first, for sizes and channels; then
   one image after the other is read and written. */
#include "picture.h"

#include "dataimpl.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
  char *name;
  int64_t class;
  bool validates;
} ImageFile;

typedef struct {
  char **name; /* [count], sorted */
  int count;
} ImageNames;

typedef struct {
  ImageNames classes;
  ImageFile *file;           /* [n_files] by class, then by name */
  int64_t n_files, n_others; /* others: no pictures, left out */
  int width, height, channels;
  bool resizes;
  double mean, deviation;
  RengaDataMoments moments;
} ImageSet;

static int CompareTexts(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void FreeFolderNames(ImageNames *list)
{
  for (int i = 0; i < list->count; i++) RengaFree(&list->name[i]);
  RengaFree(&list->name);
}

static RengaErrorCode AppendFolderEntry(ImageNames *list, const char *name)
{
  if ((list->count & (list->count - 1)) == 0)
    RengaCall(RengaRealloc(list->count ? 2 * list->count : 1, &list->name));
  RengaCall(RengaStringCopy(name, &list->name[list->count]));
  list->count++;
  return RENGA_SUCCESS;
}

/* Sorted by name; none that begins with a dot. */
static RengaErrorCode ListFolder(const char *folder, ImageNames *list)
{
  RengaErrorCode code = RENGA_SUCCESS;
  DIR *entries = opendir(folder);
  *list = (ImageNames){NULL, 0};
  RengaCheck(entries, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "folder %s: %s", folder, strerror(errno));
  for (struct dirent *entry; !code && (entry = readdir(entries)) != NULL;)
    if (entry->d_name[0] != '.') code = AppendFolderEntry(list, entry->d_name);
  closedir(entries);
  if (code) FreeFolderNames(list);
  RengaCall(code);
  if (list->count > 0) qsort(list->name, (size_t)list->count, sizeof *list->name, CompareTexts);
  return RENGA_SUCCESS;
}

static RengaErrorCode JoinPath(const char *folder, const char *name, char **path)
{
  const size_t room = strlen(folder) + strlen(name) + 2;
  RengaCall(RengaMalloc(room, path));
  snprintf(*path, room, "%s/%s", folder, name);
  return RENGA_SUCCESS;
}

static bool PathIsFolder(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static RengaErrorCode AppendImage(ImageSet *set, char *path, int64_t class, bool validates)
{
  if ((set->n_files & (set->n_files - 1)) == 0)
    RengaCall(RengaRealloc(set->n_files ? 2 * set->n_files : 1, &set->file));
  set->file[set->n_files++] = (ImageFile){path, class, validates};
  return RENGA_SUCCESS;
}

/* The images of one class; the last share of them validates. */
static RengaErrorCode TakeClass(ImageSet *set, const char *folder, int64_t class, double share)
{
  ImageNames names;
  const int64_t first = set->n_files;
  RengaErrorCode code = ListFolder(folder, &names);
  for (int i = 0; !code && i < names.count; i++) {
    char *path = NULL;
    code = JoinPath(folder, names.name[i], &path);
    if (!code && PathIsFolder(path))
      code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, __func__, __FILE__, __LINE__,
                             "folder %s within a class: classes are the folders of one folder, and "
                             "hold their images themselves",
                             path);
    const bool taken = !code && RengaPictureIsName_Private(path);
    if (taken) code = AppendImage(set, path, class, false);
    if (!taken || code) RengaFree(&path);
    set->n_others += !taken;
  }
  FreeFolderNames(&names);
  RengaCall(code);
  const int64_t count = set->n_files - first;
  for (int64_t i = 0; i < (int64_t)((double)count * share); i++)
    set->file[set->n_files - 1 - i].validates = true;
  return RENGA_SUCCESS;
}

/* Folders that programs make beside others, and that nobody means. */
static bool IsJunkFolder(const char *name)
{
  static const char *const junk[] = {"__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN",
                                     "System Volume Information"};
  for (size_t i = 0; i < sizeof junk / sizeof *junk; i++)
    if (strcmp(name, junk[i]) == 0) return true;
  return false;
}

/* Folders of a folder, in the order of their names. */
static RengaErrorCode ListClasses(const char *folder, ImageNames *classes)
{
  ImageNames all;
  RengaErrorCode code = ListFolder(folder, &all);
  for (int i = 0; !code && i < all.count; i++) {
    char *path = NULL;
    code = JoinPath(folder, all.name[i], &path);
    const bool is_junk = !code && IsJunkFolder(all.name[i]);
    if (is_junk) RengaWarning(MPI_COMM_SELF, "folder %s is taken for no class", path);
    if (!code && !is_junk && PathIsFolder(path)) code = AppendFolderEntry(classes, all.name[i]);
    RengaFree(&path);
  }
  FreeFolderNames(&all);
  RengaCall(code);
  RengaCheck(classes->count > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "folder %s holds no folders: each class is one, with its images in it", folder);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeFolder(ImageSet *set, const char *folder, double share, bool validates)
{
  const int64_t first = set->n_files;
  for (int k = 0; k < set->classes.count; k++) {
    char *path = NULL;
    RengaCall(JoinPath(folder, set->classes.name[k], &path));
    const RengaErrorCode code = TakeClass(set, path, k, share);
    RengaFree(&path);
    RengaCall(code);
  }
  RengaCheck(set->n_files > first, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "folder %s holds no images: files that end in .png, .jpg or .jpeg", folder);
  for (int64_t i = first; i < set->n_files && validates; i++) set->file[i].validates = true;
  return RENGA_SUCCESS;
}

/* Classes without images are none: those after them get other numbers. */
static RengaErrorCode DropHollowClasses(ImageSet *set, const char *folder)
{
  int64_t *number;
  int kept = 0;
  RengaCall(RengaMalloc(set->classes.count, &number)); /* zeros */
  for (int64_t i = 0; i < set->n_files; i++) number[set->file[i].class] = 1;
  for (int k = 0; k < set->classes.count; k++) {
    char *name = set->classes.name[k];
    if (number[k]) {
      number[k] = kept;
      set->classes.name[kept++] = name;
    } else {
      RengaWarning(MPI_COMM_SELF, "folder %s/%s holds no images and is no class", folder, name);
      RengaFree(&name);
    }
  }
  set->classes.count = kept;
  for (int64_t i = 0; i < set->n_files; i++) set->file[i].class = number[set->file[i].class];
  RengaFree(&number);
  return RENGA_SUCCESS;
}

/* The first name of a list that another lacks, or NULL. */
static const char *FirstLacking(const ImageNames *list, const ImageNames *other)
{
  for (int k = 0; k < list->count; k++)
    if (other->count == 0 || !bsearch(&list->name[k], other->name, (size_t)other->count,
                                      sizeof *other->name, CompareTexts))
      return list->name[k];
  return NULL;
}

/* Both folders have the same classes. */
static RengaErrorCode CheckFolderClasses(const ImageSet *set, const char *const folders[2])
{
  ImageNames classes = {NULL, 0};
  RengaErrorCode code = ListClasses(folders[1], &classes);
  const char *more = FirstLacking(&classes, &set->classes),
             *fewer = FirstLacking(&set->classes, &classes);
  if (!code && (more || fewer))
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, __func__, __FILE__, __LINE__,
                           "folders %s and %s must hold the same classes: %s is only in %s",
                           folders[0], folders[1], more ? more : fewer, folders[more != NULL]);
  FreeFolderNames(&classes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The head of each file: sizes that agree, unless all are made one; grey if all are. */
static RengaErrorCode SurveyImages(ImageSet *set)
{
  for (int64_t i = 0; i < set->n_files; i++) {
    RengaPicture picture;
    RengaCall(RengaPictureRead_Private(set->file[i].name, false, &picture));
    if (picture.channels > set->channels) set->channels = picture.channels;
    if (!set->width) {
      set->width = picture.width;
      set->height = picture.height;
    }
    RengaCheck(set->resizes || (picture.width == set->width && picture.height == set->height),
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "image %s is %d x %d, %s is %d x %d (height x width): make all of one size with "
               "-data_image_size HxW",
               set->file[i].name, picture.height, picture.width, set->file[0].name, set->height,
               set->width);
  }
  return RENGA_SUCCESS;
}

/* From [height, width, channels] to [channels, height, width]; grey stands for all colours. */
static void SortChannels(const RengaPicture *picture, int channels, unsigned char *to)
{
  const int64_t pixels = (int64_t)picture->width * picture->height;
  for (int c = 0; c < channels; c++)
    for (int64_t i = 0; i < pixels; i++)
      to[c * pixels + i] = picture->pixel[i * picture->channels + (picture->channels == 1 ? 0 : c)];
}

static RengaErrorCode CopyImageFile(ImageSet *set, const ImageFile *file, RengaDataWriter writer,
                                    int dataset, int64_t row, unsigned char *block)
{
  RengaPicture picture;
  RengaCall(RengaPictureRead_Private(file->name, true, &picture));
  RengaErrorCode code = RENGA_SUCCESS;
  if (set->resizes) code = RengaPictureResize_Private(&picture, set->width, set->height);
  if (!code && (picture.width != set->width || picture.height != set->height))
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, __func__, __FILE__, __LINE__,
                           "image %s was changed while it was read", file->name);
  if (!code) {
    SortChannels(&picture, set->channels, block);
    const int64_t bytes = (int64_t)set->channels * set->width * set->height;
    if (!file->validates) RengaDataMomentsAdd_Private(&set->moments, RENGA_UINT8, block, bytes);
    code = RengaDataWriterWrite(writer, dataset, row, 1, block);
  }
  RengaPictureFree_Private(&picture);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyImages(ImageSet *set, bool validates, RengaDataWriter writer,
                                 const int dataset[2])
{
  unsigned char *block;
  int64_t row = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc((int64_t)set->channels * set->width * set->height, &block));
  for (int64_t i = 0; i < set->n_files && !code; i++) {
    if (set->file[i].validates != validates) continue;
    code = CopyImageFile(set, &set->file[i], writer, dataset[0], row, block);
    if (!code) code = RengaDataWriterWrite(writer, dataset[1], row++, 1, &set->file[i].class);
  }
  RengaFree(&block);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteImagePart(ImageSet *set, bool validates, RengaDataWriter writer)
{
  static const char *const paths[2][2] = {{"/training/image", "/training/labels"},
                                          {"/validation/image", "/validation/labels"}};
  RengaTensorSpec image = {.type = RENGA_UINT8, .ndim = 4},
                  label = {.type = RENGA_INT64, .ndim = 1};
  int64_t count = 0;
  int dataset[2];
  for (int64_t i = 0; i < set->n_files; i++) count += set->file[i].validates == validates;
  if (validates && count == 0) return RENGA_SUCCESS;
  RengaCheck(count > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "there are no images to train with");
  image.dim[0] = label.dim[0] = count;
  image.dim[1] = set->channels;
  image.dim[2] = set->height;
  image.dim[3] = set->width;
  RengaCall(RengaDataWriterAdd(writer, paths[validates][0], &image, &dataset[0]));
  RengaCall(RengaDataWriterAdd(writer, paths[validates][1], &label, &dataset[1]));
  RengaCall(CopyImages(set, validates, writer, dataset));
  RengaCall(RengaDataMomentsPut_Private(&set->moments, writer, dataset[0], 255, &set->mean,
                                        &set->deviation, "the images"));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteImageSet(ImageSet *set, const char *out_file)
{
  RengaDataWriter writer = NULL;
  RengaErrorCode code = RengaDataWriterCreate(out_file, &writer);
  if (!code) code = WriteImagePart(set, false, writer);
  if (!code) code = WriteImagePart(set, true, writer);
  if (!code)
    code =
        RengaDataWriterPutNames_Private(writer, "classes", set->classes.count, set->classes.name);
  RengaCall(RengaDataWriterClose(&writer, code));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteImages(int n_folders, const char *const folders[], const char *out_file,
                                  double share, ImageSet *set, int64_t numbers[3])
{
  RengaErrorCode code = ListClasses(folders[0], &set->classes);
  if (!code) code = TakeFolder(set, folders[0], share, false);
  if (!code && n_folders == 2) code = CheckFolderClasses(set, folders);
  if (!code && n_folders == 2) code = TakeFolder(set, folders[1], 0, true);
  if (!code) code = DropHollowClasses(set, folders[0]);
  if (!code) code = SurveyImages(set);
  if (!code) code = WriteImageSet(set, out_file);
  for (int64_t i = 0; i < set->n_files; i++) RengaFree(&set->file[i].name);
  RengaFree(&set->file);
  FreeFolderNames(&set->classes);
  RengaCall(code);
  numbers[0] = set->n_files;
  numbers[1] = set->classes.count;
  numbers[2] = set->n_others;
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteImages - make a set of images and classes from folders of PNG and JPEG files

   Collective; rank 0 works

   Input:
   . n_folders - 1, or 2 with one for validation
   . folders - each holds a folder per class, with its images
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . size - [2], height and width in pixels that all images are brought to: linear between pixels,
     where smaller the mean of all that a pixel covers. 0, 0: all have the same already
   . mean, deviation - any mean, and a deviation of at least 0, as RengaDataWriteIdx takes them
   . validation_share - the share of each class, the last by name, where there is one folder; at
     least 0, below 1

   Output:
   . numbers - [3], the numbers of images, of classes, and of files that are no images and were left
     out. Rank 0 knows them

   Errors: a file that is damaged, or of another size than the first, is named. RENGA_ERR_SUPPORT
   where Renga was built without the library of that kind of file.

   Notes: datasets image uint8 [N,C,H,W], with attributes scale and offset, and labels int64 [N] of
   the groups training and validation; classes are numbered in the order of their names, which stand
   in the attribute classes of the file; a folder without images is no class, with a warning. What a
   file is follows from its content. C is 1 where all images are grey, else 3; transparency is
   dropped, and images are turned as the camera noted (Exif). Bytes are those of the file, but for a
   PNG file that notes another gamma than that of sRGB, which is made sRGB, and for a JPEG file of
   four inks, whose colours are what the ink of each and the black one let through.

   See also: RengaDataWriteIdx(), RengaDataSetFile()
@*/
RengaErrorCode RengaDataWriteImages(RengaComm comm, int n_folders, const char *const folders[],
                                    const char *out_file, const int size[2], double mean,
                                    double deviation, double validation_share, int64_t numbers[3])
{
  RengaCheckPointers(comm, folders, out_file, size, numbers);
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCheck(n_folders == 1 || (n_folders == 2 && validation_share == 0), mpi, RENGA_ERR_ARGUMENT,
             "%d folders of images and a share of %g for validation: one folder, or two without a "
             "share",
             n_folders, validation_share);
  RengaCheck(validation_share >= 0 && validation_share < 1, mpi, RENGA_ERR_ARGUMENT,
             "a share of %g for validation is not at least 0 and below 1", validation_share);
  RengaCheck(deviation >= 0 && isfinite(deviation) && isfinite(mean), mpi, RENGA_ERR_ARGUMENT,
             "mean %g and deviation %g are no normalisation", mean, deviation);
  RengaCheck(size[0] >= 0 && size[1] >= 0 && size[0] <= 65536 && size[1] <= 65536 &&
                 !size[0] == !size[1],
             mpi, RENGA_ERR_ARGUMENT, "images of %d x %d", size[0], size[1]);
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  ImageSet set = {.height = size[0],
                  .width = size[1],
                  .resizes = size[0] > 0,
                  .mean = mean,
                  .deviation = deviation};
  if (rank == 0) code = WriteImages(n_folders, folders, out_file, validation_share, &set, numbers);
  RengaCall(RengaErrorAgree(mpi, code));
  return RENGA_SUCCESS;
}
