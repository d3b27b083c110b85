/* Headers of safetensors files: whole ones, wrong ones, each with its sentence, and many that are
   changed at random; folders of several files; what is written is read again. */
#include "../../src/checkpoint/safetensors/safetensors.h"
#include "../../src/checkpoint/safetensors/write.h"
#include "../check.h"
#include "rengacheckpoint.h"
#include <sys/stat.h>
#include <unistd.h>

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
    "\"c\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[32,34]}}";
enum { GOOD_DATA = 34 };

/* length -1: that of the header */
static RengaErrorCode Put(const char *name, const char *header, int64_t length, int64_t data)
{
  FILE *file = fopen(name, "wb");
  Expect(file);
  const uint64_t said = length >= 0 ? (uint64_t)length : (uint64_t)strlen(header);
  for (int i = 0; i < 8; i++) fputc((int)(said >> (8 * i) & 255), file);
  fwrite(header, 1, strlen(header), file);
  for (int64_t i = 0; i < data; i++) fputc((int)i, file);
  Expect(fclose(file) == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode Read(const char *header, int64_t length, int64_t data)
{
  RengaCheckpointTable table = {0};
  RengaCall(Put("one.safetensors", header, length, data));
  const RengaErrorCode code = RengaSafetensorsReadFolder("one.safetensors", &table);
  RengaCheckpointTableFree(&table);
  return code;
}

static RengaErrorCode TestGood(void)
{
  RengaCheckpointTable table = {0};
  RengaCall(Put("one.safetensors", good, -1, GOOD_DATA));
  RengaCall(RengaSafetensorsReadFolder("one.safetensors", &table));
  const RengaCheckpointEntry *entry = table.entries;
  const int64_t start = 8 + (int64_t)strlen(good);
  Expect(table.n_entries == 3 && !strcmp(entry[0].name, "a.weight") && !strcmp(entry[2].name, "c"));
  Expect(entry[0].spec.ndim == 2 && entry[0].spec.dim[1] == 3 && entry[0].offset == start);
  Expect(entry[1].stored == RENGA_BFLOAT16 && entry[1].spec.type == RENGA_FLOAT32);
  Expect(entry[1].bytes == 8 && entry[2].spec.ndim == 0 && entry[2].offset == start + 32);
  RengaCheckpointTableFree(&table);
  RengaCall(Read("{}", -1, 0));
  RengaCall(Read("{}      ", -1, 0));
  return RENGA_SUCCESS;
}

#define ONE(dtype, shape, place)                                                                   \
  "{\"x\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" place "}}"
static const struct {
  const char *header;
  int64_t length, data;
  const char *sentence;
} wrong[] = {
    {"", 0, 0, "its header is no JSON object"},
    {"{}", INT64_MAX, 0, "its header is said to have 9223372036854775807 bytes, of at most"},
    {"{}", 50, 0, "its header is said to have 50 bytes, the file has 10: is it truncated?"},
    {"[]", -1, 0, "its header is no JSON object"},
    {"{\"x\":", -1, 0, "its header is no JSON object"},
    {"{} {}", -1, 0, "its header is no JSON object"},
    {"{\"x\":3}", -1, 0, "tensor \"x\" is no object with dtype, shape and data_offsets"},
    {ONE("3", "[1]", "[0,4]"), -1, 4, "tensor \"x\" has no dtype"},
    {ONE("\"F8_E4M3\"", "[4]", "[0,4]"), -1, 4, "tensor \"x\" is of type F8_E4M3, which is not"},
    {ONE("\"F32\"", "1", "[0,4]"), -1, 4, "tensor \"x\" has no shape"},
    {ONE("\"F32\"", "[-1]", "[0,4]"), -1, 4, "its shape [ -1 ] is not of numbers from 0 on"},
    {ONE("\"F32\"", "[1.5]", "[0,4]"), -1, 4, "is not of numbers from 0 on"},
    {ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), -1, 4, "has 9 dimensions, of at most 8"},
    {ONE("\"F32\"", "[4611686018427387904,4]", "[0,4]"), -1, 4, "more elements than can be"},
    {ONE("\"F32\"", "[0,4611686018427387904,4]", "[0,0]"), -1, 0, "more elements than can be"},
    {ONE("\"F32\"", "[1]", "[4,0]"), -1, 4, "data_offsets is [ 4, 0 ], must be begin and end"},
    {ONE("\"F32\"", "[1]", "[0,18446744073709551615]"), -1, 4, "must be begin and end"},
    {ONE("\"F32\"", "[1]", "[0]"), -1, 4, "must be begin and end"},
    {ONE("\"F32\"", "[1]", "[0,4]"), -1, 3, "ends at byte 4 of the data, which has 3: is the file"},
    {ONE("\"F32\"", "[2]", "[0,4]"), -1, 4, "has 4 bytes, its type and shape need 8"},
    {ONE("\"F32\"", "[1]", "[0,4]"), -1, 9, "the data has 9 bytes, its tensors have 4"},
    {ONE("\"F32\"", "[1]", "[4,8]"), -1, 8, "bytes 0 to 4 of the data are of no tensor"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     -1, 8, "tensors \"x\" and \"y\" overlap at byte 4 of the data"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     -1, 4, "names a tensor, or what belongs to one, twice"},
    {"{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", -1, 4,
     "names a tensor, or what belongs to one, twice"},
};

static RengaErrorCode TestWrong(void)
{
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    ExpectError(Read(wrong[i].header, wrong[i].length, wrong[i].data), RENGA_ERR_FILE_FORMAT,
                "one.safetensors: ", wrong[i].sentence);
  FILE *file = fopen("short.safetensors", "wb");
  Expect(file && fputc(1, file) == 1 && fclose(file) == 0);
  RengaCheckpointTable table = {0};
  ExpectError(RengaSafetensorsReadFolder("short.safetensors", &table), RENGA_ERR_FILE_FORMAT,
              "the file has 1 bytes, a safetensors file begins with 8");
  ExpectError(RengaSafetensorsReadFolder("none.safetensors", &table), RENGA_ERR_FILE_OPEN,
              "none.safetensors: ");
  return RENGA_SUCCESS;
}

/* ---- changed at random ---- */
static uint64_t state = 1;
static int Draw(int below)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)below);
}

