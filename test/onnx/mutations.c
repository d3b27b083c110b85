/* TEST ranks: 1 3 timeout: 300 */
/* Ten thousand random changes of right files: networks, data sets, options. Each is read or
   refused: no crash, no hang, no leak; and Renga never asks for more than four times the file and
   BOUND.
   make check-commit runs this under the address and undefined-behaviour sanitizers. */
#include "../check.h"
#include "renga/private/graph.h"
#include "rengacomm.h"
#include "rengadata.h"
#include "text.h"
#include <fcntl.h>
#include <hdf5.h>
#include <stdlib.h>

enum { ONNX_ROUNDS = 2000, DATA_ROUNDS = 800, OPTIONS_ROUNDS = 1000, RANKS_DIVIDE = 50 };
enum { FILE_MAX = 1 << 16, NAME_MAX_BYTES = 32 };
enum { BOUND = 1 << 18 }; /* bytes beside four times the file: windows, blocks, buckets */

/* Read by the sanitizers, whose libraries see only what is not hidden. From a damaged file HDF5
   1.10 takes any number of bytes to ask for, reads past the end of its own blocks, and forgets
   some: that is not looked for here. */
#pragma GCC visibility push(default)
const char *__asan_default_options(void);
const char *__asan_default_suppressions(void);
const char *__lsan_default_suppressions(void);
#pragma GCC visibility pop

const char *__asan_default_options(void)
{
  return "allocator_may_return_null=1";
}

const char *__asan_default_suppressions(void)
{
  return "interceptor_via_lib:libhdf5\n";
}

const char *__lsan_default_suppressions(void)
{
  return "leak:libhdf5\n";
}

typedef struct {
  RengaComm comm;
  MPI_Comm mpi;
  int rank;
} World;

/* A kind of file: right ones, and how one is read. */
typedef struct {
  const char *name, *file;
  int files, rounds;
  RengaErrorCode (*make)(int number, size_t *count, unsigned char bytes[]);
  RengaErrorCode (*read)(const World *world, const char *file); /* the code of what is wrong */
} Kind;

static RengaErrorCode Slurp(const char *name, size_t *count, unsigned char bytes[])
{
  FILE *file = fopen(name, "rb");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s", name);
  *count = fread(bytes, 1, FILE_MAX, file);
  fclose(file);
  return RENGA_SUCCESS;
}

/* ---- networks: those of write.h, and one of operators that become several ---- */
static const char several[] =
    "in x f32 N 4 6; init v f32 6 : 1 2 3 4 5 6; init s f32 1 4 3 : 1 0 1 0 1 0 1 0 1 0 1 0; "
    "RotaryEmbedding x s s -> r num_heads=1; Attention r r x -> a q_num_heads=2 kv_num_heads=2 "
    "is_causal=1; RMSNormalization a v -> n; Einsum n v -> e equation=ntd,d->nt; out e";

static RengaErrorCode MakeNetwork(int number, size_t *count, unsigned char bytes[])
{
  Message *message = number < N_MODELS ? NewNetwork(number) : NewModelOf(23, several);
  *count = message->count;
  memcpy(bytes, message->bytes, message->count);
  MessageFree(message);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadNetwork(const World *world, const char *file)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(world->comm, &graph));
  RengaErrorCode code = RengaGraphReadOnnx(graph, file);
  if (code == RENGA_SUCCESS) code = RengaGraphSetUp(graph);
  RengaCall(RengaGraphDestroy(&graph));
  return code;
}

/* ---- data sets: images and labels; packed in chunks; tokens ---- */
static void Put(hid_t file, const char *path, hid_t type, int ndim, const hsize_t dims[],
                bool packed, const void *values)
{
  hid_t space = H5Screate_simple(ndim, dims, NULL), create = H5Pcreate(H5P_DATASET_CREATE);
  if (packed) {
    H5Pset_chunk(create, ndim, dims);
    H5Pset_deflate(create, 4);
    H5Pset_fletcher32(create);
  }
  hid_t id = H5Dcreate2(file, path, type, space, H5P_DEFAULT, create, H5P_DEFAULT);
  H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Dclose(id);
  H5Pclose(create);
  H5Sclose(space);
}

