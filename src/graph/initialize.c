/* First values of parameters and states: drawn by name and seed, or read from a file. */
#include "graphimpl.h"
#include "renga/private/open.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 16384 }; /* elements that are read and converted at once */

static RengaErrorCode FillConstant(const RengaGraphValue *value, uint64_t seed, int64_t first,
                                   int64_t count, float out[])
{
  (void)seed;
  (void)first;
  for (int64_t i = 0; i < count; i++) out[i] = (float)value->init.a;
  return RENGA_SUCCESS;
}

static uint64_t InitStream(const RengaGraphValue *value)
{
  return RengaHash(value->name, strlen(value->name), 0);
}

static RengaErrorCode FillNormalInit(const RengaGraphValue *value, uint64_t seed, int64_t first,
                                     int64_t count, float out[])
{
  RengaRandomNormal(seed, InitStream(value), (uint64_t)first, count, out);
  for (int64_t i = 0; i < count; i++)
    out[i] = (float)(value->init.a + value->init.b * (double)out[i]);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillUniform(const RengaGraphValue *value, uint64_t seed, int64_t first,
                                  int64_t count, float out[])
{
  double width = value->init.b - value->init.a;
  RengaRandomUniform(seed, InitStream(value), (uint64_t)first, count, out);
  for (int64_t i = 0; i < count; i++) out[i] = (float)(value->init.a + width * (double)out[i]);
  return RENGA_SUCCESS;
}

static float FromBits(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float FromShort(RengaDataType type, const unsigned char *at)
{
  const uint16_t bits = (uint16_t)(at[0] | at[1] << 8);
  float value = 0;
  RengaDataWiden(type, 1, &bits, &value);
  return value;
}

static float FromFloat16(const unsigned char *at)
{
  return FromShort(RENGA_FLOAT16, at);
}

static float FromBfloat16(const unsigned char *at)
{
  return FromShort(RENGA_BFLOAT16, at);
}

static float FromFloat32(const unsigned char *at)
{
  return FromBits((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                  (uint32_t)at[3] << 24);
}

static float FromFloat64(const unsigned char *at)
{
  uint64_t bits = 0;
  double value;
  for (int i = 0; i < 8; i++) bits |= (uint64_t)at[i] << (8 * i);
  memcpy(&value, &bits, sizeof value);
  return (float)value;
}

static float (*const converters[RENGA_TYPE_COUNT])(const unsigned char *) = {
    [RENGA_FLOAT16] = FromFloat16,
    [RENGA_BFLOAT16] = FromBfloat16,
    [RENGA_FLOAT32] = FromFloat32,
    [RENGA_FLOAT64] = FromFloat64,
};

/* In double precision, and rounded once. */
static float Mapped(const RengaInit *init, float number)
{
  if (!init->map && init->a == 0) return number; /* also the sign of a zero */
  return (float)((init->map ? init->map((double)number) : (double)number) + init->a);
}

static RengaErrorCode ReadChunks(const RengaGraphValue *value, FILE *file, unsigned char *buffer,
                                 int64_t offset, int64_t count, float out[])
{
  const RengaInit *init = &value->init;
  size_t size = RengaDataTypeSize(init->type);
  RengaCheck(fseeko(file, (off_t)offset, SEEK_SET) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: cannot go to byte %lld for \"%s\": %s", init->file, (long long)offset,
             value->name, RengaFileReason_Private(errno));
  for (int64_t done = 0; done < count; done += CHUNK) {
    size_t want = (size_t)(count - done < CHUNK ? count - done : CHUNK);
    size_t got = fread(buffer, size, want, file);
    RengaCheck(got == want, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s: the file ends before the data of \"%s\": %lld elements of %zu bytes from byte "
               "%lld on are needed",
               init->file, value->name, (long long)count, size, (long long)offset);
    for (size_t i = 0; i < got; i++)
      out[done + (int64_t)i] = Mapped(init, converters[init->type](buffer + i * size));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckInitFile(const RengaGraphValue *value)
{
  const RengaInit *init = &value->init;
  RengaCheck(init->file, MPI_COMM_SELF, RENGA_ERR_GRAPH, "\"%s\" has no file for its first values",
             value->name);
  bool known = (int)init->type >= 0 && init->type < RENGA_TYPE_COUNT && converters[init->type];
  RengaCheck(known, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s: \"%s\" is stored as %s; parameters are read from floating types", init->file,
             value->name, RengaDataTypeName(init->type));
  int64_t needed = RengaTensorSpecCount(&value->spec) * (int64_t)RengaDataTypeSize(init->type);
  RengaCheck(init->offset >= 0 && (init->bytes == 0 || init->bytes == needed), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s: \"%s\" has %lld bytes at %lld, its shape needs %lld",
             init->file, value->name, (long long)init->bytes, (long long)init->offset,
             (long long)needed);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillFromFile(const RengaGraphValue *value, uint64_t seed, int64_t first,
                                   int64_t count, float out[])
{
  (void)seed;
  RengaCall(CheckInitFile(value));
  const RengaInit *init = &value->init;
  unsigned char *buffer = NULL;
  FILE *file = RengaFileOpen_Private(init->file, "rb");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s (first values of \"%s\")",
             init->file, RengaFileReason_Private(errno), value->name);
  RengaErrorCode code = RengaMalloc((size_t)CHUNK * RengaDataTypeSize(init->type), &buffer);
  int64_t offset = init->offset + first * (int64_t)RengaDataTypeSize(init->type);
  if (code == RENGA_SUCCESS) code = ReadChunks(value, file, buffer, offset, count, out);
  RengaFree(&buffer);
  fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Sines and cosines of a place's angles, each with half of a row [places, width]; in float32 as
   other libraries have them. */
static RengaErrorCode FillSinusoids(const RengaGraphValue *value, uint64_t seed, int64_t first,
                                    int64_t count, float out[])
{
  const int64_t width = value->spec.dim[value->spec.ndim - 1], half = width / 2;
  const double step = log(10000) / (double)(half - 1);
  (void)seed;
  for (int64_t i = 0; i < count; i++) {
    const int64_t place = (first + i) / width, number = (first + i) % width;
    const float power = (float)-step * (float)(number % half);
    const float angle = (float)place * (float)exp((double)power);
    out[i] = (float)(number < half ? sin((double)angle) : cos((double)angle));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode (*const fillers[])(const RengaGraphValue *, uint64_t, int64_t, int64_t,
                                         float[]) = {
    [RENGA_INIT_CONSTANT] = FillConstant,
    [RENGA_INIT_NORMAL] = FillNormalInit,
    [RENGA_INIT_UNIFORM] = FillUniform,
    [RENGA_INIT_FILE] = FillFromFile,
    [RENGA_INIT_SINUSOIDS] = FillSinusoids,
};

/*@
   RengaGraphInitializeValue - first values of a parameter or state

   Input:
   . value - a parameter or state
   . seed - the seed of the run, any number
   . first, count - the first element of its logical shape, from 0, in C order, and the number of
     elements, at least 0

   Output:
   . out - [count]

   Errors: RENGA_ERR_ARGUMENT for a value that is no parameter or state, or elements that it does
   not have.

   Notes: an element depends on the value's name, the seed and the element's number only, so
   each rank makes just what it holds. Files are raw little-endian numbers; float16, bfloat16
   and float64 are converted.

   See also: RengaGraphAddParameter(), RengaGraphAddState()
@*/
RengaErrorCode RengaGraphInitializeValue(RengaGraph graph, RengaValue value, uint64_t seed,
                                         int64_t first, int64_t count, float out[])
{
  RengaCheckPointer(graph);
  RengaCall(RengaGraphCheckValue(graph, value));
  const RengaGraphValue *at = graph->value[value];
  RengaCheck(at->kind == RENGA_VALUE_PARAMETER || at->kind == RENGA_VALUE_STATE, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "\"%s\" is no parameter or state", at->name);
  RengaCheck(first >= 0 && count >= 0 && first + count <= RengaTensorSpecCount(&at->spec),
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "elements %lld to %lld of \"%s\", which has %lld",
             (long long)first, (long long)(first + count), at->name,
             (long long)RengaTensorSpecCount(&at->spec));
  if (count > 0) RengaCall(fillers[at->init.kind](at, seed, first, count, out));
  return RENGA_SUCCESS;
}