static void Change(char *text)
{
  static const char letters[] = "0123456789{}[]\",:-e.\\uF \001";
  const size_t length = strlen(text), at = (size_t)Draw((int)length);
  const int kind = Draw(3);
  if (kind == 0) text[at] = letters[Draw(sizeof letters - 1)];
  if (kind == 1) memmove(text + at, text + at + 1, length - at);
  if (kind == 2) {
    memmove(text + at + 1, text + at, length - at + 1);
    text[at] = letters[Draw(sizeof letters - 1)];
  }
}

/* It is read, or refused; what is read lies in the file. */
static RengaErrorCode ReadChanged(int *taken)
{
  struct stat status;
  RengaCheckpointTable table = {0};
  const RengaErrorCode code = RengaSafetensorsReadFolder("one.safetensors", &table);
  Expect(code == RENGA_SUCCESS || code == RENGA_ERR_FILE_FORMAT);
  Expect(stat("one.safetensors", &status) == 0);
  for (int i = 0; i < table.n_entries && !code; i++)
    Expect(table.entries[i].offset >= 8 && table.entries[i].bytes >= 0 &&
           table.entries[i].offset + table.entries[i].bytes <= status.st_size);
  *taken += code == RENGA_SUCCESS;
  RengaCheckpointTableFree(&table);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestChanged(void)
{
  int taken = 0;
  const int count = UnlessSlow(4000, 2000);
  char text[sizeof good + 64];
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  RengaErrorCode code = RENGA_SUCCESS;
  for (int i = 0; i < count && !code; i++) {
    strcpy(text, good);
    for (int n = 1 + Draw(4); n > 0; n--) Change(text);
    code = Put("one.safetensors", text, -1, GOOD_DATA + (Draw(10) ? 0 : Draw(9) - 4));
    if (!code) code = ReadChanged(&taken);
  }
  RengaErrorSetHandler(NULL, NULL);
  RengaCall(code);
  Expect(taken > 0 && taken < count);
  return RENGA_SUCCESS;
}

/* ---- folders ---- */
static RengaErrorCode PutText(const char *name, const char *text)
{
  FILE *file = fopen(name, "wb");
  Expect(file && fputs(text, file) >= 0 && fclose(file) == 0);
  return RENGA_SUCCESS;
}

#define INDEX "folder/model.safetensors.index.json"
static RengaErrorCode ReadIndexed(const char *index)
{
  RengaCheckpointTable table = {0};
  RengaCall(PutText(INDEX, index));
  const RengaErrorCode code = RengaSafetensorsReadFolder("folder", &table);
  if (!code) {
    Expect(table.n_entries == 2 && table.entries[1].shard == 1);
    Expect(!strcmp(RengaSafetensorsShard(&table, 1), "folder/2.safetensors"));
    Expect(RengaSafetensorsShard(&table, 2) == NULL);
  }
  RengaCheckpointTableFree(&table);
  return code;
}

static RengaErrorCode TestFolders(void)
{
  Expect(mkdir("folder", 0777) == 0 && !RengaSafetensorsIsThere("folder"));
  RengaCall(Put("folder/1.safetensors", ONE("\"F32\"", "[1]", "[0,4]"), -1, 4));
  RengaCall(Put("folder/2.safetensors",
                "{\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", -1, 4));
  RengaCall(ReadIndexed(
      "{\"weight_map\":{\"y\":\"2.safetensors\",\"x\":\"1.safetensors\"},\"metadata\":{}}"));
  Expect(RengaSafetensorsIsThere("folder"));
  ExpectError(ReadIndexed("{"), RENGA_ERR_FILE_FORMAT, INDEX " is no JSON");
  ExpectError(ReadIndexed("{}"), RENGA_ERR_FILE_FORMAT, INDEX " has no weight_map");
  ExpectError(ReadIndexed("{\"weight_map\":{}}"), RENGA_ERR_FILE_FORMAT, "names 0 files");
  ExpectError(ReadIndexed("{\"weight_map\":{\"x\":\"../1.safetensors\"}}"), RENGA_ERR_FILE_FORMAT,
              "\"x\" is in \"../1.safetensors\", which is no safetensors file of the folder");
  ExpectError(ReadIndexed("{\"weight_map\":{\"x\":\"3.safetensors\"}}"), RENGA_ERR_FILE_OPEN,
              "3.safetensors is missing, one of 1 files that");
  ExpectError(ReadIndexed("{\"weight_map\":{\"y\":\"1.safetensors\"}}"), RENGA_ERR_FILE_FORMAT,
              "\"y\" is not in 1.safetensors");
  ExpectError(ReadIndexed("{\"weight_map\":{\"x\":\"2.safetensors\",\"y\":\"1.safetensors\"}}"),
              RENGA_ERR_FILE_FORMAT, "is not in");
  RengaCall(Put("folder/2.safetensors", ONE("\"F32\"", "[1]", "[0,4]"), -1, 4));
  ExpectError(ReadIndexed("{\"weight_map\":{\"x\":\"1.safetensors\",\"y\":\"2.safetensors\"}}"),
              RENGA_ERR_FILE_FORMAT, "two files have a tensor \"x\"");
  return RENGA_SUCCESS;
}

/* ---- written and read ---- */
static RengaErrorCode GiveNumbers(void *user, int entry, int64_t first, int64_t count, float to[])
{
  const float *scale = user;
  for (int64_t i = 0; i < count; i++) to[i] = *scale * (float)(100 * entry + first + i);
  return RENGA_SUCCESS;
}

static RengaErrorCode Write(RengaDataType type, int64_t file_bytes, float scale)
{
  const RengaTensorSpec matrix = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {3, 4}};
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32};
  RengaCheckpointTable table = {0};
  RengaCall(RengaCheckpointTableAdd(&table, "m/\"x\"", &matrix, false));
  RengaCall(RengaCheckpointTableAdd(&table, "s", &scalar, false));
  const RengaSafetensorsSource source = {.table = &table,
                                         .name = "model",
                                         .type = type,
                                         .file_bytes = file_bytes,
                                         .read = GiveNumbers,
                                         .user = &scale};
  const RengaErrorCode code = RengaSafetensorsWrite("written", &source);
  RengaCheckpointTableFree(&table);
  return code;
}