static void MakeArrays(const char *name, bool packed)
{
  static const float x[8 * 4] = {1, 2, 3, 4};
  static const int64_t label[8] = {0, 1, 2, 1};
  const hsize_t dims[] = {8, 4};
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  Put(file, "x", H5T_NATIVE_FLOAT, 2, dims, packed, x);
  Put(file, "label", H5T_NATIVE_INT64, 1, dims, packed, label);
  H5Fclose(file);
}

static void PutAttribute(hid_t file, const char *name, hid_t type, const void *value)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t id = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(id, type, value);
  H5Aclose(id);
  H5Sclose(space);
}

static void MakeTokens(const char *name)
{
  static const unsigned char tokens[100] = "words after words";
  static const int64_t sequence = 8, vocabulary = 256;
  const hsize_t length = sizeof tokens;
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 6);
  PutAttribute(file, "format", text, "tokens");
  PutAttribute(file, "sequence", H5T_NATIVE_INT64, &sequence);
  PutAttribute(file, "vocabulary", H5T_NATIVE_INT64, &vocabulary);
  Put(file, "training", H5T_NATIVE_UINT8, 1, &length, false, tokens);
  H5Tclose(text);
  H5Fclose(file);
}

static const char made_file[] = "onnx-mutations-made.h5";

static RengaErrorCode MakeArrayData(int number, size_t *count, unsigned char bytes[])
{
  MakeArrays(made_file, number == 1);
  RengaCall(Slurp(made_file, count, bytes));
  remove(made_file);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeTokenData(int number, size_t *count, unsigned char bytes[])
{
  (void)number;
  MakeTokens(made_file);
  RengaCall(Slurp(made_file, count, bytes));
  remove(made_file);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadSamples(RengaData data, int fields)
{
  unsigned char sample[256];
  int64_t samples = 0;
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &samples));
  for (int64_t i = 0; i < samples && i < 8; i++)
    for (int f = 0; f < fields; f++)
      RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, f, 0, i, 1, sample));
  return RENGA_SUCCESS;
}

/* Fields that are right for arrays of 4 numbers and a class, or for windows of 8 tokens. */
static RengaErrorCode ReadFields(const World *world, const char *file, RengaTensorSpec x,
                                 RengaTensorSpec y, int64_t classes_of_x, int64_t classes_of_y)
{
  static const char *const names[] = {"x", "label"};
  const RengaTensorSpec specs[] = {x, y};
  const int64_t classes[] = {classes_of_x, classes_of_y};
  RengaData data;
  RengaCall(RengaDataCreate(world->comm, &data));
  RengaCall(RengaDataSetFile(data, file));
  RengaErrorCode code = RengaDataSetFields(data, 2, names, specs, classes);
  if (code == RENGA_SUCCESS) code = ReadSamples(data, 2);
  RengaCall(RengaDataDestroy(&data));
  return code;
}

static RengaErrorCode ReadArrays(const World *world, const char *file)
{
  const RengaTensorSpec x = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {4}};
  return ReadFields(world, file, x, (RengaTensorSpec){.type = RENGA_INT64}, 0, 3);
}

static RengaErrorCode ReadTokens(const World *world, const char *file)
{
  const RengaTensorSpec window = {.type = RENGA_INT64, .ndim = 1, .dim = {8}};
  return ReadFields(world, file, window, window, 256, 256);
}

