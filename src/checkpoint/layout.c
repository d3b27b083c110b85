/* The HDF5 part of a checkpoint, by one process with the serial driver: all data sets contiguous,
   placed when the file is created, so that every rank can write its own at its offset. */
#include "file.h"
#include "renga/private/fault.h"
#include "renga/private/number.h"
#include <hdf5.h>
#include <stdarg.h>
#include <string.h>

enum { ALIGN_FROM = 65536, ALIGNMENT = 4096, LONGEST_ATTRIBUTE = 60000, PATH = 4096 };

/* The stored type; 16-bit floating types as their bits, with their name in the attribute "type". */
static hid_t StoredType(RengaDataType type)
{
  switch (type) {
  case RENGA_FLOAT32:
    return H5T_IEEE_F32LE;
  case RENGA_FLOAT64:
    return H5T_IEEE_F64LE;
  case RENGA_INT8:
    return H5T_STD_I8LE;
  case RENGA_INT16:
    return H5T_STD_I16LE;
  case RENGA_INT32:
    return H5T_STD_I32LE;
  case RENGA_INT64:
    return H5T_STD_I64LE;
  case RENGA_UINT32:
    return H5T_STD_U32LE;
  case RENGA_UINT64:
    return H5T_STD_U64LE;
  default:
    return RengaDataTypeSize(type) == 2 ? H5T_STD_U16LE : H5T_STD_U8LE;
  }
}

static RengaDataType FindElementType(const char *name)
{
  for (int type = 0; type < RENGA_TYPE_COUNT; type++)
    if (strcmp(RengaDataTypeName((RengaDataType)type), name) == 0) return (RengaDataType)type;
  return RENGA_TYPE_COUNT;
}

/* While we work HDF5 prints nothing; the first reason it gives is kept. */
typedef struct {
  H5E_auto2_t print;
  void *user;
  char reason[RENGA_CHECKPOINT_MESSAGE / 2];
} Listener;

static herr_t TakeLayoutReason(unsigned depth, const H5E_error2_t *error, void *user)
{
  Listener *listener = user;
  if (depth == 0 && error->desc)
    snprintf(listener->reason, sizeof listener->reason, "%s", error->desc);
  return 0;
}

static herr_t HearError(hid_t stack, void *user)
{
  Listener *listener = user;
  if (listener->reason[0] == '\0') H5Ewalk2(stack, H5E_WALK_UPWARD, TakeLayoutReason, listener);
  return 0;
}

static void BeginListening(Listener *listener)
{
  listener->reason[0] = '\0';
  H5Eget_auto2(H5E_DEFAULT, &listener->print, &listener->user);
  H5Eset_auto2(H5E_DEFAULT, HearError, listener);
}

/* Adds the reason of HDF5 to what failed. */
static void EndListening(const Listener *listener, bool failed, char *message)
{
  H5Eset_auto2(H5E_DEFAULT, listener->print, listener->user);
  size_t used = strlen(message);
  if (failed && listener->reason[0])
    snprintf(message + used, RENGA_CHECKPOINT_MESSAGE - used, "%sHDF5: %s", used ? ": " : "",
             listener->reason);
}