/* All of both tensors, on this rank. */
static RengaErrorCode ReadWritten(float matrix[12], float *scalar)
{
  RengaPersistent tensors[2] = {
      {.name = "m/\"x\"", .spec = {.ndim = 2, .dim = {3, 4}}, .data = matrix},
      {.name = "s", .data = scalar}};
  RengaCheckpointTable table = {0};
  int worst;
  for (int t = 0; t < 2; t++) RengaCall(RengaRectangleWhole(&tensors[t].spec, &tensors[t].part));
  RengaErrorCode code = RengaSafetensorsReadFolder("written", &table);
  if (!code) code = RengaSafetensorsReadParts(NULL, &table, 2, tensors, &worst);
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestWritten(void)
{
  static const RengaDataType types[] = {RENGA_FLOAT32, RENGA_BFLOAT16, RENGA_FLOAT16};
  float matrix[12], scalar;
  Expect(mkdir("written", 0777) == 0);
  for (int t = 0; t < 3; t++) {
    RengaCall(Write(types[t], 1 << 20, 1));
    RengaCall(ReadWritten(matrix, &scalar));
    for (int i = 0; i < 12; i++) Expect(matrix[i] == (float)i);
    Expect(scalar == 100);
  }
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  Expect(Write(RENGA_FLOAT16, 1 << 20, 1e4f) == RENGA_ERR_NUMERIC);
  RengaErrorSetHandler(NULL, NULL);
  Expect(access("written/model.safetensors.part", F_OK) != 0);
  Expect(unlink("written/model.safetensors") == 0);
  RengaCall(Write(RENGA_FLOAT32, 8, 2));
  Expect(access("written/model-00002-of-00002.safetensors", F_OK) == 0);
  RengaCall(ReadWritten(matrix, &scalar));
  Expect(matrix[11] == 22 && scalar == 200);
  return RENGA_SUCCESS;
}

/* Names of the network that the folder has without their first word, and what it has besides. */
static RengaErrorCode TestNames(void)
{
  static const char *const network[] = {"head.weight", "model.x.weight", "wte.weight"};
  static const char *const folder[] = {"head.weight", "lm_head.weight", "other",
                                       "wte.weight",  "x.attn.bias",    "x.weight"};
  const RengaTensorSpec one = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {1}};
  const RengaTensorSpec mask = {.type = RENGA_FLOAT32, .ndim = 4, .dim = {1, 1, 1, 1}};
  RengaCheckpointTable table = {0};
  RengaCall(Put("names.safetensors", "{}", -1, 24));
  RengaCall(RengaCheckpointTableSetAttribute(&table, "shard 0", "names.safetensors"));
  for (int i = 0; i < 6; i++) {
    RengaCall(RengaCheckpointTableAdd(&table, folder[i], i == 4 ? &mask : &one, false));
    table.entries[i].offset = 10 + (i == 1 ? 12 : 4 * i); /* lm_head.weight is wte.weight */
  }
  RengaCall(RengaSafetensorsMatchNames(3, network, &table));
  Expect(table.n_entries == 4 && RengaCheckpointTableFind(&table, "model.x.weight") >= 0);
  Expect(RengaCheckpointTableFind(&table, "other") >= 0);
  Expect(RengaCheckpointTableFind(&table, "lm_head.weight") < 0);
  RengaCheckpointTableFree(&table);
  return RENGA_SUCCESS;
}