/* ---- options: Renga is started and ended for each file ---- */
static RengaErrorCode MakeOptions(int number, size_t *count, unsigned char bytes[])
{
  static const char *const texts[] = {
      "# how to train\n-optimizer_type adamw -optimizer_learning_rate 1e-3\n-data_samples 4096\n"
      "-data_shuffle no\n-timeout 60 -partition_memory 8GiB\n-graph \"mlp:width=8\"\n",
      "-graph 'gpt:layers=2'\n\n\t-data_validation 0.25 # a quarter\n-log_view\n-data_samples=7\n",
  };
  *count = strlen(texts[number]);
  memcpy(bytes, texts[number], *count);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadOptions(const World *world, const char *file)
{
  static char program[] = "mutations", option[] = "-options_file", name[NAME_MAX_BYTES];
  char *words[] = {program, option, name, NULL}, **argv = words;
  int argc = 3;
  (void)world;
  snprintf(name, sizeof name, "%s", file);
  RengaErrorCode code = RengaInitialize(&argc, &argv, NULL), ended = RengaFinalize();
  RengaCall(ended);
  return code;
}

/* ---- changes ---- */

/* Up to four bytes changed, removed or doubled, by numbers that depend on the round alone. */
static size_t Mutate(int round, size_t count, const unsigned char from[], unsigned char to[])
{
  uint32_t random[4], key[2] = {7, 11};
  memcpy(to, from, count);
  for (int i = 0; i <= round % 4; i++) {
    RengaPhilox((uint32_t[4]){(uint32_t)round, (uint32_t)i, 0, 0}, key, random);
    size_t at = random[0] % count, length = 1 + random[1] % 8;
    bool fits = at + length < count;
    switch (random[2] % 4) {
    case 0:
      to[at] = (unsigned char)random[3];
      break;
    case 1:
      to[at] ^= (unsigned char)(1u << random[3] % 8);
      break;
    case 2:
      if (fits) memmove(to + at, to + at + length, count - at - length), count -= length;
      break;
    default:
      if (fits && count + length < FILE_MAX)
        memmove(to + at + length, to + at, count - at), count += length;
    }
  }
  return count;
}

/* Rank 0 writes, all read; what is said about it goes nowhere. */
static RengaErrorCode ReadChanged(const World *world, const Kind *kind, size_t count,
                                  const unsigned char bytes[], RengaErrorCode *code)
{
  enum { STREAMS = 2 };
  static const int stream[STREAMS] = {STDOUT_FILENO, STDERR_FILENO};
  int kept[STREAMS], nowhere = open("/dev/null", O_WRONLY);
  RengaCallMPI(MPI_Barrier(world->mpi));
  if (world->rank == 0) RengaCall(WriteBytes(bytes, count, kind->file));
  RengaCallMPI(MPI_Barrier(world->mpi));
  fflush(NULL);
  for (int i = 0; i < STREAMS; i++) {
    kept[i] = dup(stream[i]);
    dup2(nowhere, stream[i]);
  }
  *code = kind->read(world, kind->file);
  fflush(NULL);
  for (int i = 0; i < STREAMS; i++) {
    dup2(kept[i], stream[i]);
    close(kept[i]);
  }
  close(nowhere);
  return RENGA_SUCCESS;
}

/* The peak since the start of the program is the most that any file has cost so far. */
static RengaErrorCode CheckMemory(const Kind *kind, int number, int round, size_t count,
                                  size_t before)
{
  size_t bytes, peak;
  int64_t blocks;
  RengaMemoryGetUsage(&bytes, &peak, &blocks);
  RengaCheck(bytes == before, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "%s %d, round %d: %zu bytes are left", kind->name, number, round, bytes - before);
  RengaCheck(peak <= before + 4 * count + BOUND, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "%s %d, round %d: %zu bytes at peak for a file of %zu bytes", kind->name, number,
             round, peak - before, count);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunFile(const World *world, const Kind *kind, int number, int rounds,
                              int *refused)
{
  static unsigned char whole[FILE_MAX], changed[FILE_MAX];
  size_t count = 0, before, peak;
  int64_t blocks;
  RengaErrorCode code;
  if (world->rank == 0) RengaCall(kind->make(number, &count, whole));
  RengaCallMPI(MPI_Bcast(&count, sizeof count, MPI_BYTE, 0, world->mpi));
  RengaCallMPI(MPI_Bcast(whole, (int)count, MPI_BYTE, 0, world->mpi));
  RengaMemoryGetUsage(&before, &peak, &blocks);
  RengaCall(ReadChanged(world, kind, count, whole, &code));
  RengaCheck(code == RENGA_SUCCESS, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s %d is right, but cannot be read: %s", kind->name, number, RengaErrorText(code));
  for (int round = 0; round < rounds; round++) {
    size_t size = Mutate(round, count, whole, changed);
    RengaCall(ReadChanged(world, kind, size, changed, &code));
    RengaCall(CheckMemory(kind, number, round, size, before));
    *refused += code != RENGA_SUCCESS;
    RengaCheck(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL) == 0, MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "%s %d, round %d: objects of HDF5 are left open", kind->name,
               number, round);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunKinds(const World *world, int count, const Kind kinds[])
{
  int ranks;
  RengaCallMPI(MPI_Comm_size(world->mpi, &ranks));
  for (int k = 0; k < count; k++) {
    int refused = 0, rounds = kinds[k].rounds / (ranks == 1 ? 1 : RANKS_DIVIDE);
    for (int number = 0; number < kinds[k].files; number++)
      RengaCall(RunFile(world, &kinds[k], number, rounds, &refused));
    Expect(refused > rounds / 4); /* the changes do reach what is read */
    RengaCallMPI(MPI_Barrier(world->mpi));
    if (world->rank == 0) remove(kinds[k].file);
  }
  return RENGA_SUCCESS;
}

/* Of options the programs are started and ended here, so MPI is not Renga's. */
static RengaErrorCode RunOptions(void)
{
  static const Kind kind = {"options",  "onnx-mutations.options", 2, OPTIONS_ROUNDS, MakeOptions,
                            ReadOptions};
  World world = {.mpi = MPI_COMM_WORLD};
  MPI_Comm_rank(world.mpi, &world.rank);
  RengaCall(RunKinds(&world, 1, &kind));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunFiles(void)
{
  static const Kind kinds[] = {
      {"network", "onnx-mutations.onnx", N_MODELS + 1, ONNX_ROUNDS, MakeNetwork, ReadNetwork},
      {"arrays", "onnx-mutations.h5", 2, DATA_ROUNDS, MakeArrayData, ReadArrays},
      {"tokens", "onnx-mutations.h5", 1, DATA_ROUNDS, MakeTokenData, ReadTokens},
  };
  World world;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &world.comm));
  RengaCall(RengaObjectGetComm(world.comm, &world.mpi));
  RengaCallMPI(MPI_Comm_rank(world.mpi, &world.rank));
  RengaCall(RunKinds(&world, (int)(sizeof kinds / sizeof kinds[0]), kinds));
  RengaCall(RengaCommDestroy(&world.comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(int *argc, char ***argv)
{
  RengaCallMPI(MPI_Init(argc, argv));
  RengaCall(RunOptions());
  RengaCall(RengaInitialize(argc, argv, NULL));
  RengaCall(RunFiles());
  RengaCall(RengaFinalize());
  /* HDF5 ends here; some broken files leave blocks in it, and it says so */
  FILE *file;
  int saved = BeginErrors(&file), error = MPI_Finalize();
  EndErrors(file, saved);
  Expect(error == MPI_SUCCESS);
  return RENGA_SUCCESS;
}

/* An option that ends the program would hide the rest of the test. */
static bool ended;
static void CheckEnd(void)
{
  if (!ended) _exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
  atexit(CheckEnd);
  RengaCallAbort(Run(&argc, &argv));
  ended = true;
  return 0;
}