static bool Fail(char message[RENGA_CHECKPOINT_MESSAGE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool Fail(char message[RENGA_CHECKPOINT_MESSAGE], const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(message, RENGA_CHECKPOINT_MESSAGE / 2, format, arguments);
  va_end(arguments);
  return false;
}

static bool WriteLayoutText(hid_t object, const char *name, const char *value)
{
  size_t length = strlen(value);
  char cut[LONGEST_ATTRIBUTE + 1];
  if (length > LONGEST_ATTRIBUTE) {
    length = LONGEST_ATTRIBUTE; /* an attribute of HDF5 holds 64 KiB */
    memcpy(cut, value, length);
    cut[length] = '\0';
    value = cut;
  }
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  H5Tset_size(type, length + 1);
  H5Tset_cset(type, H5T_CSET_UTF8);
  hid_t attribute = RengaWritten(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
  bool good = attribute >= 0 && RengaWritten(H5Awrite(attribute, type, value)) >= 0;
  if (attribute >= 0) good = H5Aclose(attribute) >= 0 && good;
  H5Sclose(space);
  H5Tclose(type);
  return good;
}

static bool WriteNumber(hid_t object, const char *name, int64_t value)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t attribute =
      RengaWritten(H5Acreate2(object, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT));
  bool good = attribute >= 0 && RengaWritten(H5Awrite(attribute, H5T_NATIVE_INT64, &value)) >= 0;
  if (attribute >= 0) good = H5Aclose(attribute) >= 0 && good;
  H5Sclose(space);
  return good;
}

/* Places of a data set that exist when the file is closed, and are written by nobody before. */
static hid_t EarlyPlacement(void)
{
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_layout(creation, H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(creation, false);
  return creation;
}

static bool CreateDataset(hid_t file, const char *path, hid_t type, const RengaTensorSpec *spec,
                          const char *name, int64_t *offset)
{
  hsize_t dims[RENGA_MAX_DIM];
  for (int d = 0; d < spec->ndim; d++) dims[d] = (hsize_t)spec->dim[d];
  hid_t space = spec->ndim ? H5Screate_simple(spec->ndim, dims, NULL) : H5Screate(H5S_SCALAR);
  hid_t creation = EarlyPlacement(), links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  H5Pset_char_encoding(links, H5T_CSET_UTF8);
  hid_t dataset = RengaWritten(H5Dcreate2(file, path, type, space, links, creation, H5P_DEFAULT));
  bool good = dataset >= 0;
  if (good && name) {
    good = WriteLayoutText(dataset, "name", name) &&
           WriteLayoutText(dataset, "type", RengaDataTypeName(spec->type));
  }
  haddr_t place = good ? H5Dget_offset(dataset) : HADDR_UNDEF;
  *offset = place == HADDR_UNDEF ? 0 : (int64_t)place;
  if (dataset >= 0) good = H5Dclose(dataset) >= 0 && good;
  H5Pclose(links);
  H5Pclose(creation);
  H5Sclose(space);
  return good;
}

static bool CreateEntries(hid_t file, RengaCheckpointTable *table, char *message)
{
  for (int i = 0; i < table->n_entries; i++) {
    RengaCheckpointEntry *entry = &table->entries[i];
    char *path;
    if (RengaCheckpointTablePath(table, i, &path) != RENGA_SUCCESS) return Fail(message, "no room");
    bool good = CreateDataset(file, path, StoredType(entry->spec.type), &entry->spec, entry->name,
                              &entry->offset);
    RengaFree(&path);
    if (!good) return Fail(message, "tensor %s", entry->name);
  }
  if (RengaCheckpointTableCountHashes(table) != RENGA_SUCCESS) return Fail(message, "no room");
  RengaTensorSpec index = {RENGA_INT64, 2, {table->n_hashes, 3}};
  if (!CreateDataset(file, "/checksums", H5T_STD_I64LE, &index, NULL, &table->index_offset))
    return Fail(message, "checksums");
  return true;
}

static bool CreateAttributes(hid_t file, const RengaCheckpointTable *table, char *message)
{
  bool good =
      WriteNumber(file, "step", table->step) && WriteLayoutText(file, "version", RENGA_VERSION) &&
      WriteLayoutText(file, "checksums",
                      table->block ? "row: offset, bytes, XXH64 of a block of a tensor; in order "
                                     "of the tensors' names"
                                   : "row: offset, bytes, XXH64 of a tensor; in order of the "
                                     "tensors' names");
  if (good && table->block) good = WriteNumber(file, "checksum_block", table->block);
  for (int i = 0; i < table->n_attributes && good; i++)
    good = WriteLayoutText(file, table->attributes[i].name, table->attributes[i].value);
  return good || Fail(message, "attributes");
}

static hid_t CreateFile(const char *path)
{
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_fapl_stdio(access); /* sec2 asks for the real name, which a file in memory lacks */
  H5Pset_alignment(access, ALIGN_FROM, ALIGNMENT);
  H5Pset_userblock(creation, RENGA_CHECKPOINT_HEAD);
  hid_t file = RengaWritten(H5Fcreate(path, H5F_ACC_TRUNC, creation, access));
  H5Pclose(creation);
  H5Pclose(access);
  return file;
}

bool RengaCheckpointLayoutCreate(const char *path, RengaCheckpointTable *table,
                                 char message[RENGA_CHECKPOINT_MESSAGE])
{
  Listener listener;
  BeginListening(&listener);
  hid_t file = CreateFile(path);
  bool good = file >= 0 || Fail(message, "not created");
  good = good && CreateEntries(file, table, message) && CreateAttributes(file, table, message);
  if (file >= 0 && H5Fclose(file) < 0 && good) good = Fail(message, "not closed");
  if (good && RengaWritten(0) < 0) good = Fail(message, "not closed");
  EndListening(&listener, !good, message);
  return good;
}

/* ---- reading ---- */

typedef struct {
  RengaCheckpointTable *table;
  char *message;
  RengaErrorCode code;
} LayoutReader;

/* Text of an attribute, or NULL; RengaFree. An error only where there is no memory. */
static RengaErrorCode ReadLayoutText(hid_t object, const char *name, char **read)
{
  RengaErrorCode code = RENGA_SUCCESS;
  char *text = NULL;
  *read = NULL;
  hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
  if (attribute < 0) return RENGA_SUCCESS;
  hid_t type = H5Aget_type(attribute), memory = H5Tcopy(H5T_C_S1);
  size_t size =
      H5Tget_class(type) == H5T_STRING && !H5Tis_variable_str(type) ? H5Tget_size(type) : 0;
  H5Tset_size(memory, size + 1);
  H5Tset_cset(memory, H5Tget_cset(type));
  if (size > 0) code = RengaMalloc(size + 2, &text);
  if (text && H5Aread(attribute, memory, text) < 0) RengaFree(&text);
  H5Tclose(memory);
  H5Tclose(type);
  H5Aclose(attribute);
  RengaCall(code);
  *read = text;
  return RENGA_SUCCESS;
}

static bool ReadDatasetShape(hid_t dataset, RengaTensorSpec *spec)
{
  hsize_t dims[H5S_MAX_RANK];
  hid_t space = H5Dget_space(dataset);
  spec->ndim = H5Sget_simple_extent_ndims(space);
  bool good = spec->ndim >= 0 && spec->ndim <= RENGA_MAX_DIM &&
              H5Sget_simple_extent_dims(space, dims, NULL) >= 0;
  for (int d = 0; good && d < spec->ndim; d++) spec->dim[d] = (int64_t)dims[d];
  H5Sclose(space);
  return good;
}

/* One data set that has a name: an entry of the table. */
static bool ReadLayoutEntry(hid_t dataset, LayoutReader *reader)
{
  RengaTensorSpec spec = {0};
  char *name = NULL, *type = NULL;
  reader->code = ReadLayoutText(dataset, "name", &name);
  if (!reader->code) reader->code = ReadLayoutText(dataset, "type", &type);
  char path[PATH] = "";
  haddr_t offset = H5Dget_offset(dataset);
  H5Iget_name(dataset, path, sizeof path);
  spec.type = type ? FindElementType(type) : RENGA_TYPE_COUNT;
  bool good = name && spec.type < RENGA_TYPE_COUNT && ReadDatasetShape(dataset, &spec);
  if (good) {
    bool state = strncmp(path, "/states/", 8) == 0;
    reader->code = RengaCheckpointTableAdd(reader->table, name, &spec, state);
    good = reader->code == RENGA_SUCCESS;
  }
  if (good)
    reader->table->entries[reader->table->n_entries - 1].offset =
        offset == HADDR_UNDEF ? 0 : (int64_t)offset;
  RengaFree(&name);
  RengaFree(&type);
  return good;
}

/* As we write them: external storage and virtual datasets would be read from other files. */
static bool IsOfThisFile(hid_t dataset)
{
  hid_t made = H5Dget_create_plist(dataset);
  bool is = H5Pget_layout(made) == H5D_CONTIGUOUS && H5Pget_external_count(made) == 0;
  H5Pclose(made);
  return is;
}

/* No links are followed here. */
static herr_t VisitDataset(hid_t root, const char *path, const H5O_info_t *info, void *user)
{
  LayoutReader *reader = user;
  if (info->type != H5O_TYPE_DATASET) return 0;
  hid_t dataset = H5Dopen2(root, path, H5P_DEFAULT);
  bool good = dataset >= 0 && IsOfThisFile(dataset);
  if (good && strcmp(path, "checksums") == 0) {
    haddr_t offset = H5Dget_offset(dataset);
    reader->table->index_offset = offset == HADDR_UNDEF ? 0 : (int64_t)offset;
  } else if (good)
    good = ReadLayoutEntry(dataset, reader);
  if (dataset >= 0) H5Dclose(dataset);
  return good ? 0 : -1;
}

static herr_t VisitAttribute(hid_t root, const char *name, const H5A_info_t *info, void *user)
{
  LayoutReader *reader = user;
  (void)info;
  char *text;
  reader->code = ReadLayoutText(root, name, &text);
  if (text) reader->code = RengaCheckpointTableSetAttribute(reader->table, name, text);
  RengaFree(&text);
  return reader->code == RENGA_SUCCESS ? 0 : -1;
}

/* HDF5 1.10.8 makes a list of all attributes before it visits one, and where one cannot be decoded
   it frees rows of the list that it has not filled. To look for a name decodes all as well, and
   makes no list; but not where a tree holds them, as in no file of ours. */
static bool AttributesAreGood(hid_t file)
{
  H5O_info_t info;
  return H5Oget_info1(file, &info) >= 0 && info.meta_size.attr.index_size == 0 &&
         info.meta_size.attr.heap_size == 0 && H5Aexists(file, "none has this name") >= 0;
}

static bool ReadNumber(hid_t file, const char *name, int64_t *value)
{
  hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
  bool good = attribute >= 0 && H5Aread(attribute, H5T_NATIVE_INT64, value) >= 0;
  if (attribute >= 0) H5Aclose(attribute);
  return good;
}

/* index: [hashes] rows of the file. */
static bool TakeIndex(RengaCheckpointTable *table, const int64_t index[][3])
{
  for (int i = 0; i < table->n_entries; i++) {
    const RengaCheckpointEntry *entry = &table->entries[i];
    for (int64_t b = 0; b < RengaCheckpointTableBlocks(table, i); b++) {
      const int64_t *row = index[entry->first_hash + b];
      int64_t first, bytes;
      RengaCheckpointTableBlock(table, i, b, &first, &bytes);
      if (row[0] != entry->offset + first || row[1] != bytes) return false;
      table->hashes[entry->first_hash + b] = (uint64_t)row[2];
    }
  }
  return true;
}

static bool ReadLayoutIndex(hid_t file, RengaCheckpointTable *table, RengaErrorCode *code)
{
  int64_t(*index)[3];
  if (table->index_offset <= 0) return false; /* not visited: none, or behind a link */
  if (!ReadNumber(file, "checksum_block", &table->block)) table->block = 0;
  if (table->block < 0) return false;
  *code = RengaCheckpointTableCountHashes(table);
  if (!*code) *code = RengaMalloc(table->n_hashes + 1, &index);
  if (*code) return false;
  hid_t dataset = H5Dopen2(file, "checksums", H5P_DEFAULT), space = H5Dget_space(dataset);
  bool good = dataset >= 0 && H5Sget_simple_extent_npoints(space) == 3 * table->n_hashes &&
              H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, index) >= 0 &&
              TakeIndex(table, (const int64_t(*)[3])index);
  H5Sclose(space);
  if (dataset >= 0) H5Dclose(dataset);
  RengaFree(&index);
  return good;
}

/* An error only where this process itself fails; a message where the file is wrong. */
RengaErrorCode RengaCheckpointLayoutRead(const char *path, RengaCheckpointTable *table,
                                         char message[RENGA_CHECKPOINT_MESSAGE])
{
  LayoutReader reader = {table, message, RENGA_SUCCESS};
  Listener listener;
  BeginListening(&listener);
  message[0] = '\0';
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0)
    Fail(message, "not opened");
  else if (H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_NATIVE, VisitDataset, &reader, H5O_INFO_BASIC) <
           0)
    Fail(message, "a tensor cannot be read");
  else if (!AttributesAreGood(file) ||
           H5Aiterate2(file, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, VisitAttribute, &reader) < 0)
    Fail(message, "attributes cannot be listed");
  else if (!ReadNumber(file, "step", &table->step))
    Fail(message, "no attribute step");
  RengaCheckpointTableSort(table);
  if (file >= 0 && !message[0] && !ReadLayoutIndex(file, table, &reader.code))
    Fail(message, "the checksums do not belong to the tensors");
  if (file >= 0) H5Fclose(file);
  EndListening(&listener, message[0] != '\0', message);
  RengaCall(reader.code);
  return RENGA_SUCCESS;
}