/* ---- a checkpoint of one process ---- */
static RengaErrorCode MakeCheckpoint(RengaComm comm, float matrix[12], float *scalar)
{
  RengaPersistent tensors[3] = {
      {.name = "m/\"x\"", .spec = {.ndim = 2, .dim = {3, 4}}, .data = matrix, .owner = true},
      {.name = "m/\"x\":first_moment", .data = matrix, .owner = true},
      {.name = "s", .data = scalar, .owner = true, .state = true}};
  RengaCheckpointTable table = {.step = 3};
  tensors[1].spec = tensors[0].spec;
  for (int t = 0; t < 3; t++) RengaCall(RengaRectangleWhole(&tensors[t].spec, &tensors[t].part));
  const RengaErrorCode code =
      RengaCheckpointFileWrite(comm, NULL, "checkpoint.h5", 3, tensors, &table);
  RengaCheckpointTableFree(&table);
  return code;
}

static RengaErrorCode TryExport(RengaComm comm)
{
  RengaCheckpointExportSettings settings = {.type = RENGA_FLOAT32, .file_bytes = 0};
  float matrix[12], scalar = 3, found[12], number = 0;
  for (int i = 0; i < 12; i++) matrix[i] = 1e6f * (float)i;
  RengaCall(MakeCheckpoint(comm, matrix, &scalar));
  Expect(system("rm -rf written") == 0);
  RengaCall(RengaCheckpointExport(comm, "checkpoint.h5", "written", &settings));
  RengaCall(ReadWritten(found, &number));
  Expect(memcmp(found, matrix, sizeof matrix) == 0 && number == 3);
  ExpectError(RengaCheckpointExport(comm, "checkpoint.h5", "written", &settings),
              RENGA_ERR_FILE_WRITE, "written is there already: export makes a new folder");
  settings.type = RENGA_FLOAT16;
  ExpectError(RengaCheckpointExport(comm, "checkpoint.h5", "small", &settings), RENGA_ERR_NUMERIC,
              "m/\"x\" has 1e+06, which float16 cannot hold: export float32 or bfloat16");
  settings.type = RENGA_INT64;
  ExpectError(RengaCheckpointExport(comm, "checkpoint.h5", "small", &settings), RENGA_ERR_ARGUMENT,
              "an exported folder has float32, bfloat16 or float16, not int64");
  settings = (RengaCheckpointExportSettings){.type = RENGA_FLOAT32, .like = "nowhere"};
  ExpectError(RengaCheckpointExport(comm, "checkpoint.h5", "small", &settings), RENGA_ERR_FILE_OPEN,
              "nowhere/config.json: ");
  Expect(system("ls -d small* 2>/dev/null | grep -q .") != 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestExport(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const RengaErrorCode code = TryExport(comm);
  RengaCommDestroy(&comm);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaErrorCode (*const tests[])(void) = {TestGood,    TestWrong, TestChanged, TestFolders,
                                           TestWritten, TestNames, TestExport};
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) RengaCall(tests[i]());
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
